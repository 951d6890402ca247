//! Every conformance case on a Kubernetes cluster that the environment names: what it fails is no conformance case.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::runner;

/// Names the kubeconfig of a cluster to try out things on: the cases create and delete namespaces and definitions.
const KUBECONFIG: &str = "MODELWAY_TEST_KUBECONFIG";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_api_conforms() {
    let Some(path) = std::env::var_os(KUBECONFIG) else {
        eprintln!("skipped: {KUBECONFIG} does not name the kubeconfig of a cluster to test on");
        return;
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let outcomes = runner::run_all(|| client.clone()).await;
    eprintln!("{}", runner::table(&outcomes));
    runner::judge(&outcomes);
}
