//! A control plane to judge the embedded API by: one started here, or one that the environment names.

use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use modelway_tests::cluster::{self, Level};

/// Names the kubeconfig of a cluster to try out things on: the cases create and delete namespaces and definitions.
const KUBECONFIG: &str = "MODELWAY_TEST_KUBECONFIG";

/// Whether the clusters here are of the oldest version that is supported; the embedded API follows the newest.
pub fn is_oldest() -> bool {
    std::env::var("MODELWAY_TEST_OLDEST").is_ok_and(|value| value == "1")
}

/// Pods are admitted once the controllers have given the namespace its account.
pub async fn account(client: Client, namespace: String) {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &namespace);
    for _ in 0..1200 {
        if accounts.get_opt("default").await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("{namespace} gets no service account: does the cluster run the controller manager?");
}

/// A client of the cluster; says so when there is none.
pub async fn client() -> Option<Client> {
    let Some(path) = std::env::var_os(KUBECONFIG) else {
        return Some(cluster::shared(Level::Control).await?.client().await.unwrap());
    };
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Some(Client::try_from(config).unwrap())
}
