//! Every conformance case on a Kubernetes cluster that the environment names: what it fails is no conformance case.

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::runner;

/// Names the kubeconfig of a cluster to try out things on: the cases create and delete namespaces and definitions.
const KUBECONFIG: &str = "MODELWAY_TEST_KUBECONFIG";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_api_conforms() {
    let Some(client) = client().await else { return };
    let outcomes = runner::run_all(|| client.clone(), |client, namespace| Box::pin(account(client, namespace))).await;
    eprintln!("{}", runner::table(&outcomes));
    runner::judge(&outcomes);
}

/// Pods are admitted once the controllers have given the namespace its account.
async fn account(client: Client, namespace: String) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &namespace);
    for _ in 0..400 {
        if accounts.get_opt("default").await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("{namespace} gets no service account: does the cluster run the controller manager?");
}

/// A client of the cluster; says so when there is none.
#[expect(clippy::print_stderr, reason = "a test that is skipped says why")]
pub async fn client() -> Option<Client> {
    let Some(path) = std::env::var_os(KUBECONFIG) else {
        eprintln!("skipped: {KUBECONFIG} does not name the kubeconfig of a cluster to test on");
        return None;
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Some(Client::try_from(config).unwrap())
}
