//! Every conformance case on the embedded API.

use modelway_apiserver::{ApiServer, Options};

use super::runner;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_api_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    runner::judge(&runner::run_all(|| server.client("default"), |_, _| Box::pin(async {})).await);
}
