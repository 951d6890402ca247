//! The in-process client: `kube::Client` over the router, without a socket.

use std::time::Duration;

use tower::ServiceBuilder;

/// Until the head of the answer; the events of a watch come after it and may take as long as they like.
const TIMEOUT: Duration = Duration::from_secs(30);

pub fn client(router: axum::Router, namespace: &str) -> kube::Client {
    let service = ServiceBuilder::new().timeout(TIMEOUT).service(router);
    kube::Client::new(service, namespace)
}
