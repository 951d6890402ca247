//! One pod as an endpoint of a Service.

use k8s_openapi::api::core::v1::{ContainerPort, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::pods;

/// The endpoint, unless the pod has no address or has ended.
pub(crate) fn endpoint(service: &Service, pod: &Pod) -> Option<Endpoint> {
    let address = pod.status.as_ref()?.pod_ip.clone().filter(|address| !address.is_empty())?;
    if pods::is_terminal(pod) {
        return None;
    }
    let spec = pod.spec.as_ref()?;
    let service_spec = service.spec.as_ref()?;
    let serving = pods::is_ready(pod);
    let terminating = pods::is_terminating(pod);
    let anyway = service_spec.publish_not_ready_addresses.unwrap_or(false);
    let in_subdomain = spec.subdomain.as_deref() == Some(service.name_any().as_str());
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(anyway || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: spec.hostname.clone().filter(|_| in_subdomain),
        node_name: spec.node_name.clone(),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.namespace(),
            name: Some(pod.name_any()),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

/// The Service's ports as this pod has them; `None` for the pod stands for a Service without pods.
pub(crate) fn ports(service: &Service, pod: Option<&Pod>) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    ports.iter().filter_map(|port| resolve(port, pod)).collect()
}

fn resolve(port: &ServicePort, pod: Option<&Pod>) -> Option<EndpointPort> {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".into());
    let number = match &port.target_port {
        None | Some(IntOrString::Int(0)) => port.port,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(name)) => named(pod?, name, &protocol)?,
    };
    Some(EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(number),
        protocol: Some(protocol),
        app_protocol: port.app_protocol.clone(),
    })
}

fn named(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let has_name = |port: &&ContainerPort| {
        port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
    };
    let containers = pod.spec.as_ref()?.containers.iter();
    containers.flat_map(|container| container.ports.iter().flatten()).find(has_name).map(|port| port.container_port)
}
