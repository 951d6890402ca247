//! What the cluster can do, asked once before work begins.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;

/// For one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Tries while the API server does not answer, and the wait between them.
const TRIES: u32 = 5;
const WAIT: Duration = Duration::from_secs(2);

/// Whether pods can mount a model image as a volume: the API server keeps image volumes with a sub-path, and the
/// runtime of every node can mount them. What cannot be asked, for lack of a permission or of an answer, is taken to
/// be so: it is so on every supported release. A controller of named namespaces asks in one of them, and not for nodes.
pub async fn image_volumes(client: &Client, only: Option<&str>) -> bool {
    for _ in 0..TRIES {
        match tokio::time::timeout(ANSWER, ask(client, only)).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => return taken_to_be_there(&status.message),
            Ok(Err(error)) => tracing::debug!(%error, "no answer about image volumes yet"),
            Err(_) => tracing::debug!("no answer about image volumes within {ANSWER:?}"),
        }
        tokio::time::sleep(WAIT).await;
    }
    taken_to_be_there("no answer")
}

fn taken_to_be_there(why: &str) -> bool {
    tracing::warn!(why, "cannot ask about image volumes; they are taken to be there");
    true
}

async fn ask(client: &Client, only: Option<&str>) -> kube::Result<bool> {
    if !keeps_image_volumes(client, only.unwrap_or("default")).await? {
        tracing::info!("the API server drops image volumes; models are pulled by init containers");
        return Ok(false);
    }
    if only.is_some() {
        return Ok(true);
    }
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    let unable = nodes.items.iter().find(|node| {
        let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        info.is_some_and(|info| !mounts_images(&info.container_runtime_version))
    });
    if let Some(node) = unable {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        tracing::info!(node = name, "its runtime mounts no image volumes; models are pulled by init containers");
    }
    Ok(unable.is_none())
}

/// Older servers drop the volume's source (feature gate `ImageVolume`); a dry run shows it.
async fn keeps_image_volumes(client: &Client, namespace: &str) -> kube::Result<bool> {
    let probe = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "modelway-image-volume-probe" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "probe" } },
            "template": {
                "metadata": { "labels": { "app": "probe" } },
                "spec": {
                    "containers": [{ "name": "c", "image": "i", "volumeMounts": [
                        { "name": "model", "mountPath": "/model", "subPath": "models", "readOnly": true }] }],
                    "volumes": [{ "name": "model", "image": { "reference": "r/i", "pullPolicy": "IfNotPresent" } }],
                },
            },
        },
    });
    let probe = serde_json::from_value::<Deployment>(probe).map_err(kube::Error::SerdeError)?;
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match Api::<Deployment>::namespaced(client.clone(), namespace).create(&params, &probe).await {
        Ok(kept) => {
            let volumes = kept.spec.and_then(|spec| spec.template.spec).and_then(|spec| spec.volumes);
            Ok(volumes.into_iter().flatten().any(|volume| volume.image.is_some()))
        }
        // A volume without the source that was dropped is invalid.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a runtime, as a node names it, mounts image volumes with a sub-path: containerd from 2.2, CRI-O from 1.33.
/// Others are taken to do so.
fn mounts_images(runtime: &str) -> bool {
    let Some((name, version)) = runtime.split_once("://") else { return true };
    let mut numbers = version.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().unwrap_or(0)
    });
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match name {
        "containerd" => version >= (2, 2),
        "cri-o" => version >= (1, 33),
        "docker" => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_by_version() {
        for able in ["containerd://2.4.2", "containerd://2.2.0-rc.1", "cri-o://1.33.1", "modelway://0.1.0"] {
            assert!(mounts_images(able), "{able}");
        }
        for unable in ["containerd://1.7.27", "containerd://2.1.9", "cri-o://1.32.0", "docker://28.0.1"] {
            assert!(!mounts_images(unable), "{unable}");
        }
    }
}
