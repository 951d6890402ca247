//! What a candidate costs an hour: what its containers may use, and the instance that it asks for.

use std::collections::BTreeMap;

use modelway_api::{
    objective::Cost,
    profiling_experiment::ProfilingExperimentSpec,
    trial::{Category, ParameterAssignment},
};
use modelway_tune::space::Space;
use serde_json::Value;

use super::{error::QuestionError, space, template, values};
use crate::json as read;

/// The label of a node that says what kind of machine it is.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
const GIB: f64 = 1_073_741_824.0;

/// Cost of each candidate per hour, at the prices of the objective.
pub fn costs(
    spec: &ProfilingExperimentSpec,
    space: &Space,
    pods: &Value,
    cost: &Cost,
) -> Result<Vec<f64>, QuestionError> {
    if cost.per_hour.is_empty() && cost.instance_types.is_empty() {
        return Err(QuestionError::Missing {
            field: "objective.cost.perHour",
            wanted: "say what a resource costs, or an instance type under instanceTypes",
        });
    }
    let resources = prices("objective.cost.perHour", &cost.per_hour)?;
    let instances = prices("objective.cost.instanceTypes", &cost.instance_types)?;
    let each = (0..space.len()).map(|candidate| {
        let values = space::assignments(spec, space, candidate);
        let used: f64 = resources.iter().map(|(resource, price)| price * amount(pods, &values, resource)).sum();
        Ok(used + instance(pods, &values, &instances)?)
    });
    each.collect()
}

fn prices<'a>(field: &str, written: &'a BTreeMap<String, String>) -> Result<BTreeMap<&'a str, f64>, QuestionError> {
    let each = written.iter().map(|(name, text)| {
        let price = values::number(text).filter(|price| *price >= 0.0);
        let wrong = || QuestionError::field(format!("{field}: {name}"), text, "write a number from 0");
        Ok((name.as_str(), price.ok_or_else(wrong)?))
    });
    each.collect()
}

/// Price of the instance that the pods ask for; nothing where instances have no prices.
fn instance(pods: &Value, values: &[ParameterAssignment], prices: &BTreeMap<&str, f64>) -> Result<f64, QuestionError> {
    let Some((first, _)) = prices.first_key_value() else { return Ok(0.0) };
    let field = "objective.cost.instanceTypes";
    let mut tuned = values.iter().filter(|value| value.category == Category::NodeSelector);
    let tuned = tuned.find(|value| value.name == INSTANCE_TYPE).map(|value| value.value.clone());
    let Some(asked) = tuned.or_else(|| template::current(pods, Category::NodeSelector, INSTANCE_TYPE)) else {
        let wanted =
            "no pod asks for a type: tune nodeSelector node.kubernetes.io/instance-type, or set it in the pods";
        return Err(QuestionError::field(field, first, wanted));
    };
    let wanted = "this type of the candidates has no price: add it";
    prices.get(asked.as_str()).copied().ok_or_else(|| QuestionError::field(field, &asked, wanted))
}

/// Units of a resource that the containers may use, with these values in the first.
fn amount(pods: &Value, values: &[ParameterAssignment], resource: &str) -> f64 {
    let unit = if matches!(resource, "memory" | "ephemeral-storage" | "storage") { GIB } else { 1.0 };
    total(pods, values, resource, ["limits", "requests"]) / unit
}

/// What the containers say of a resource in the first of these parts that has it, with these values in the first one.
pub fn total(pods: &Value, values: &[ParameterAssignment], resource: &str, parts: [&str; 2]) -> f64 {
    let set = values.iter().find(|value| value.category == Category::Resource && value.name == resource);
    let each = read::items(pods, "/spec/containers").enumerate().map(|(index, container)| {
        let given = set.filter(|_| index == 0).map(|value| value.value.clone());
        let resources = &container["resources"];
        let own = || parts.into_iter().map(|part| &resources[part][resource]).find(|value| !value.is_null()).map(text);
        given.or_else(own).and_then(|text| values::quantity(&text)).unwrap_or(0.0)
    });
    each.sum()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn priced(types: &Value, cost: &Value) -> Result<Vec<f64>, QuestionError> {
        let spec: ProfilingExperimentSpec = serde_json::from_value(json!({"tunableParameters": [
            {"category": "resource", "parameters": [{"name": "nvidia.com/gpu", "feasibleSpace": {"list": ["1", "2"]}}]},
            {"category": "nodeSelector", "parameters": [
                {"name": INSTANCE_TYPE, "parameterType": "categorical", "feasibleSpace": {"list": types}}]}]}))
        .unwrap();
        let pods = json!({"spec": {"containers": [{"name": "s"}]}});
        let cost: Cost = serde_json::from_value(cost.clone()).unwrap();
        costs(&spec, &space::space(&spec, 0).unwrap(), &pods, &cost)
    }

    #[test]
    fn an_instance_has_its_price_beside_that_of_resources() {
        let cost = json!({"perHour": {"nvidia.com/gpu": "0.5"}, "instanceTypes": {"small": "1", "large": "4"}});
        assert_eq!(priced(&json!(["small", "large"]), &cost), Ok(vec![1.5, 4.5, 2.0, 5.0]));
        let alone = json!({"instanceTypes": {"small": "1", "large": "4"}});
        assert_eq!(priced(&json!(["small", "large"]), &alone), Ok(vec![1.0, 4.0, 1.0, 4.0]));
    }

    #[test]
    fn every_type_has_a_price() {
        let cost = json!({"instanceTypes": {"small": "1"}});
        let message = priced(&json!(["small", "large"]), &cost).unwrap_err().to_string();
        assert!(message.contains("\"large\": this type of the candidates has no price"), "{message}");
        let message = priced(&json!(["small"]), &json!({"instanceTypes": {"small": "dear"}})).unwrap_err().to_string();
        assert!(message.contains("instanceTypes: small is \"dear\""), "{message}");
    }

    #[test]
    fn pods_that_ask_for_no_type_have_no_price_of_one() {
        let prices = BTreeMap::from([("small", 1.0)]);
        let pods = json!({"spec": {"containers": [{"name": "s"}]}});
        let message = instance(&pods, &[], &prices).unwrap_err().to_string();
        assert!(message.contains("no pod asks for a type"), "{message}");
        let pods = json!({"spec": {"nodeSelector": {INSTANCE_TYPE: "small"}, "containers": [{"name": "s"}]}});
        assert_eq!(instance(&pods, &[], &prices), Ok(1.0));
    }
}
