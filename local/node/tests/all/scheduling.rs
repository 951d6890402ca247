//! Which pods the node takes, and what it tells the others.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::platform::{Platform, sh};

fn scheduled(pod: &Pod) -> Option<&PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "PodScheduled")
}

fn is_unschedulable(pod: &Pod) -> bool {
    scheduled(pod).is_some_and(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_asks_for_another_node_says_so_until_this_node_is_one() {
    let platform = Platform::start().await;
    let container = json!({"name": "a", "image": "x", "command": sh("true")});
    let spec = json!({"restartPolicy": "Never", "nodeSelector": {"disk": "ssd"}, "containers": [container]});
    platform.create("picky", spec).await;
    let pod = platform.wait("picky", "unschedulable", is_unschedulable).await;
    let condition = scheduled(&pod).unwrap();
    assert_eq!(condition.status, "False");
    let message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(condition.message.as_deref(), Some(message));
    let event = platform.wait_event("picky", "FailedScheduling").await;
    assert_eq!(event.message.as_deref(), Some(message));

    let nodes: Api<Node> = Api::all(platform.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"disk": "ssd"}}}));
    nodes.patch("local", &PatchParams::default(), &label).await.unwrap();
    let pod = platform.wait_phase("picky", "Succeeded").await;
    assert_eq!(scheduled(&pod).unwrap().status, "True");
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_asks_for_a_device_or_too_much_waits() {
    let platform = Platform::start().await;
    for (name, requests, missing) in
        [("gpu", json!({"nvidia.com/gpu": "1"}), "nvidia.com/gpu"), ("huge", json!({"memory": "1Pi"}), "memory")]
    {
        let resources = json!({"requests": requests, "limits": requests});
        let container = json!({"name": "a", "image": "x", "command": sh("true"), "resources": resources});
        platform.create(name, json!({"restartPolicy": "Never", "containers": [container]})).await;
        let pod = platform.wait(name, "unschedulable", is_unschedulable).await;
        let message = scheduled(&pod).unwrap().message.clone().unwrap();
        assert_eq!(message, format!("0/1 nodes are available: 1 Insufficient {missing}."));
    }
    platform.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_renews_its_lease_and_nothing_else() {
    let platform = Platform::start_with(|options| options.timing.heartbeat = std::time::Duration::from_secs(1)).await;
    let leases: Api<Lease> = Api::namespaced(platform.client.clone(), "kube-node-lease");
    let nodes: Api<Node> = Api::all(platform.client.clone());
    let (mut renewals, mut versions) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for _ in 0..400 {
        let lease = leases.get_opt("local").await.unwrap().and_then(|lease| lease.spec);
        renewals.extend(lease.and_then(|spec| spec.renew_time).map(|time| time.0));
        if !renewals.is_empty() {
            versions.extend(nodes.get("local").await.unwrap().metadata.resource_version);
        }
        if renewals.len() > 2 {
            assert_eq!(versions.len(), 1, "a beat wrote the node though nothing changed");
            return platform.stop().await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    unreachable!("the lease was renewed {} times", renewals.len());
}
