//! Embedded Kubernetes-style API server over `SQLite`.

mod body;
pub mod builtin;
mod client;
mod collector;
mod crds;
pub mod discovery;
pub mod kinds;
mod limits;
pub mod logs;
mod meta;
mod names;
pub mod open_api;
mod path;
pub mod pki;
mod query;
mod read;
mod rest;
mod selector;
mod server;
pub mod status;
pub mod store;
mod strategy;
pub mod table;
mod tls;
mod versions;
mod view;
mod watch;
mod write;

pub use logs::{LogError, LogRequest, LogStream, PodLogs};
pub use server::{ApiServer, InstallError, OpenError, Options};
pub use tls::ServeError;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use kinds::{KindSet, ResourceKind};
use store::{Object, Store};

/// What requests and background work share.
#[derive(Debug)]
pub struct Core {
    store: Store,
    builtin: Vec<Arc<ResourceKind>>,
    custom: Mutex<HashMap<String, crds::Registered>>,
    kinds: RwLock<Arc<KindSet>>,
    logs: logs::LogSource,
    /// Held by the eviction under way.
    evictions: tokio::sync::Mutex<()>,
    shutdown: CancellationToken,
}

impl Core {
    /// What is served now.
    pub fn kinds(&self) -> Arc<KindSet> {
        self.kinds.read().clone()
    }

    fn set_kinds(&self, kinds: KindSet) {
        *self.kinds.write() = Arc::new(kinds);
    }

    /// Follows up a write before it is answered: a definition's kind is served when its creation returns.
    fn after_write(&self, object: &Object) {
        if *object.key.resource == *crds::RESOURCE {
            crds::refresh(self, &object.key.name);
        }
    }
}
