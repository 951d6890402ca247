//! Whether the installed definitions of our kinds have every field that this release writes.

use std::{collections::BTreeSet, time::Duration};

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use modelway_plan::Kind;
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    health::{Aspect, Health},
    jitter::jittered,
    metrics::Metrics,
    served::{Served, is_ours},
    store::Store,
};

/// Wait after a failed list or watch; doubled up to the bound.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_mins(1);
/// Most missing fields that are named.
const NAMED: usize = 5;

/// Follows the definition of one kind.
pub struct Definition {
    pub client: Client,
    pub kind: Kind,
    pub served: Served,
    pub health: Health,
    pub metrics: Metrics,
    pub store: Store,
}

/// Every kind that comes with Modelway.
pub fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| is_ours(*kind))
}

impl Definition {
    /// Follows it for ever. `judged` becomes true after the first look, also when the definition cannot be seen.
    pub async fn run(self, judged: watch::Sender<bool>) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource());
        let config = watcher::Config::default().fields(&format!("metadata.name={}", name(self.kind)));
        let expected = expected(self.kind);
        let mut events = std::pin::pin!(watcher(api, config));
        let mut wait = RETRY_FIRST;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => {}
                Ok(watcher::Event::InitApply(live) | watcher::Event::Apply(live)) => {
                    self.judge(problem(self.kind, &live.data, &expected).as_deref());
                }
                // That the kind is missing is told by whoever looks for it.
                Ok(watcher::Event::Delete(_)) => self.judge(None),
                Ok(watcher::Event::InitDone) => {
                    wait = RETRY_FIRST;
                    judged.send_replace(true);
                }
                Err(error) => {
                    judged.send_replace(true);
                    tracing::debug!(definition = name(self.kind), %error, "the definition cannot be followed");
                    tokio::time::sleep(jittered(wait)).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    }

    fn judge(&self, problem: Option<&str>) {
        self.served.look_again();
        let is_news = self.health.definition(self.kind, Aspect::Schema, problem);
        self.metrics.definition_problem(self.kind, self.health.has_definition_problem(self.kind));
        if is_news {
            self.store.wake_all();
        }
    }
}

fn name(kind: Kind) -> String {
    let (group, _, _, plural) = kind.names();
    format!("{plural}.{group}")
}

fn resource() -> ApiResource {
    ApiResource::erase::<CustomResourceDefinition>(&())
}

/// Fields of the kind as this release has it.
fn expected(kind: Kind) -> BTreeSet<String> {
    let own = modelway_api::crds().into_iter().find(|own| own.metadata.name.as_deref() == Some(&name(kind)));
    let own = serde_json::to_value(own).expect("a definition is plain data");
    schema(&own, kind).map(fields).unwrap_or_default()
}

/// What is wrong with a live definition. Later releases may have more fields, never fewer.
fn problem(kind: Kind, live: &Value, expected: &BTreeSet<String>) -> Option<String> {
    let name = name(kind);
    let Some(schema) = schema(live, kind) else {
        let version = kind.names().1;
        return Some(format!(
            "definition {name} does not serve version {version}: install the definitions of this release"
        ));
    };
    let present = fields(schema);
    let missing: Vec<&str> = expected.iter().filter(|field| !covers(&present, field)).map(String::as_str).collect();
    if missing.is_empty() {
        return None;
    }
    let more = missing.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!(
        "definition {name} is older than this controller: it has no {}{more}; install the definitions of this release \
         (helm upgrade, or kubectl apply of the chart's definitions)",
        missing.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ")
    ))
}

fn schema(definition: &Value, kind: Kind) -> Option<&Value> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let version = versions.iter().find(|version| version["name"] == kind.names().1 && version["served"] != false)?;
    version.pointer("/schema/openAPIV3Schema")
}

/// Whether the field is there, or lies below one that takes anything.
fn covers(present: &BTreeSet<String>, field: &str) -> bool {
    if present.contains(field) {
        return true;
    }
    let ends = field.match_indices(['.', '[']).map(|(at, _)| at);
    ends.map(|at| &field[..at]).any(|above| present.contains(&format!("{above}.*")))
}

/// Paths of all fields: `spec.predictors[].name`; `.*` below what takes anything.
fn fields(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(schema, "", &mut found);
    found
}

fn collect(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        found.insert(format!("{path}.*"));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(property, &below, found);
        found.insert(below);
    }
    if schema["items"].is_object() {
        collect(&schema["items"], &format!("{path}[]"), found);
    }
    if schema["additionalProperties"].is_object() {
        collect(&schema["additionalProperties"], &format!("{path}{{}}"), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(kind: Kind) -> Value {
        let own = modelway_api::crds().into_iter().find(|own| own.metadata.name.as_deref() == Some(&name(kind)));
        serde_json::to_value(own.unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_ours_fits_its_own_definition() {
        for kind in kinds() {
            let expected = expected(kind);
            assert!(expected.len() > 3, "{kind:?} {expected:?}");
            assert_eq!(problem(kind, &own(kind), &expected), None);
        }
    }

    #[test]
    fn an_older_definition_is_told_with_the_fields_that_it_lacks() {
        let mut live = own(Kind::Inference);
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
        live.pointer_mut(spec).unwrap().as_object_mut().unwrap().remove("traffic").unwrap();
        let problem = problem(Kind::Inference, &live, &expected(Kind::Inference)).unwrap();
        assert!(
            problem.contains("inferences.serving.kubedl.io is older") && problem.contains("spec.traffic"),
            "{problem}"
        );
    }

    #[test]
    fn a_newer_definition_and_one_that_takes_anything_are_fine() {
        let mut live = own(Kind::RouteTable);
        live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
            serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] =
            serde_json::json!({"type": "string"});
        assert_eq!(problem(Kind::RouteTable, &live, &expected(Kind::RouteTable)), None);
    }

    #[test]
    fn a_version_that_is_not_served_is_told() {
        let mut live = own(Kind::Model);
        live["spec"]["versions"][0]["served"] = false.into();
        assert!(
            problem(Kind::Model, &live, &expected(Kind::Model)).unwrap().contains("does not serve version v1alpha1")
        );
    }
}
