//! Decides the next step of a Deployment from the Deployment, its sets, its pods and the time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::intent::{Intent, Strategy};
use super::rolling::{Resize, new_replicas, shrink_old};
use super::scale::scale;
use super::sets::{self, REVISION, replicas};
use super::status::{self, NewSet};
use crate::events::Note;
use crate::pods;

/// A change to one set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SetEdit {
    pub(crate) name: String,
    pub(crate) replicas: Option<i32>,
    pub(crate) min_ready_seconds: Option<i32>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// What to do, in this order: revision, create, edits, delete, status.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DeploymentPlan {
    /// The revision annotation of the Deployment, when it differs.
    pub(crate) revision: Option<String>,
    pub(crate) create: Option<Box<ReplicaSet>>,
    pub(crate) edits: Vec<SetEdit>,
    /// Names of old sets beyond the history limit.
    pub(crate) delete: Vec<String>,
    pub(crate) status: Option<DeploymentStatus>,
    pub(crate) notes: Vec<Note>,
    pub(crate) next: Option<Duration>,
}

/// The next step. `sets` are all sets controlled by the Deployment, `pods` all pods of the namespace.
pub(crate) fn decide<S: AsRef<ReplicaSet>, P: AsRef<Pod>>(
    deployment: &Deployment,
    sets: &[S],
    pods: &[P],
    now: Timestamp,
) -> DeploymentPlan {
    let mut plan = DeploymentPlan::default();
    let Some(spec) = &deployment.spec else { return plan };
    let intent = Intent::of(spec);
    let (new, old) = sets::split(sets, &spec.template);
    if deployment.metadata.deletion_timestamp.is_none() {
        act(deployment, &intent, new, &old, pods, &mut plan);
    }
    report(deployment, &intent, new, &old, now, &mut plan);
    plan
}

fn act<P: AsRef<Pod>>(
    deployment: &Deployment,
    intent: &Intent,
    new: Option<&ReplicaSet>,
    old: &[&ReplicaSet],
    pods: &[P],
    plan: &mut DeploymentPlan,
) {
    let revision = old.iter().map(|set| sets::revision(set)).max().unwrap_or(0) + 1;
    let mut edits = Edits { intent, list: Vec::new() };
    if let Some(new) = new {
        edits.keep(deployment, new, revision);
        plan.revision = Some(revision.max(sets::revision(new)).to_string())
            .filter(|revision| deployment.annotations().get(REVISION) != Some(revision));
    }
    let resized = old.iter().chain(&new).any(|set| sets::was_scaled_for_other_size(set, intent));
    if intent.paused || resized {
        edits.resize(scale(intent, new, old));
    } else {
        match intent.strategy {
            Strategy::RollingUpdate => roll(deployment, intent, new, old, revision, &mut edits, plan),
            Strategy::Recreate => recreate(deployment, intent, new, old, pods, revision, &mut edits, plan),
        }
    }
    plan.edits = edits.list;
    for edit in plan.edits.iter().filter(|edit| edit.replicas.is_some()) {
        let from = old.iter().chain(&new).find(|set| set.name_any() == edit.name).map_or(0, |set| replicas(set));
        let to = edit.replicas.unwrap_or(0);
        if to == from {
            continue;
        }
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {from} to {to}", edit.name);
        plan.notes.push(Note::normal("ScalingReplicaSet", message));
    }
}

fn roll(
    deployment: &Deployment,
    intent: &Intent,
    new: Option<&ReplicaSet>,
    old: &[&ReplicaSet],
    revision: i64,
    edits: &mut Edits<'_>,
    plan: &mut DeploymentPlan,
) {
    let Some(new) = new else {
        return create(deployment, intent, new_replicas(intent, 0, old), revision, plan);
    };
    let wanted = new_replicas(intent, replicas(new), old);
    if wanted == replicas(new) {
        edits.resize(shrink_old(intent, new, old));
    } else {
        edits.resize(vec![(new, wanted)]);
    }
}

#[expect(clippy::too_many_arguments, reason = "all of them are inputs of one decision")]
fn recreate<P: AsRef<Pod>>(
    deployment: &Deployment,
    intent: &Intent,
    new: Option<&ReplicaSet>,
    old: &[&ReplicaSet],
    pods: &[P],
    revision: i64,
    edits: &mut Edits<'_>,
    plan: &mut DeploymentPlan,
) {
    if old.iter().any(|set| replicas(set) > 0) {
        return edits.resize(old.iter().map(|set| (*set, 0)).collect());
    }
    let runs = |pod: &Pod| {
        !pods::is_terminal(pod)
            && old.iter().any(|set| pods::is_controlled_by(&pod.metadata, set.metadata.uid.as_deref().unwrap_or("-")))
    };
    if pods.iter().any(|pod| runs(pod.as_ref())) {
        return;
    }
    match new {
        Some(new) => edits.resize(vec![(new, intent.replicas)]),
        None => create(deployment, intent, intent.replicas, revision, plan),
    }
}

fn create(deployment: &Deployment, intent: &Intent, count: i32, revision: i64, plan: &mut DeploymentPlan) {
    let set = sets::new_set(deployment, count, revision, intent);
    if count > 0 {
        let message = format!("Scaled up replica set {} from 0 to {count}", set.name_any());
        plan.notes.push(Note::normal("ScalingReplicaSet", message));
    }
    plan.create = Some(Box::new(set));
    plan.revision = Some(revision.to_string());
}

fn report(
    deployment: &Deployment,
    intent: &Intent,
    new: Option<&ReplicaSet>,
    old: &[&ReplicaSet],
    now: Timestamp,
    plan: &mut DeploymentPlan,
) {
    let name = plan.create.as_ref().map(|set| set.name_any());
    let state = match (new, &name) {
        (Some(set), _) => NewSet::Found(set),
        (None, Some(name)) => NewSet::Created(name),
        (None, None) => NewSet::Absent,
    };
    let all: Vec<&ReplicaSet> = old.iter().copied().chain(new).collect();
    let (status, wait) = status::status(deployment, intent, state, &all, now);
    if status::is_complete(deployment, intent, &status) && plan.edits.is_empty() {
        plan.delete = beyond_history(intent, old);
    }
    plan.next = wait;
    plan.status = (deployment.status.as_ref() != Some(&status)).then_some(status);
}

/// The oldest revisions that run nothing and that the history limit does not keep.
fn beyond_history(intent: &Intent, old: &[&ReplicaSet]) -> Vec<String> {
    let is_empty = |set: &&&ReplicaSet| {
        let status = set.status.clone().unwrap_or_default();
        set.metadata.deletion_timestamp.is_none()
            && replicas(set) == 0
            && status.replicas == 0
            && status.observed_generation >= set.metadata.generation
    };
    let mut empty: Vec<&&ReplicaSet> = old.iter().filter(is_empty).collect();
    empty.sort_by_key(|set| sets::revision(set));
    let kept = usize::try_from(intent.revision_history_limit).unwrap_or(0);
    let surplus = empty.len().saturating_sub(kept);
    empty.into_iter().take(surplus).map(|set| set.name_any()).collect()
}

struct Edits<'a> {
    intent: &'a Intent,
    list: Vec<SetEdit>,
}

impl Edits<'_> {
    fn edit(&mut self, name: String) -> &mut SetEdit {
        let at = self.list.iter().position(|edit| edit.name == name).unwrap_or_else(|| {
            let edit = SetEdit { name, replicas: None, min_ready_seconds: None, annotations: BTreeMap::new() };
            self.list.push(edit);
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    /// Keeps revision and minimum ready time of the new set.
    fn keep(&mut self, deployment: &Deployment, new: &ReplicaSet, revision: i64) {
        if sets::revision(new) < revision {
            self.edit(new.name_any()).annotations.insert(REVISION.to_owned(), revision.to_string());
        }
        let asked = deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let has = new.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        if asked != has {
            self.edit(new.name_any()).min_ready_seconds = Some(asked);
        }
    }

    fn resize(&mut self, sizes: Vec<Resize<'_>>) {
        let annotations = sets::scale_annotations(self.intent);
        for (set, size) in sizes {
            let stale: BTreeMap<String, String> = annotations
                .iter()
                .filter(|(name, value)| set.annotations().get(*name) != Some(value))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let grows = replicas(set) != size;
            if !grows && (stale.is_empty() || size == 0) {
                continue;
            }
            let edit = self.edit(set.name_any());
            edit.replicas = grows.then_some(size);
            edit.annotations.extend(stale);
        }
    }
}
