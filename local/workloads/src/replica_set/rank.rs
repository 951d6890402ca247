//! Which pods go first when there are too many: the ones whose loss costs least, in Kubernetes' order.

use std::cmp::Reverse;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::pods;

/// A person's say in the order; lower goes first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts the pods, the first to delete first.
pub(crate) fn sort(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| rank(pod));
}

type Rank = (bool, u8, bool, i32, Reverse<Option<Timestamp>>, Reverse<i32>, Reverse<Option<Timestamp>>, String);

fn rank(pod: &Pod) -> Rank {
    let assigned = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| !node.is_empty());
    let phase = match pods::phase(pod) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let cost = pod.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0);
    (
        assigned,
        phase,
        pods::is_ready(pod),
        cost,
        Reverse(pods::ready_since(pod)),
        Reverse(pods::restarts(pod)),
        Reverse(pod.creation_timestamp().map(|time| time.0)),
        pod.name_any(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn pod(name: &str, node: Option<&str>, phase: &str, ready: Option<&str>, created: &str, cost: &str) -> Pod {
        let conditions: Vec<_> = ready
            .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": since}))
            .into_iter()
            .collect();
        from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created, "annotations": {DELETION_COST: cost}},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": phase, "conditions": conditions}
        }))
        .unwrap()
    }

    #[test]
    fn cheapest_loss_goes_first() {
        let early = "2026-01-01T00:00:00Z";
        let late = "2026-01-01T01:00:00Z";
        let pods = [
            pod("ready-long", Some("local"), "Running", Some(early), early, "0"),
            pod("ready-short", Some("local"), "Running", Some(late), early, "0"),
            pod("cheap", Some("local"), "Running", Some(early), early, "-5"),
            pod("not-ready-old", Some("local"), "Running", None, early, "0"),
            pod("not-ready-young", Some("local"), "Running", None, late, "0"),
            pod("pending", Some("local"), "Pending", None, early, "0"),
            pod("unassigned", None, "Pending", None, early, "0"),
        ];
        let mut order: Vec<&Pod> = pods.iter().collect();
        sort(&mut order);
        let names: Vec<String> = order.iter().map(|pod| pod.name_any()).collect();
        let expected =
            ["unassigned", "pending", "not-ready-young", "not-ready-old", "cheap", "ready-short", "ready-long"];
        assert_eq!(names, expected);
    }
}
