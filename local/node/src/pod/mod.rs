//! One pod: what is wanted, what was seen, what to do next.

pub mod adopt;
pub mod advice;
pub mod backoff;
pub mod downward;
pub mod environment;
pub mod exec;
pub mod expand;
pub mod launch;
pub mod outcome;
pub mod plan;
pub mod probe;
pub mod prober;
pub mod record;
pub mod rewrite;
pub mod rules;
pub mod run;
pub mod status;
pub mod subpath;
pub mod volumes;
pub mod worker;
