//! Decides which slices a Service needs and how they differ from the ones there are.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::endpoint::{endpoint, ports};
use crate::pods;
use crate::routes::SERVICE_NAME;

/// As in Kubernetes: a slice stays small, so that one pod's change is a small write.
const MOST_ENDPOINTS: usize = 100;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Kubernetes' own name, which tools look for.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// What to do, in this order: create and replace, then delete.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SlicePlan {
    pub(crate) create: Vec<EndpointSlice>,
    pub(crate) replace: Vec<EndpointSlice>,
    /// Names.
    pub(crate) delete: Vec<String>,
}

/// `pods` are the pods the Service selects, `slices` the slices with its label.
pub(crate) fn decide<P: AsRef<Pod>, S: AsRef<EndpointSlice>>(service: &Service, pods: &[P], slices: &[S]) -> SlicePlan {
    let mut plan = SlicePlan::default();
    if service.spec.as_ref().is_none_or(|spec| spec.selector.as_ref().is_none_or(BTreeMap::is_empty))
        || service.metadata.deletion_timestamp.is_some()
    {
        return plan;
    }
    let wanted = wanted(service, pods);
    let known: BTreeMap<String, &EndpointSlice> = slices
        .iter()
        .map(AsRef::as_ref)
        .filter(|slice| is_ours(slice))
        .map(|slice| (slice.name_any(), slice))
        .collect();
    for slice in &wanted {
        match known.get(&slice.name_any()) {
            None => plan.create.push(slice.clone()),
            Some(known) if same(known, slice) => {}
            Some(known) => plan.replace.push(updated(known, slice)),
        }
    }
    plan.delete = known.into_keys().filter(|name| wanted.iter().all(|slice| slice.name_any() != *name)).collect();
    plan
}

fn is_ours(slice: &EndpointSlice) -> bool {
    slice.labels().get(MANAGED_BY).is_some_and(|manager| manager == CONTROLLER)
}

fn same(known: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    known.endpoints == wanted.endpoints
        && known.ports.as_deref().unwrap_or_default() == wanted.ports.as_deref().unwrap_or_default()
        && known.metadata.owner_references == wanted.metadata.owner_references
        && wanted.labels().iter().all(|(name, value)| known.labels().get(name) == Some(value))
}

fn updated(known: &EndpointSlice, wanted: &EndpointSlice) -> EndpointSlice {
    let mut slice = wanted.clone();
    slice.metadata = known.metadata.clone();
    slice.metadata.owner_references.clone_from(&wanted.metadata.owner_references);
    slice.metadata.labels.get_or_insert_default().extend(wanted.labels().clone());
    slice
}

fn wanted<P: AsRef<Pod>>(service: &Service, pods: &[P]) -> Vec<EndpointSlice> {
    let mut groups: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
    let mut sorted: Vec<&Pod> = pods.iter().map(AsRef::as_ref).collect();
    sorted.sort_by_key(|pod| (pod.creation_timestamp(), pod.name_any()));
    for pod in sorted {
        let Some(endpoint) = endpoint(service, pod) else { continue };
        let ports = ports(service, Some(pod));
        match groups.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => groups.push((ports, vec![endpoint])),
        }
    }
    if groups.is_empty() {
        groups.push((ports(service, None), Vec::new()));
    }
    let mut slices = Vec::new();
    for (ports, endpoints) in &groups {
        let chunks = if endpoints.is_empty() { vec![&[][..]] } else { endpoints.chunks(MOST_ENDPOINTS).collect() };
        slices.extend(chunks.into_iter().enumerate().map(|(chunk, part)| slice(service, ports, part, chunk)));
    }
    slices
}

fn slice(service: &Service, ports: &[EndpointPort], endpoints: &[Endpoint], chunk: usize) -> EndpointSlice {
    let labels =
        BTreeMap::from([(SERVICE_NAME.to_owned(), service.name_any()), (MANAGED_BY.to_owned(), CONTROLLER.to_owned())]);
    EndpointSlice {
        address_type: "IPv4".into(),
        endpoints: endpoints.to_vec(),
        ports: Some(ports.to_vec()),
        metadata: ObjectMeta {
            name: Some(slice_name(service, ports, chunk)),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![pods::owner_reference(service)]),
            ..ObjectMeta::default()
        },
    }
}

/// The same Service, ports and chunk always give the same name, so a crash leaves nothing behind.
fn slice_name(service: &Service, ports: &[EndpointPort], chunk: usize) -> String {
    let mut hasher = DefaultHasher::new();
    (service.uid(), chunk).hash(&mut hasher);
    for port in ports {
        (&port.name, port.port, &port.protocol).hash(&mut hasher);
    }
    format!("{}-{:06x}", service.name_any(), hasher.finish() & 0x00ff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};
    use std::sync::Arc;

    fn service(ports: &Value) -> Service {
        from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "s"},
            "spec": {"selector": {"app": "web"}, "ports": ports}
        }))
        .unwrap()
    }

    fn pod(name: &str, ready: bool, deleted: bool, port: i32) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "namespace": "default"},
            "spec": {"nodeName": "local", "containers": [
                {"name": "main", "ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": "127.5.0.1",
                "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}
        });
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Arc::new(from_value(pod).unwrap())
    }

    const NO_SLICES: [Arc<EndpointSlice>; 0] = [];

    #[test]
    fn a_terminating_pod_that_is_still_ready_serves_but_is_not_ready() {
        let pods = [pod("a", true, false, 8080), pod("b", true, true, 8080), pod("c", false, false, 8080)];
        let plan = decide(&service(&json!([{"port": 80, "targetPort": "http"}])), &pods, &NO_SLICES);
        let slice = &plan.create[0];
        let conditions: Vec<_> = slice
            .endpoints
            .iter()
            .map(|endpoint| endpoint.conditions.as_ref().unwrap())
            .map(|c| (c.ready.unwrap(), c.serving.unwrap(), c.terminating.unwrap()))
            .collect();
        assert_eq!(conditions, [(true, true, false), (false, true, true), (false, false, false)]);
        assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080));
        assert_eq!(slice.endpoints[0].target_ref.as_ref().unwrap().name.as_deref(), Some("a"));
    }

    #[test]
    fn pods_with_other_ports_get_another_slice() {
        let pods = [pod("a", true, false, 8080), pod("b", true, false, 9090)];
        let plan = decide(&service(&json!([{"port": 80, "targetPort": "http"}])), &pods, &NO_SLICES);
        assert_eq!(plan.create.len(), 2);
        assert_ne!(plan.create[0].name_any(), plan.create[1].name_any());
    }

    #[test]
    fn many_pods_are_cut_into_slices_of_a_hundred() {
        let pods: Vec<_> = (0..250).map(|n| pod(&format!("p{n:03}"), true, false, 8080)).collect();
        let plan = decide(&service(&json!([{"port": 80}])), &pods, &NO_SLICES);
        let sizes: Vec<_> = plan.create.iter().map(|slice| slice.endpoints.len()).collect();
        assert_eq!(sizes, [100, 100, 50]);
    }

    #[test]
    fn rests_when_nothing_changed_and_clears_what_is_too_much() {
        let service = service(&json!([{"port": 80}]));
        let pods: Vec<_> = (0..150).map(|n| pod(&format!("p{n:03}"), true, false, 8080)).collect();
        let slices: Vec<_> = decide(&service, &pods, &NO_SLICES).create.into_iter().map(Arc::new).collect();
        assert_eq!(decide(&service, &pods, &slices), SlicePlan::default());
        let fewer = decide(&service, &pods[..60], &slices);
        assert_eq!((fewer.create.len(), fewer.replace.len(), fewer.delete.len()), (0, 1, 1));
    }

    #[test]
    fn a_service_without_selector_is_somebody_elses() {
        let mut service = service(&json!([{"port": 80}]));
        service.spec.as_mut().unwrap().selector = None;
        assert_eq!(decide(&service, &[pod("a", true, false, 1)], &NO_SLICES), SlicePlan::default());
    }
}
