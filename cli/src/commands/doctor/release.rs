//! `modelway doctor --release`: takes our finalizer off training jobs, so that nothing waits for a controller that is
//! gone.

use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, coordination::v1::Lease};
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
/// A controller that was told to stop may finish a write: jobs are looked at again after that time.
const SETTLE: Duration = Duration::from_secs(2);
/// Jobs read at once.
const PAGE: u32 = 500;

pub async fn run(client: &Client, arguments: &DoctorArguments) -> anyhow::Result<()> {
    let work = release(client, arguments);
    match tokio::time::timeout(DEADLINE, work).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!(
                "jobs are still held after {} s: a controller that runs holds them again; name it with --stop",
                DEADLINE.as_secs()
            );
            Err(fail(Failure::TimedOut, message))
        }
    }
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
    let mut released = pass(client, &apis).await?;
    // A controller that stops may have held one more job meanwhile; without one, a pass without finds is the end.
    let mut is_settled = arguments.stop.is_none();
    loop {
        if !is_settled {
            tokio::time::sleep(SETTLE).await;
        }
        let more = pass(client, &apis).await?;
        released += more;
        if more == 0 && is_settled {
            break;
        }
        is_settled = true;
    }
    output::line(&format!("released {released} jobs"));
    Ok(())
}

/// Scales the controller to nothing, waits until its pods are told to stop, and removes its Lease.
async fn stop(client: &Client, controller: &WorkloadName) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &controller.namespace);
    let none = Patch::Merge(json!({ "spec": { "replicas": 0 } }));
    match deployments.patch_scale(&controller.name, &PatchParams::default(), &none).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        answer => answer.map(drop)?,
    }
    let start = Instant::now();
    while deployments.get_opt(&controller.name).await?.is_some_and(|live| has_pods(&live)) {
        if start.elapsed() > DEADLINE / 2 {
            let message = format!("pods of {controller} are still there after {} s", (DEADLINE / 2).as_secs());
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

fn has_pods(deployment: &Deployment) -> bool {
    let seen = deployment.status.as_ref().and_then(|status| status.observed_generation);
    seen < deployment.metadata.generation
        || deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or_default() > 0
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
    fn a_deployment_has_pods_until_its_controller_has_seen_the_change() {
        let live = |generation, observed, replicas: i32| {
            let status = json!({ "observedGeneration": observed, "replicas": replicas });
            let object = json!({ "metadata": { "generation": generation }, "spec": {
                "selector": {}, "template": {} }, "status": status });
            serde_json::from_value::<Deployment>(object).unwrap()
        };
        assert!(has_pods(&live(2, 1, 0)));
        assert!(has_pods(&live(2, 2, 1)));
        assert!(!has_pods(&live(2, 2, 0)));
    }
}
