//! Which controllers a change wakes.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use crate::cache::Change;
use crate::hub::Hub;
use crate::key::Key;
use crate::{pods, selector};

/// Label that ties an `EndpointSlice` to its Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

pub(crate) fn pod(hub: &Hub, change: &Change<Pod>) {
    for pod in [&change.old, &change.new].into_iter().flatten() {
        wake_pod_owner(hub, pod);
        wake_services(hub, pod);
        wake_budgets(hub, &pod.namespace().unwrap_or_default(), |budget| crate::budget::selects(budget, pod));
    }
    let Some(pod) = change.latest() else { return };
    if change.new.is_none() || pods::is_terminal(pod) || pods::is_terminating(pod) {
        wake_deployment_of(hub, pod);
        wake_claims(hub, pod);
    }
}

fn wake_pod_owner(hub: &Hub, pod: &Pod) {
    let namespace = pod.namespace().unwrap_or_default();
    match pods::controller(&pod.metadata) {
        Some(owner) if owner.kind == "Job" => hub.queues.jobs.add(Key::new(&namespace, &owner.name)),
        Some(owner) if owner.kind == "ReplicaSet" => hub.queues.replica_sets.add(Key::new(&namespace, &owner.name)),
        Some(_) => {}
        None => {
            for set in hub.caches.replica_sets.in_namespace(&namespace) {
                if selector::matches(&set.spec.clone().unwrap_or_default().selector, pod.labels()) {
                    hub.queues.replica_sets.add(Key::of(set.as_ref()));
                }
            }
        }
    }
}

fn wake_services(hub: &Hub, pod: &Pod) {
    for service in hub.caches.services.in_namespace(&pod.namespace().unwrap_or_default()) {
        if selector::selects(service.as_ref(), pod.labels()) {
            hub.queues.endpoints.add(Key::of(service.as_ref()));
        }
    }
}

fn wake_budgets(hub: &Hub, namespace: &str, concerned: impl Fn(&PodDisruptionBudget) -> bool) {
    for budget in hub.caches.budgets.in_namespace(namespace) {
        if concerned(&budget) {
            hub.queues.budgets.add(Key::of(budget.as_ref()));
        }
    }
}

fn wake_deployment_of(hub: &Hub, pod: &Pod) {
    let namespace = pod.namespace().unwrap_or_default();
    let Some(owner) = pods::controller(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet") else { return };
    if let Some(set) = hub.caches.replica_sets.get(&Key::new(&namespace, &owner.name)) {
        wake_deployment(hub, &set);
    }
}

fn wake_claims(hub: &Hub, pod: &Pod) {
    let namespace = pod.namespace().unwrap_or_default();
    for claim in crate::claim::claims_of(pod) {
        hub.queues.claims.add(Key::new(&namespace, &claim));
    }
}

pub(crate) fn job(hub: &Hub, change: &Change<Job>) {
    if let Some(job) = change.latest() {
        hub.queues.jobs.add(Key::of(job.as_ref()));
    }
}

pub(crate) fn replica_set(hub: &Hub, change: &Change<ReplicaSet>) {
    let Some(set) = change.latest() else { return };
    hub.queues.replica_sets.add(Key::of(set.as_ref()));
    wake_budgets(hub, &set.namespace().unwrap_or_default(), |_| true);
    for set in [&change.old, &change.new].into_iter().flatten() {
        wake_deployment(hub, set);
    }
}

fn wake_deployment(hub: &Hub, set: &ReplicaSet) {
    let namespace = set.namespace().unwrap_or_default();
    match pods::controller(&set.metadata) {
        Some(owner) if owner.kind == "Deployment" => hub.queues.deployments.add(Key::new(&namespace, &owner.name)),
        Some(_) => {}
        None => {
            for deployment in hub.caches.deployments.in_namespace(&namespace) {
                let Some(spec) = &deployment.spec else { continue };
                if selector::matches(&spec.selector, set.labels()) {
                    hub.queues.deployments.add(Key::of(deployment.as_ref()));
                }
            }
        }
    }
}

pub(crate) fn deployment(hub: &Hub, change: &Change<Deployment>) {
    if let Some(deployment) = change.latest() {
        hub.queues.deployments.add(Key::of(deployment.as_ref()));
    }
}

pub(crate) fn service(hub: &Hub, change: &Change<Service>) {
    let Some(service) = change.latest() else { return };
    let key = Key::of(service.as_ref());
    hub.queues.services.add(key.clone());
    hub.queues.endpoints.add(key.clone());
    hub.queues.forwards.add(key);
}

pub(crate) fn slice(hub: &Hub, change: &Change<EndpointSlice>) {
    for slice in [&change.old, &change.new].into_iter().flatten() {
        if let Some(service) = slice.labels().get(SERVICE_NAME) {
            let key = Key::new(&slice.namespace().unwrap_or_default(), service);
            hub.queues.endpoints.add(key.clone());
            hub.queues.forwards.add(key);
        }
    }
}

pub(crate) fn claim(hub: &Hub, change: &Change<PersistentVolumeClaim>) {
    if let Some(claim) = change.latest() {
        hub.queues.claims.add(Key::of(claim.as_ref()));
    }
}

pub(crate) fn budget(hub: &Hub, change: &Change<PodDisruptionBudget>) {
    if let Some(budget) = change.latest() {
        hub.queues.budgets.add(Key::of(budget.as_ref()));
    }
}
