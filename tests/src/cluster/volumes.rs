//! Storage for claims: folders of this machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::{Cluster, Error};

/// Makes that many more volumes.
pub async fn make(cluster: &Cluster, count: usize) -> Result<(), Error> {
    let volumes: Api<PersistentVolume> = Api::all(cluster.client().await?);
    for _ in 0..count {
        let name = format!("volume-{}", cluster.volumes.fetch_add(1, Ordering::Relaxed));
        let folder = cluster.state_dir().join("volumes").join(&name);
        // Made here: a folder that the kubelet makes belongs to root alone.
        fs::create_dir_all(&folder)
            .and_then(|()| fs::set_permissions(&folder, Permissions::from_mode(0o777)))
            .map_err(|source| Error::State { path: folder.clone(), source })?;
        let object = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            },
        });
        let refused = |source| Error::Api { what: format!("PersistentVolume {name}"), source: Box::new(source) };
        let object = serde_json::from_value(object).map_err(|error| refused(kube::Error::SerdeError(error)))?;
        volumes.create(&PostParams::default(), &object).await.map_err(refused)?;
    }
    Ok(())
}
