//! What the forwarder should do for one Service: a pure view of the Service and its slices.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::service::Ipv4Cidr;

/// Endpoints of one Service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets {
    pub(crate) ready: Vec<SocketAddr>,
    /// Terminating but still serving.
    pub(crate) draining: Vec<SocketAddr>,
}

/// Where to listen, and for whom. Nothing for headless Services and addresses outside the block.
pub(crate) fn table<S: AsRef<EndpointSlice>>(
    service: &Service,
    slices: &[S],
    block: Ipv4Cidr,
) -> BTreeMap<SocketAddr, Targets> {
    let mut table = BTreeMap::new();
    let Some(spec) = &service.spec else { return table };
    let address = spec.cluster_ip.as_ref().and_then(|address| address.parse().ok());
    let Some(address) = address.filter(|address| block.contains(*address)) else { return table };
    if service.metadata.deletion_timestamp.is_some() {
        return table;
    }
    for port in spec.ports.iter().flatten() {
        if port.protocol.as_deref().unwrap_or("TCP") != "TCP" {
            continue;
        }
        let Ok(number) = u16::try_from(port.port) else { continue };
        let name = port.name.as_deref().unwrap_or_default();
        let listen = SocketAddr::new(IpAddr::V4(address), number);
        table.insert(listen, targets(name, slices));
    }
    table
}

fn targets<S: AsRef<EndpointSlice>>(name: &str, slices: &[S]) -> Targets {
    let mut targets = Targets::default();
    for slice in slices.iter().map(AsRef::as_ref) {
        let ports = slice.ports.iter().flatten();
        let port = ports.clone().find(|port| port.name.as_deref().unwrap_or_default() == name);
        let Some(port) = port.and_then(|port| u16::try_from(port.port?).ok()) else { continue };
        for endpoint in &slice.endpoints {
            let conditions = endpoint.conditions.clone().unwrap_or_default();
            let list = if conditions.ready.unwrap_or(true) {
                &mut targets.ready
            } else if conditions.serving.unwrap_or(false) && conditions.terminating.unwrap_or(false) {
                &mut targets.draining
            } else {
                continue;
            };
            let addresses = endpoint.addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
            list.extend(addresses.map(|address| SocketAddr::new(address, port)));
        }
    }
    targets.ready.sort_unstable();
    targets.ready.dedup();
    targets.draining.sort_unstable();
    targets.draining.dedup();
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};
    use std::sync::Arc;

    #[test]
    fn lists_ready_and_draining_endpoints_by_port_name() {
        let service: Service = from_value(json!({"spec": {"clusterIP": "127.5.128.3", "ports": [
            {"name": "http", "port": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}))
        .unwrap();
        let endpoint = |last: u8, ready: bool, serving: bool, terminating: bool| {
            json!({"addresses": [format!("127.5.0.{last}")],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating}})
        };
        let slice: EndpointSlice = from_value(json!({
            "addressType": "IPv4", "ports": [{"name": "other", "port": 1}, {"name": "http", "port": 9000}],
            "endpoints": [endpoint(1, true, true, false), endpoint(2, false, true, true), endpoint(3, false, false, false)]
        }))
        .unwrap();
        let table = table(&service, &[Arc::new(slice)], "127.5.128.0/17".parse().unwrap());
        let expected = Targets {
            ready: vec!["127.5.0.1:9000".parse().unwrap()],
            draining: vec!["127.5.0.2:9000".parse().unwrap()],
        };
        assert_eq!(table, BTreeMap::from([("127.5.128.3:8080".parse().unwrap(), expected)]));
    }

    #[test]
    fn listens_only_on_addresses_of_the_block() {
        for address in ["None", "", "10.0.0.1"] {
            let service: Service =
                from_value(json!({"spec": {"clusterIP": address, "ports": [{"port": 80}]}})).unwrap();
            let none: [Arc<EndpointSlice>; 0] = [];
            assert!(table(&service, &none, "127.5.128.0/17".parse().unwrap()).is_empty());
        }
    }
}
