//! kubectl against the embedded API: what people do, command by command.
//!
//! Skipped, with the reason printed, where there is neither `MODELWAY_KUBECTL` nor Go to build kubectl with.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "kubectl/binary.rs"]
mod binary;
#[path = "kubectl/session.rs"]
mod session;

#[path = "kubectl/applies.rs"]
mod applies;
#[path = "kubectl/discovers.rs"]
mod discovers;
#[path = "kubectl/edits.rs"]
mod edits;
#[path = "kubectl/reads.rs"]
mod reads;
#[path = "kubectl/recorded.rs"]
mod recorded;
#[path = "kubectl/refuses.rs"]
mod refuses;
#[path = "kubectl/waits.rs"]
mod waits;
