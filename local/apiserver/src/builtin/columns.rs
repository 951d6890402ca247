//! Printer columns of the built-in kinds, as kubectl users know them. The name comes first without being listed.

use serde_json::Value;

use super::{pod_columns, workload_columns};
use crate::{
    kinds::{ColumnSource, PrinterColumn},
    table::age_cell,
};

type Cell = fn(&Value) -> Value;

/// The columns of a built-in kind; empty for those that show NAME and AGE.
pub(super) fn columns(group: &str, kind: &str) -> Vec<PrinterColumn> {
    match (group, kind) {
        ("", "Pod") => pod_columns::columns(),
        ("", "Namespace") => vec![path("Status", ".status.phase"), age()],
        ("", "Node") => node(),
        ("", "Service") => service(),
        ("", "ConfigMap") => vec![count("Data", configmap_size), age()],
        ("", "Secret") => vec![path("Type", ".type"), count("Data", secret_size), age()],
        ("", "Endpoints") => vec![cell("Endpoints", endpoints), age()],
        ("", "PersistentVolumeClaim") => claim(),
        ("", "PersistentVolume") => volume(),
        ("" | "events.k8s.io", "Event") => event(),
        ("apps", "Deployment") => workload_columns::deployment(),
        ("apps", "ReplicaSet") => workload_columns::replica_set(),
        ("batch", "Job") => workload_columns::job(),
        ("discovery.k8s.io", "EndpointSlice") => endpoint_slice(),
        ("coordination.k8s.io", "Lease") => vec![path("Holder", ".spec.holderIdentity"), age()],
        ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => {
            vec![date("Created At", ".metadata.creationTimestamp").timestamp()]
        }
        ("policy", "PodDisruptionBudget") => budget(),
        ("networking.k8s.io", "NetworkPolicy") => {
            vec![cell("Pod-Selector", |policy| labels(&policy["spec"]["podSelector"]["matchLabels"])), age()]
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => {
            vec![cell("Role", |binding| role(&binding["roleRef"])), age()]
        }
        _ => Vec::new(),
    }
}

fn column(name: &str, type_: &str, source: ColumnSource) -> PrinterColumn {
    PrinterColumn {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        source,
    }
}

impl PrinterColumn {
    /// Shown with `-o wide` only.
    pub(super) fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    /// Marks the column that holds the object's name.
    fn named(self) -> Self {
        Self { format: "name".to_owned(), ..self }
    }

    /// The time itself instead of its age.
    fn timestamp(self) -> Self {
        Self { type_: "string".to_owned(), ..self }
    }
}

pub(super) fn path(name: &str, json_path: &str) -> PrinterColumn {
    column(name, "string", ColumnSource::JsonPath(json_path.to_owned()))
}

fn date(name: &str, json_path: &str) -> PrinterColumn {
    column(name, "date", ColumnSource::JsonPath(json_path.to_owned()))
}

pub(super) fn cell(name: &str, function: Cell) -> PrinterColumn {
    column(name, "string", ColumnSource::Function(function))
}

pub(super) fn count(name: &str, function: Cell) -> PrinterColumn {
    column(name, "integer", ColumnSource::Function(function))
}

pub(super) fn age() -> PrinterColumn {
    cell("Age", |object| age_cell("", &object["metadata"]["creationTimestamp"], ""))
}

/// The text at a JSON pointer, or the fallback when it is absent or empty.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, fallback: &'a str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).unwrap_or(fallback)
}

/// The elements of the list at a JSON pointer; none when there is no list.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Comma-separated texts, or `<none>`.
pub(super) fn joined<I: IntoIterator<Item = String>>(texts: I) -> Value {
    let text = texts.into_iter().collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// `key=value` pairs of a label map.
pub(super) fn labels(map: &Value) -> Value {
    let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    joined(map.as_object().into_iter().flatten().map(pair))
}

fn role(reference: &Value) -> Value {
    format!("{}/{}", text_or(reference, "/kind", "Role"), text_or(reference, "/name", "")).into()
}

fn size(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

fn configmap_size(object: &Value) -> Value {
    (size(&object["data"]) + size(&object["binaryData"])).into()
}

fn secret_size(object: &Value) -> Value {
    size(&object["data"]).into()
}

fn node() -> Vec<PrinterColumn> {
    vec![
        cell("Status", node_status),
        cell("Roles", node_roles),
        age(),
        path("Version", ".status.nodeInfo.kubeletVersion"),
        cell("Internal-IP", |node| node_address(node, "InternalIP")).wide(),
        cell("External-IP", |node| node_address(node, "ExternalIP")).wide(),
        path("OS-Image", ".status.nodeInfo.osImage").wide(),
        path("Kernel-Version", ".status.nodeInfo.kernelVersion").wide(),
        path("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion").wide(),
    ]
}

fn node_status(node: &Value) -> Value {
    let ready = list(node, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let word = match ready.map(|condition| text_or(condition, "/status", "Unknown")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    format!("{word}{cordoned}").into()
}

fn node_roles(node: &Value) -> Value {
    let names = node["metadata"]["labels"].as_object().into_iter().flatten();
    joined(names.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/").map(str::to_owned)))
}

fn node_address(node: &Value, wanted: &str) -> Value {
    let found = list(node, "/status/addresses").iter().find(|address| address["type"] == wanted);
    found.map_or("<none>", |address| text_or(address, "/address", "<none>")).into()
}

fn service() -> Vec<PrinterColumn> {
    vec![
        path("Type", ".spec.type"),
        cell("Cluster-IP", |service| text_or(service, "/spec/clusterIP", "<none>").into()),
        cell("External-IP", external_address),
        cell("Port(s)", service_ports),
        age(),
        cell("Selector", |service| labels(&service["spec"]["selector"])).wide(),
    ]
}

fn external_address(service: &Value) -> Value {
    match text_or(service, "/spec/type", "ClusterIP") {
        "ExternalName" => text_or(service, "/spec/externalName", "<none>").into(),
        "LoadBalancer" => {
            let points = list(service, "/status/loadBalancer/ingress").iter();
            let text = points.map(|point| text_or(point, "/ip", text_or(point, "/hostname", "")).to_owned());
            let known = joined(text);
            if known == "<none>" { "<pending>".into() } else { known }
        }
        _ => joined(list(service, "/spec/externalIPs").iter().filter_map(Value::as_str).map(str::to_owned)),
    }
}

fn service_ports(service: &Value) -> Value {
    joined(list(service, "/spec/ports").iter().map(|port| {
        let node_port = port["nodePort"].as_u64().filter(|&number| number > 0);
        let node_port = node_port.map(|number| format!(":{number}")).unwrap_or_default();
        format!("{}{node_port}/{}", port["port"], text_or(port, "/protocol", "TCP"))
    }))
}

fn endpoints(object: &Value) -> Value {
    joined(list(object, "/subsets").iter().flat_map(|subset| {
        list(subset, "/addresses").iter().flat_map(move |address| {
            let ip = text_or(address, "/ip", "").to_owned();
            list(subset, "/ports").iter().map(move |port| format!("{ip}:{}", port["port"]))
        })
    }))
}

fn endpoint_slice() -> Vec<PrinterColumn> {
    vec![
        path("AddressType", ".addressType"),
        cell("Ports", |slice| {
            let ports = list(slice, "/ports").iter();
            let text = joined(ports.map(|port| port["port"].as_u64().map_or("*".to_owned(), |port| port.to_string())));
            if text == "<none>" { "<unset>".into() } else { text }
        }),
        cell("Endpoints", |slice| {
            let each = list(slice, "/endpoints").iter().flat_map(|endpoint| list(endpoint, "/addresses"));
            let text = joined(each.filter_map(Value::as_str).map(str::to_owned));
            if text == "<none>" { "<unset>".into() } else { text }
        }),
        age(),
    ]
}

fn access_modes(modes: &[Value]) -> Value {
    let short = |mode: &Value| match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO".to_owned(),
        "ReadOnlyMany" => "ROX".to_owned(),
        "ReadWriteMany" => "RWX".to_owned(),
        "ReadWriteOncePod" => "RWOP".to_owned(),
        other => other.to_owned(),
    };
    modes.iter().map(short).collect::<Vec<_>>().join(",").into()
}

/// Claims and volumes that are going away say so, whatever their phase.
fn phase(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".into();
    }
    object["status"]["phase"].clone()
}

fn claim() -> Vec<PrinterColumn> {
    vec![
        cell("Status", phase),
        path("Volume", ".spec.volumeName"),
        path("Capacity", ".status.capacity.storage"),
        cell("Access Modes", |claim| access_modes(list(claim, "/status/accessModes"))),
        path("StorageClass", ".spec.storageClassName"),
        cell("VolumeAttributesClass", |claim| text_or(claim, "/spec/volumeAttributesClassName", "<unset>").into()),
        age(),
        path("VolumeMode", ".spec.volumeMode").wide(),
    ]
}

fn volume() -> Vec<PrinterColumn> {
    vec![
        path("Capacity", ".spec.capacity.storage"),
        cell("Access Modes", |volume| access_modes(list(volume, "/spec/accessModes"))),
        path("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
        cell("Status", phase),
        cell("Claim", |volume| match &volume["spec"]["claimRef"] {
            Value::Object(claim) => {
                let part = |key: &str| claim.get(key).and_then(Value::as_str).unwrap_or_default();
                format!("{}/{}", part("namespace"), part("name")).into()
            }
            _ => "".into(),
        }),
        path("StorageClass", ".spec.storageClassName"),
        path("Reason", ".status.reason"),
        age(),
        path("VolumeMode", ".spec.volumeMode").wide(),
    ]
}

fn budget() -> Vec<PrinterColumn> {
    vec![
        cell("Min Available", |budget| limit_text(&budget["spec"]["minAvailable"])),
        cell("Max Unavailable", |budget| limit_text(&budget["spec"]["maxUnavailable"])),
        count("Allowed Disruptions", |budget| budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0).into()),
        age(),
    ]
}

fn limit_text(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}

fn event() -> Vec<PrinterColumn> {
    vec![
        cell("Last Seen", |event| age_cell("", &last_seen(event), "")),
        path("Type", ".type"),
        path("Reason", ".reason"),
        cell("Object", involved),
        cell("Subobject", |event| {
            let core = text_or(event, "/involvedObject/fieldPath", "");
            text_or(event, "/regarding/fieldPath", core).into()
        })
        .wide(),
        cell("Source", event_source).wide(),
        cell("Message", |event| text_or(event, "/message", text_or(event, "/note", "")).trim().into()),
        cell("First Seen", |event| age_cell("", &first_seen(event), "")).wide(),
        cell("Count", |event| event_count(event).to_string().into()).wide(),
        path("Name", ".metadata.name").wide().named(),
    ]
}

fn first_of(event: &Value, pointers: &[&str]) -> Value {
    let found = pointers.iter().find_map(|pointer| event.pointer(pointer).filter(|value| value.is_string()));
    found.cloned().unwrap_or(Value::Null)
}

fn last_seen(event: &Value) -> Value {
    first_of(
        event,
        &["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp", "/eventTime", "/firstTimestamp"],
    )
}

fn first_seen(event: &Value) -> Value {
    first_of(event, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"])
}

fn event_count(event: &Value) -> i64 {
    let found = ["/series/count", "/count", "/deprecatedCount"]
        .iter()
        .find_map(|pointer| event.pointer(pointer).and_then(Value::as_i64).filter(|&count| count > 0));
    found.unwrap_or(1)
}

fn involved(event: &Value) -> Value {
    let object = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
    let kind = text_or(object, "/kind", "").to_lowercase();
    let name = text_or(object, "/name", "");
    if name.is_empty() { kind.into() } else { format!("{kind}/{name}").into() }
}

fn event_source(event: &Value) -> Value {
    let controller = text_or(event, "/reportingController", text_or(event, "/reportingComponent", ""));
    let component = text_or(event, "/source/component", controller);
    let host = text_or(event, "/source/host", "");
    if host.is_empty() { component.into() } else { format!("{component}, {host}").into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_show_ports_and_addresses() {
        let service = json!({"spec": {"type": "ClusterIP", "clusterIP": "127.9.128.1", "selector": {"a": "b"},
            "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "nodePort": 3000}]}});
        assert_eq!(service_ports(&service), "80/TCP,53:3000/UDP");
        assert_eq!(external_address(&service), "<none>");
        assert_eq!(labels(&service["spec"]["selector"]), "a=b");
    }

    #[test]
    fn both_forms_of_events_name_their_object() {
        let core = json!({"involvedObject": {"kind": "Pod", "name": "a"}});
        let new = json!({"regarding": {"kind": "Pod", "name": "a"}});
        assert_eq!((involved(&core), involved(&new)), (json!("pod/a"), json!("pod/a")));
    }
}
