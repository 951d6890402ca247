//! The Node object: what this machine has, and that it lives.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::context::{Context, call};

/// How many processes-as-pods one machine is good for.
const PODS: &str = "250";

/// Where nodes say that they live, as in Kubernetes: a small object, so that the large one is rarely written.
const LEASES: &str = "kube-node-lease";
/// Beats that may be missed before others may think that the node is gone.
const MISSED_BEATS: u64 = 4;

/// Makes sure that the Node object is there and says what is, and renews the node's lease.
pub async fn register(context: &Context) -> Result<(), kube::Error> {
    let api: Api<Node> = Api::all(context.options.client.clone());
    let name = context.options.name.as_str();
    let labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), name.to_owned()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("kubernetes.io/arch".to_owned(), architecture().to_owned()),
    ]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    match call(api.create(&PostParams::default(), &Node { metadata, ..Node::default() })).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created?),
    }
    let (known, wanted) = (call(api.get(name)).await?, status(context, Timestamp::now()));
    if known.status.as_ref().map(news) != Some(news(&wanted)) {
        let status = json!({"status": wanted});
        call(api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))).await?;
    }
    renew(context, &known).await
}

/// What a status says that is ours and new: times differ at every beat, and a server fills in fields of its own.
fn news(status: &NodeStatus) -> NodeStatus {
    let mut conditions = status.conditions.clone();
    for condition in conditions.iter_mut().flatten() {
        condition.last_heartbeat_time = None;
        condition.last_transition_time = None;
    }
    NodeStatus {
        capacity: status.capacity.clone(),
        allocatable: status.allocatable.clone(),
        addresses: status.addresses.clone(),
        conditions,
        node_info: status.node_info.clone(),
        ..NodeStatus::default()
    }
}

async fn renew(context: &Context, node: &Node) -> Result<(), kube::Error> {
    let name = context.options.name.as_str();
    let seconds = context.options.timing.heartbeat.as_secs().max(1) * MISSED_BEATS;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": MicroTime(Timestamp::now())},
    });
    let api: Api<Lease> = Api::namespaced(context.options.client.clone(), LEASES);
    call(api.patch(name, &PatchParams::apply("modelway-node").force(), &Patch::Apply(lease))).await.map(drop)
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(context: &Context, now: Timestamp) -> NodeStatus {
    let resources = BTreeMap::from([
        ("cpu".to_owned(), Quantity(context.cores.to_string())),
        ("memory".to_owned(), Quantity(format!("{}Ki", context.memory_bytes / 1024))),
        ("pods".to_owned(), Quantity(PODS.to_owned())),
    ]);
    let address = |kind: &str, address: &str| NodeAddress { type_: kind.to_owned(), address: address.to_owned() };
    NodeStatus {
        capacity: Some(resources.clone()),
        allocatable: Some(resources),
        addresses: Some(vec![address("InternalIP", "127.0.0.1"), address("Hostname", &context.options.name)]),
        conditions: Some(vec![NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: Some("NodeReady".to_owned()),
            message: Some(format!("pods run as processes of this machine; {}", context.limits.summary())),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(Time(now)),
        }]),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            operating_system: "linux".to_owned(),
            kubelet_version: format!("v{}-modelway", env!("CARGO_PKG_VERSION")),
            container_runtime_version: "process://1".to_owned(),
            os_image: "host".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

/// Bytes of memory of this machine.
pub fn memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    total.unwrap_or(0) * 1024
}

/// Processor cores of this machine.
pub fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| u64::try_from(count.get()).unwrap_or(1))
}
