//! Several calls at once, within a bound.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;

/// Calls that one reconcile has in flight at a time.
const BURST: usize = 16;

/// Runs all of them, even when some fail.
pub(crate) async fn run<F: Future>(steps: Vec<F>) -> Vec<F::Output> {
    stream::iter(steps).buffer_unordered(BURST).collect().await
}

/// The pods with these uids.
pub(crate) fn chosen<'a>(pods: &'a [Arc<Pod>], uids: &[String]) -> Vec<&'a Pod> {
    let wanted = |pod: &&Arc<Pod>| pod.metadata.uid.as_ref().is_some_and(|uid| uids.contains(uid));
    pods.iter().filter(wanted).map(AsRef::as_ref).collect()
}
