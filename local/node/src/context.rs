//! What all workers of a node share.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::address::AddressPool;
use crate::events::EventSink;
use crate::images::ImagesInUse;
use crate::layout::Layout;
use crate::limits::Limiter;
use crate::options::NodeOptions;

/// No call to the API may hang a pod.
pub const CALL_LIMIT: Duration = Duration::from_secs(10);

/// The shared parts.
pub struct Context {
    pub options: NodeOptions,
    pub layout: Layout,
    pub addresses: Mutex<AddressPool>,
    pub images: ImagesInUse,
    pub events: EventSink,
    pub limits: Limiter,
    /// `NAME=value` mark of this data folder, split.
    pub data_mark: (String, String),
    pub cores: u64,
    pub memory_bytes: u64,
}

/// A shared [`Context`].
pub type Shared = Arc<Context>;

/// Calls the API with a limit; a call that takes too long is an error like any other.
pub async fn call<T>(future: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(CALL_LIMIT, future).await {
        Ok(result) => result,
        Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
    }
}

/// Whether the API says that the object does not exist.
pub fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
