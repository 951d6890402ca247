//! `modelway doctor --release`: takes our finalizer off training jobs, so that nothing waits for a controller that is
//! gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams},
    core::ObjectMeta,
};
use modelway_api::labels::PUBLISH_FINALIZER;
use serde_json::{Value, json};

use crate::args::{DoctorArguments, WorkloadName};
use crate::exit::{Failure, fail};
use crate::output;

/// Longest time for all of it.
const DEADLINE: Duration = Duration::from_secs(90);
const PERIOD: Duration = Duration::from_millis(500);
/// Longest time for the controller's pods to end: more than their grace period.
const PODS_GONE: Duration = Duration::from_mins(1);
/// Jobs read at once.
const PAGE: u32 = 500;

pub async fn run(client: &Client, arguments: &DoctorArguments) -> anyhow::Result<()> {
    let late = || {
        let message = format!(
            "jobs are still held after {} s: a controller that runs holds them again; name it with --stop",
            DEADLINE.as_secs()
        );
        fail(Failure::TimedOut, message)
    };
    tokio::time::timeout(DEADLINE, release(client, arguments)).await.unwrap_or_else(|_| Err(late()))
}

async fn release(client: &Client, arguments: &DoctorArguments) -> anyhow::Result<()> {
    if let Some(controller) = &arguments.stop {
        stop(client, controller).await.with_context(|| format!("cannot stop the controller {controller}"))?;
    }
    let apis: Vec<Api<Job>> = if arguments.watch_namespaces.is_empty() {
        vec![Api::all(client.clone())]
    } else {
        arguments.watch_namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
    };
    let mut released = 0;
    loop {
        let found = pass(client, &apis).await?;
        released += found;
        if found == 0 {
            break;
        }
    }
    output::line(&format!("released {released} jobs"));
    Ok(())
}

/// Scales the controller to nothing, waits until its last pod is gone, and removes its Lease.
async fn stop(client: &Client, controller: &WorkloadName) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &controller.namespace);
    let Some(live) = deployments.get_opt(&controller.name).await? else { return Ok(()) };
    let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    deployments.patch_scale(&controller.name, &PatchParams::default(), &none).await?;
    let selector = live.spec.and_then(|spec| spec.selector.match_labels).unwrap_or_default();
    if selector.is_empty() {
        return Err(fail(Failure::Usage, format!("Deployment {controller} selects its pods by no label")));
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), &controller.namespace);
    let own = ListParams::default().labels(&query(&selector));
    let start = Instant::now();
    // A pod that is told to stop may still hold one more job, or make the Lease anew.
    while !pods.list_metadata(&own).await?.items.is_empty() {
        if start.elapsed() > PODS_GONE {
            let message = format!("pods of {controller} are still there after {} s", PODS_GONE.as_secs());
            return Err(fail(Failure::TimedOut, message));
        }
        tokio::time::sleep(PERIOD).await;
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), &controller.namespace);
    match leases.delete(&controller.name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

fn query(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// Releases every job that is held now; returns how many there were.
async fn pass(client: &Client, apis: &[Api<Job>]) -> anyhow::Result<usize> {
    let mut found = 0;
    for api in apis {
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list_metadata(&page).await?;
            for job in &list.items {
                found += usize::from(let_go(client, job).await?);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(found)
}

/// Releases one job; whether it was held.
async fn let_go(client: &Client, job: &PartialObjectMeta<Job>) -> anyhow::Result<bool> {
    let Some(patch) = patch(&job.metadata) else { return Ok(false) };
    let name = job.metadata.name.clone().unwrap_or_default();
    let namespace = job.metadata.namespace.clone().unwrap_or_default();
    let api: Api<Job> = Api::namespaced(client.clone(), &namespace);
    match api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        // Gone, or changed: the next pass sees.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(true),
        Ok(_) => {
            output::line(&format!("job/{name} in {namespace} released"));
            Ok(true)
        }
        Err(error) => Err(anyhow::Error::new(error).context(format!("cannot release job/{name} in {namespace}"))),
    }
}

/// The finalizers of others, for the state that was seen; `None` when the job is not held.
fn patch(metadata: &ObjectMeta) -> Option<Value> {
    let finalizers = metadata.finalizers.as_ref()?;
    finalizers.iter().find(|name| *name == PUBLISH_FINALIZER)?;
    let others: Vec<&String> = finalizers.iter().filter(|name| *name != PUBLISH_FINALIZER).collect();
    Some(json!({ "metadata": { "resourceVersion": metadata.resource_version, "finalizers": others } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_of_others_stay() {
        let held = |names: &[&str]| ObjectMeta {
            finalizers: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(patch(&held(&["example.com/other"])), None);
        assert_eq!(patch(&ObjectMeta::default()), None);
        let patch = patch(&held(&["example.com/other", PUBLISH_FINALIZER])).unwrap();
        assert_eq!(patch["metadata"]["finalizers"], json!(["example.com/other"]));
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn labels_become_a_query() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        assert_eq!(query(&labels), "a=1,b=2");
    }
}
