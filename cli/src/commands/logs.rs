//! `modelway logs`: the log of a pod, also by the name of its Job or Deployment.

use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams, ResourceExt};

use crate::args::LogsArguments;
use crate::exit::{Failure, fail};
use crate::{output, target};

pub async fn run(arguments: &LogsArguments) -> anyhow::Result<()> {
    let target = target::connect(&arguments.target).await?;
    let pods: Api<Pod> = Api::namespaced(target.client, &target.namespace);
    let pod = find(&pods, &arguments.name).await?;
    let parameters = LogParams {
        container: arguments.container.clone(),
        follow: arguments.follow,
        previous: arguments.previous,
        tail_lines: arguments.tail,
        ..LogParams::default()
    };
    let mut stream = pods.log_stream(&pod, &parameters).await.map_err(|error| match error {
        kube::Error::Api(status) => fail(Failure::Refused, format!("no log of {pod}: {}", status.message)),
        other => other.into(),
    })?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        if output::raw(&buffer[..read]).is_err() {
            // The reader of the pipe has seen enough.
            return Ok(());
        }
    }
}

/// The newest pod whose owner the name means.
async fn find(pods: &Api<Pod>, name: &str) -> anyhow::Result<String> {
    let Some((kind, owner)) = name.split_once('/') else { return Ok(name.to_owned()) };
    if kind == "pod" || kind == "pods" {
        return Ok(owner.to_owned());
    }
    let all = pods.list(&ListParams::default()).await?;
    let mut owned: Vec<&Pod> = all.items.iter().filter(|pod| belongs(pod, kind, owner)).collect();
    owned.sort_by_key(|pod| pod.creation_timestamp());
    let newest = owned.last().ok_or_else(|| {
        fail(Failure::Refused, format!("{name} has no pod; see `modelway get pods` and `modelway get events`"))
    })?;
    Ok(newest.name_any())
}

fn belongs(pod: &Pod, kind: &str, owner: &str) -> bool {
    let kind = kind.to_lowercase();
    pod.owner_references().iter().any(|reference| match reference.kind.as_str() {
        "Job" => (kind == "job" || kind == "jobs") && reference.name == owner,
        // The pods of a Deployment belong to ReplicaSets named DEPLOYMENT-HASH.
        "ReplicaSet" => {
            kind.starts_with("deploy")
                && reference.name.rsplit_once('-').is_some_and(|(deployment, _)| deployment == owner)
        }
        _ => false,
    })
}
