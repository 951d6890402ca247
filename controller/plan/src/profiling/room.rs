//! Candidates that no node has room for: they are left out before anything starts.
//!
//! What counts is what the nodes had when the experiment began, so that the candidates stay the same to its end. Other
//! pods do not count, for they may go; nor do resources that no node has: a driver may be on its way.

use std::collections::{BTreeMap, BTreeSet};

use modelway_api::{
    profiling_experiment::ProfilingExperimentSpec,
    trial::{Category, ParameterAssignment},
};
use modelway_tune::space::{Level, Space, SpaceError};
use serde_json::Value;

use super::{cost, error::QuestionError, space, values};

/// What pods may use of a node, by resource.
pub type NodeSize = BTreeMap<String, String>;

/// Sizes that the status has room for.
const SIZES_MAX: usize = 16;
/// Sizes that a message names.
const SIZES_TOLD: usize = 3;
const GIB: f64 = 1_073_741_824.0;

/// The tuned resources of the largest nodes: what is no smaller than others in everything stands for them.
pub fn sizes(spec: &ProfilingExperimentSpec, nodes: &[NodeSize]) -> Vec<NodeSize> {
    let tuned: BTreeSet<&str> = space::parameters(spec)
        .filter(|(category, _)| *category == Category::Resource)
        .map(|(_, parameter)| parameter.name.as_str())
        .collect();
    let told = |node: &NodeSize| -> NodeSize {
        let known =
            node.iter().filter(|(name, amount)| tuned.contains(name.as_str()) && values::quantity(amount).is_some());
        known.map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    let mut largest: Vec<NodeSize> = Vec::new();
    for node in nodes.iter().map(told).filter(|node| !node.is_empty()) {
        if !largest.iter().any(|other| holds(other, &node)) {
            largest.retain(|other| !holds(&node, other));
            largest.push(node);
        }
    }
    if largest.len() > SIZES_MAX { vec![at_most(&largest)] } else { largest }
}

fn amount(size: &NodeSize, resource: &str) -> f64 {
    size.get(resource).and_then(|amount| values::quantity(amount)).unwrap_or(0.0)
}

fn holds(size: &NodeSize, other: &NodeSize) -> bool {
    other.keys().all(|resource| amount(size, resource) >= amount(other, resource))
}

/// A node that would be as large as each of these in everything.
fn at_most(sizes: &[NodeSize]) -> NodeSize {
    let mut most = NodeSize::new();
    for (resource, text) in sizes.iter().flatten() {
        if !most.contains_key(resource) || amount(&most, resource) < values::quantity(text).unwrap_or(0.0) {
            most.insert(resource.clone(), text.clone());
        }
    }
    most
}

/// The candidates that one of the nodes has room for, were it empty; all of them where nothing is known of nodes.
pub fn possible(
    spec: &ProfilingExperimentSpec,
    pods: &Value,
    space: Space,
    sizes: &[NodeSize],
) -> Result<Space, QuestionError> {
    if sizes.is_empty() {
        return Ok(space);
    }
    let count = space.len();
    let fits = |levels: &[&Level]| {
        let each = space::parameters(spec).zip(levels).map(|((category, parameter), level)| ParameterAssignment {
            name: parameter.name.clone(),
            value: level.text.clone(),
            category,
        });
        let values: Vec<ParameterAssignment> = each.collect();
        let known: BTreeSet<&String> = sizes.iter().flat_map(BTreeMap::keys).collect();
        let asked: Vec<(&str, f64)> = known
            .into_iter()
            .map(|resource| (resource.as_str(), cost::total(pods, &values, resource, ["requests", "limits"])))
            .collect();
        sizes.iter().any(|size| asked.iter().all(|(resource, asked)| *asked <= amount(size, resource)))
    };
    space.retain(fits).map_err(|error| match error {
        SpaceError::AllImpossible => QuestionError::NoRoom { count, largest: told(sizes) },
        other => other.into(),
    })
}

/// The sizes, for people.
pub fn told(sizes: &[NodeSize]) -> String {
    let one = |size: &NodeSize| {
        let each = size.iter().map(|(resource, text)| match (resource.as_str(), values::quantity(text)) {
            ("memory", Some(bytes)) => format!("memory {:.1}Gi", bytes / GIB),
            _ => format!("{resource} {text}"),
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let more = if sizes.len() > SIZES_TOLD { ", and more" } else { "" };
    format!("{}{more}", sizes.iter().take(SIZES_TOLD).map(one).collect::<Vec<_>>().join("; or "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(parts: &[(&str, &str)]) -> NodeSize {
        parts.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
    }

    fn spec() -> ProfilingExperimentSpec {
        serde_json::from_value(json!({"tunableParameters": [{"category": "resource", "parameters": [
            {"name": "cpu", "feasibleSpace": {"list": ["1", "2", "4", "8"]}},
            {"name": "memory", "feasibleSpace": {"list": ["1Gi", "4Gi", "16Gi"]}},
            {"name": "nvidia.com/gpu", "feasibleSpace": {"list": ["1", "2"]}}]}]}))
        .unwrap()
    }

    fn left(pods: &Value, sizes: &[NodeSize]) -> Result<usize, QuestionError> {
        possible(&spec(), pods, space::space(&spec(), 0).unwrap(), sizes).map(|space| space.len())
    }

    #[test]
    fn the_largest_nodes_stand_for_all() {
        let nodes = [
            node(&[("cpu", "3920m"), ("memory", "4Gi"), ("pods", "110")]),
            node(&[("cpu", "2"), ("memory", "8Gi")]),
            node(&[("cpu", "2"), ("memory", "4Gi")]),
            node(&[("cpu", "3920m"), ("memory", "4194304Ki")]),
            node(&[("pods", "110")]),
        ];
        let found = sizes(&spec(), &nodes);
        assert_eq!(found, [node(&[("cpu", "3920m"), ("memory", "4Gi")]), node(&[("cpu", "2"), ("memory", "8Gi")])]);
        assert_eq!(told(&found), "cpu 3920m, memory 4.0Gi; or cpu 2, memory 8.0Gi");
        let many: Vec<NodeSize> =
            (1..40).map(|step| node(&[("cpu", &step.to_string()), ("memory", &format!("{}Gi", 40 - step))])).collect();
        assert_eq!(sizes(&spec(), &many), [node(&[("cpu", "39"), ("memory", "39Gi")])]);
        let plain = serde_json::from_value(json!({"tunableParameters": []})).unwrap();
        assert!(sizes(&plain, &nodes).is_empty(), "nothing is tuned that a node could lack");
    }

    #[test]
    fn what_no_node_has_room_for_is_left_out() {
        let pods = json!({"spec": {"containers": [{"name": "s"}, {"name": "side", "resources": {"requests": {"cpu": "500m"}}}]}});
        let small = node(&[("cpu", "4"), ("memory", "4Gi")]);
        let tall = node(&[("cpu", "2"), ("memory", "32Gi")]);
        // Of 4 x 3 x 2: cpu 1 and 2 with 1 and 4 GiB; cpu 1 with 16 GiB, as the sidecar has the rest. No node has GPUs:
        // that is left to the scheduler.
        assert_eq!(left(&pods, &[small.clone(), tall]), Ok(10));
        let with_gpu = node(&[("cpu", "8"), ("memory", "2Gi"), ("nvidia.com/gpu", "1")]);
        assert_eq!(left(&pods, &[small, with_gpu]), Ok(3));
        assert_eq!(left(&pods, &[]), Ok(24));
    }

    #[test]
    fn when_nothing_has_room_the_largest_node_is_named() {
        let message = left(&json!({}), &[node(&[("memory", "16Mi")])]);
        assert_eq!(message, Ok(24), "no container, no request");
        let pods = json!({"spec": {"containers": [{"name": "s"}]}});
        let message = left(&pods, &[node(&[("cpu", "500m")])]).unwrap_err().to_string();
        assert!(message.contains("each of the 24 candidates") && message.contains("cpu 500m"), "{message}");
    }
}
