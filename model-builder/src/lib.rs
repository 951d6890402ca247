//! Model images: pack a training output, push it to any OCI registry, pull it back verified.
//!
//! Packing is deterministic: the same files give the same digest on any machine. Pushing reads the files once, in
//! bounded memory, and hashes while it sends. Pulling publishes a folder only when every digest has been checked.
//!
//! The TLS provider is the process's: install one (`rustls::crypto::ring::default_provider().install_default()`)
//! before the first push or pull.

mod auth;
mod client;
mod digest;
mod inspect;
mod media;
mod pack;
mod pull;
mod push;
mod reference;
mod report;
mod source;

pub use auth::{Auth, AuthError};
pub use client::{ClientError, PlainHttp, RetryPolicy};
pub use digest::{Digest, DigestError};
pub use inspect::{ImageSummary, LayerSummary, inspect, list_tags, verify};
pub use pack::PackError;
pub use pull::{PullError, PullLimits, PullRequest, PulledImage, clean_store, pull, pull_into};
pub use push::{PicklePolicy, Progress, ProgressSink, PushError, PushRequest, no_progress, push};
pub use reference::{ImageReference, ReferenceError, Repository};
pub use report::{PushReport, UploadReport};
pub use source::SourceError;
