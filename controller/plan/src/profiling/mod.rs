//! Experiments that look for the best container spec, and the trials that they are made of.

pub mod attempts;
mod child;
mod client;
mod client_state;
mod cores;
mod cost;
mod ended;
mod error;
pub mod experiment;
mod experiment_status;
mod load;
pub mod metrics;
pub mod patch;
mod question;
pub mod result;
pub mod room;
mod service;
pub mod space;
mod target;
pub mod template;
pub mod trial;
mod trial_status;
mod under_test;
mod values;

pub use error::QuestionError;
