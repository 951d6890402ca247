//! A Model's status: which versions are finished, which one is newest, what its aliases name.

use std::collections::BTreeMap;

use modelway_api::{
    Reason,
    conditions::{self, State},
    model::{LatestVersion, Model, ModelStatus},
};
use serde_json::Value;

use crate::{
    context::Context,
    json as read,
    manifest::ensure_status,
    plan::Plan,
    world::{Key, Kind, World},
};

/// Most versions named in the status.
const MAX_VERSIONS: usize = 64;

/// Plans one Model.
pub fn plan(cx: &Context, key: &Key) -> Plan {
    let mut plan = Plan::default();
    let Some(live) = cx.world.object(key).filter(|live| !read::is_deleted(live)) else { return plan };
    let Ok(model) = serde_json::from_value::<Model>(live.clone()) else { return plan };
    let finished = finished_versions(cx.world, &key.namespace, &key.name);
    let (aliases, unknown) = resolve_aliases(&model.spec.aliases, &finished);
    let generation = model.metadata.generation;
    let mut status = ModelStatus {
        latest_version: finished.first().map(|version| named(version)),
        aliases,
        versions: finished.iter().take(MAX_VERSIONS).map(|version| read::name(version).to_owned()).collect(),
        version_count: u32::try_from(finished.len()).unwrap_or(u32::MAX),
        observed_generation: generation,
        conditions: model.status.map(|status| status.conditions).unwrap_or_default(),
    };
    let (state, reason, message) = match (&status.latest_version, unknown.is_empty()) {
        (None, _) => (State::False, Reason::NoVersion, "no version of this model is finished yet".to_owned()),
        (Some(_), false) => {
            let message = format!("no finished version for alias {}: edit spec.aliases", unknown.join(", "));
            (State::False, Reason::AliasUnknown, message)
        }
        (Some(_), true) => (State::True, Reason::VersionAvailable, String::new()),
    };
    conditions::set(&mut status.conditions, conditions::READY, state, reason, message, generation, cx.now);
    ensure_status(&mut plan, live, &serde_json::to_value(&status).expect("a status is plain data"));
    plan
}

/// Versions of a model with an image, newest first.
pub fn finished_versions<'a>(world: &'a World, namespace: &'a str, model: &str) -> Vec<&'a Value> {
    let is_finished = |version: &&Value| {
        read::text(version, "/spec/modelName") == model && is_finished(version) && !read::is_deleted(version)
    };
    let mut finished: Vec<&Value> = world.list(Kind::ModelVersion, namespace).filter(is_finished).collect();
    finished.sort_by_key(|version| std::cmp::Reverse(age_order(version)));
    finished
}

/// Whether the version has an image.
pub fn is_finished(version: &Value) -> bool {
    read::text(version, "/status/imageBuildPhase") == "ImageBuildSucceeded"
        && !read::text(version, "/status/image").is_empty()
}

/// Sorts by end of build, then by creation; times are RFC 3339 in UTC and sort as text.
fn age_order(version: &Value) -> (String, String, String) {
    let text = |pointer| read::text(version, pointer).to_owned();
    (text("/status/finishTime"), text("/metadata/creationTimestamp"), text("/metadata/name"))
}

fn named(version: &Value) -> LatestVersion {
    LatestVersion {
        model_version: read::name(version).to_owned(),
        image_name: read::text(version, "/status/image").to_owned(),
    }
}

fn resolve_aliases(
    aliases: &BTreeMap<String, String>,
    finished: &[&Value],
) -> (BTreeMap<String, LatestVersion>, Vec<String>) {
    let (mut known, mut unknown) = (BTreeMap::new(), Vec::new());
    for (alias, name) in aliases {
        match finished.iter().find(|version| read::name(version) == name) {
            Some(version) => _ = known.insert(alias.clone(), named(version)),
            None => unknown.push(format!("{alias} ({name})")),
        }
    }
    (known, unknown)
}
