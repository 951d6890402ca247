//! From `EndpointSlices` to addresses.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// Label that names the Service of a slice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Addresses of one Service by port name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ports(BTreeMap<String, BTreeSet<String>>);

impl Ports {
    /// Addresses of a port; without a name the one called `http`, else the first.
    pub fn of(&self, name: Option<&str>) -> &BTreeSet<String> {
        const NONE: &BTreeSet<String> = &BTreeSet::new();
        let named = |name: &str| self.0.get(name);
        match name {
            Some(name) => named(name).unwrap_or(NONE),
            None => named("http").or_else(|| self.0.values().next()).unwrap_or(NONE),
        }
    }
}

/// Addresses by Service: ready endpoints, and those that still serve while they end when nothing is ready.
pub fn by_service<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> BTreeMap<String, Ports> {
    let mut grouped: BTreeMap<String, Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        if let Some(service) = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME)) {
            grouped.entry(service.clone()).or_default().push(slice);
        }
    }
    grouped.into_iter().map(|(service, slices)| (service, ports(&slices))).collect()
}

fn ports(slices: &[&EndpointSlice]) -> Ports {
    let ready = collect(slices, is_ready);
    if ready.0.is_empty() { collect(slices, serves_while_ending) } else { ready }
}

fn collect(slices: &[&EndpointSlice], usable: fn(&Endpoint) -> bool) -> Ports {
    let mut ports = Ports::default();
    for slice in slices {
        for port in slice.ports.iter().flatten() {
            let Some(number) = port.port else { continue };
            for endpoint in slice.endpoints.iter().filter(|endpoint| usable(endpoint)) {
                // One address an endpoint: the others are of no defined use.
                let address = endpoint.addresses.first().map(|host| address(host, number));
                ports.0.entry(port.name.clone().unwrap_or_default()).or_default().extend(address);
            }
        }
    }
    ports
}

fn address(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Unknown readiness counts as ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

fn serves_while_ending(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    let serving = conditions.and_then(|conditions| conditions.serving).unwrap_or(false);
    serving && conditions.and_then(|conditions| conditions.terminating).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(endpoints: &serde_json::Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": "s", "labels": { SERVICE_NAME: "digits-v1" } },
            "addressType": "IPv4",
            "ports": [{ "name": "grpc", "port": 9000 }, { "name": "http", "port": 8080 }],
            "endpoints": endpoints,
        }))
        .expect("a slice")
    }

    fn http(endpoints: &serde_json::Value) -> Vec<String> {
        let slice = slice(endpoints);
        by_service([&slice].into_iter())["digits-v1"].of(None).iter().cloned().collect()
    }

    #[test]
    fn takes_ready_endpoints_of_the_named_port() {
        let found = http(&json!([
            { "addresses": ["10.0.0.1"], "conditions": { "ready": true } },
            { "addresses": ["10.0.0.2"], "conditions": { "ready": false } },
            { "addresses": ["fd00::3"] },
        ]));
        assert_eq!(found, ["10.0.0.1:8080", "[fd00::3]:8080"]);
        let slice = slice(&json!([{ "addresses": ["10.0.0.1"] }]));
        let services = by_service([&slice].into_iter());
        assert!(services["digits-v1"].of(Some("grpc")).contains("10.0.0.1:9000"));
        assert!(services["digits-v1"].of(Some("other")).is_empty());
    }

    #[test]
    fn ending_endpoints_serve_only_when_nothing_is_ready() {
        let ending = json!({ "addresses": ["10.0.0.1"],
            "conditions": { "ready": false, "serving": true, "terminating": true } });
        let dead = json!({ "addresses": ["10.0.0.2"],
            "conditions": { "ready": false, "serving": false, "terminating": true } });
        assert_eq!(http(&json!([ending, dead])), ["10.0.0.1:8080"]);
        assert_eq!(http(&json!([ending, { "addresses": ["10.0.0.3"] }])), ["10.0.0.3:8080"]);
        assert!(http(&json!([dead])).is_empty());
    }
}
