//! Taking the pods that nobody has: there is one node, so it takes what it can, and says why it cannot take the rest.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::context::{Context, Shared, call};
use crate::schedule;

const CONDITION: &str = "PodScheduled";
const REASON: &str = "Unschedulable";

/// Takes each of the pods, or tells it why not.
pub async fn claim(context: Shared, pods: Vec<Arc<Pod>>) {
    let api: Api<Node> = Api::all(context.options.client.clone());
    let node = match call(api.get(&context.options.name)).await {
        Ok(node) => node,
        Err(error) => return tracing::warn!(%error, "this node could not be read; pods wait"),
    };
    for pod in pods {
        let done = judge(&context, &pod, &node).await;
        if let Err(error) = done {
            let name = pod.metadata.name.as_deref();
            tracing::warn!(%error, name, namespace = pod.metadata.namespace, "a pod could not be taken by this node");
        }
    }
}

async fn judge(context: &Context, pod: &Pod, node: &Node) -> Result<(), kube::Error> {
    match schedule::obstacle(pod, node) {
        None => take(context, pod).await,
        Some(why) => refuse(context, pod, why).await,
    }
}

fn api(context: &Context, pod: &Pod) -> Api<Pod> {
    Api::namespaced(context.options.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default())
}

async fn take(context: &Context, pod: &Pod) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "spec": {"nodeName": context.options.name}});
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    call(api(context, pod).patch(name, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
}

/// Written only when it says something new.
async fn refuse(context: &Context, pod: &Pod, why: String) -> Result<(), kube::Error> {
    let known = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let (told, mut conditions): (Vec<PodCondition>, Vec<PodCondition>) =
        known.into_iter().partition(|condition| condition.type_ == CONDITION);
    if told.iter().any(|told| told.status == "False" && told.message.as_ref() == Some(&why)) {
        return Ok(());
    }
    context.events.warning(pod, None, "FailedScheduling", why.clone());
    let since = told.into_iter().find(|told| told.status == "False").and_then(|told| told.last_transition_time);
    conditions.push(PodCondition {
        type_: CONDITION.to_owned(),
        status: "False".to_owned(),
        reason: Some(REASON.to_owned()),
        message: Some(why),
        last_transition_time: since.or(Some(Time(Timestamp::now()))),
        ..PodCondition::default()
    });
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": conditions}});
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    call(api(context, pod).patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await.map(drop)
}
