//! Decides the next step of a Service.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Service, ServiceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::allocate::{Ipv4Cidr, allocate};
use crate::events::Note;
use crate::key::Key;

/// False when the Service asks for reachability that one machine's loopback cannot give.
const SUPPORTED: &str = "modelway.io/TypeSupported";

/// The next step.
#[derive(Debug, PartialEq)]
pub(crate) enum ServiceStep {
    Nothing,
    Assign(Ipv4Addr),
    Report(Box<ServiceStatus>, Note),
    Warn(Note),
}

/// `all` are all Services of all namespaces.
pub(crate) fn decide<S: AsRef<Service>>(service: &Service, all: &[S], block: Ipv4Cidr, now: Timestamp) -> ServiceStep {
    let spec = service.spec.clone().unwrap_or_default();
    let type_ = spec.type_.as_deref().unwrap_or("ClusterIP");
    if let Some(report) = unsupported(service, type_, now) {
        return report;
    }
    if service.metadata.deletion_timestamp.is_some() || type_ == "ExternalName" {
        return ServiceStep::Nothing;
    }
    match spec.cluster_ip.as_deref().unwrap_or_default() {
        "None" => ServiceStep::Nothing,
        "" => {
            let used: HashSet<Ipv4Addr> = all.iter().filter_map(|other| cluster_ip(other.as_ref())).collect();
            allocate(block, &used, &Key::of(service)).map_or_else(
                || {
                    let message = "every address of the service block is taken; delete a Service";
                    ServiceStep::Warn(Note::warning("ClusterIPExhausted", message))
                },
                ServiceStep::Assign,
            )
        }
        asked => check_asked(service, asked, all, block),
    }
}

/// The Service's own address, when it has one.
pub(crate) fn cluster_ip(service: &Service) -> Option<Ipv4Addr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

fn check_asked<S: AsRef<Service>>(service: &Service, asked: &str, all: &[S], block: Ipv4Cidr) -> ServiceStep {
    let Some(address) = asked.parse().ok().filter(|address| block.contains(*address)) else {
        let message = format!("spec.clusterIP {asked} is not in the service block of this machine; leave it empty");
        return ServiceStep::Warn(Note::warning("ClusterIPOutOfRange", message));
    };
    let age = |service: &Service| (service.creation_timestamp(), service.uid());
    let older = all
        .iter()
        .map(AsRef::as_ref)
        .find(|other| other.uid() != service.uid() && cluster_ip(other) == Some(address) && age(other) < age(service));
    older.map_or(ServiceStep::Nothing, |older| {
        let message = format!("spec.clusterIP {asked} already belongs to Service {}", Key::of(older));
        ServiceStep::Warn(Note::warning("ClusterIPConflict", message))
    })
}

/// Types that need a network around this machine get a condition, once.
fn unsupported(service: &Service, type_: &str, now: Timestamp) -> Option<ServiceStep> {
    if !matches!(type_, "NodePort" | "LoadBalancer" | "ExternalName") {
        return None;
    }
    let mut status = service.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    let known = |c: &Condition| c.type_ == SUPPORTED && c.observed_generation == service.metadata.generation;
    if conditions.iter().any(known) {
        return None;
    }
    conditions.retain(|condition| condition.type_ != SUPPORTED);
    let message = format!("type {type_} is not supported on one machine; the Service answers on its clusterIP only");
    conditions.push(Condition {
        type_: SUPPORTED.into(),
        status: "False".into(),
        reason: "ServiceTypeNotSupported".into(),
        message: message.clone(),
        observed_generation: service.metadata.generation,
        last_transition_time: Time(now),
    });
    Some(ServiceStep::Report(Box::new(status), Note::warning("ServiceTypeNotSupported", message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};
    use std::sync::Arc;

    fn service(name: &str, spec: &Value, created: &str) -> Arc<Service> {
        let metadata = json!({"name": name, "namespace": "default", "uid": name, "creationTimestamp": created});
        Arc::new(from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    fn step(service: &Service, all: &[Arc<Service>]) -> ServiceStep {
        decide(service, all, "127.5.128.0/17".parse().unwrap(), "2026-01-01T00:00:00Z".parse().unwrap())
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn gives_an_address_that_nobody_has() {
        let mut all: Vec<Arc<Service>> = Vec::new();
        for n in 0..50 {
            let new = service(&format!("s{n}"), &json!({}), EARLY);
            let ServiceStep::Assign(address) = step(&new, &all) else { panic!("expected an address") };
            assert!(all.iter().all(|other| cluster_ip(other) != Some(address)));
            all.push(service(&format!("s{n}"), &json!({"clusterIP": address.to_string()}), EARLY));
        }
        assert_eq!(step(&all[0], &all), ServiceStep::Nothing);
    }

    #[test]
    fn leaves_headless_services_alone() {
        let headless = service("h", &json!({"clusterIP": "None"}), EARLY);
        assert_eq!(step(&headless, &[]), ServiceStep::Nothing);
    }

    #[test]
    fn the_younger_of_two_with_one_address_is_told() {
        let spec = json!({"clusterIP": "127.5.128.9"});
        let all = [service("old", &spec, EARLY), service("new", &spec, LATE)];
        assert_eq!(step(&all[0], &all), ServiceStep::Nothing);
        assert!(matches!(step(&all[1], &all), ServiceStep::Warn(note) if note.message.contains("default/old")));
        let stranger = service("x", &json!({"clusterIP": "10.0.0.1"}), EARLY);
        assert!(matches!(step(&stranger, &[]), ServiceStep::Warn(note) if note.reason == "ClusterIPOutOfRange"));
    }

    #[test]
    fn says_once_that_a_node_port_is_not_supported() {
        let node_port = service("n", &json!({"type": "NodePort"}), EARLY);
        let ServiceStep::Report(status, _) = step(&node_port, &[]) else { panic!("expected a report") };
        let mut told = Service::clone(&node_port);
        told.status = Some(*status);
        assert!(matches!(step(&told, &[]), ServiceStep::Assign(_)));
    }
}
