//! Claims of storage.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use crate::cluster::Cluster;

#[tokio::test]
async fn a_claim_is_a_folder_that_stays_while_a_pod_uses_it() {
    let cluster = Cluster::start(31);
    cluster
        .create::<PersistentVolumeClaim>(json!({"metadata": {"name": "output"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    let is_bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"))
    };
    let claim = cluster.wait::<PersistentVolumeClaim>("output", is_bound).await;
    let uid = claim.uid().unwrap();
    assert_eq!(claim.spec.unwrap().volume_name, Some(format!("local-{uid}")));
    assert_eq!(claim.status.unwrap().capacity.unwrap()["storage"].0, "1Gi");
    let folder = cluster.folder.path().join(format!("volumes/default/output-{uid}"));
    std::fs::write(folder.join("model.onnx"), "weights").unwrap();

    cluster
        .create::<Pod>(json!({"metadata": {"name": "user"}, "spec": {
            "containers": [{"name": "main", "image": "v1"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "output"}}]}}))
        .await;
    cluster.run_pod("user", "127.1.0.1", true).await;
    cluster.api::<PersistentVolumeClaim>().delete("output", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(folder.join("model.onnx").exists(), "a running pod uses it");
    cluster.end_pod("user", 0).await;
    let gone = async {
        while cluster.api::<PersistentVolumeClaim>().get_opt("output").await.unwrap().is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::cluster::PATIENCE, gone).await.unwrap();
    assert!(!folder.exists());
}
