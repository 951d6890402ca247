//! The sets of a Deployment: telling new from old, naming, revisions and annotations.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use super::intent::Intent;
use crate::pods;

/// Tells the pods of one template from those of another.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// No vowels and no look-alikes, as in generated names.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

pub(crate) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Available pods, never more than the set is still asked to have.
pub(crate) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0).min(replicas(set))
}

pub(crate) fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// The `max-replicas` that the set was last scaled under.
pub(crate) fn recorded_max(set: &ReplicaSet) -> Option<i32> {
    set.annotations().get(MAX_REPLICAS)?.parse().ok()
}

/// The Deployment's `replicas` changed since this set was scaled.
pub(crate) fn was_scaled_for_other_size(set: &ReplicaSet, intent: &Intent) -> bool {
    let recorded = set.annotations().get(DESIRED_REPLICAS).and_then(|count| count.parse::<i32>().ok());
    replicas(set) > 0 && recorded.is_some_and(|recorded| recorded != intent.replicas)
}

/// The annotations a set gets whenever it is scaled.
pub(crate) fn scale_annotations(intent: &Intent) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), intent.replicas.to_string()),
        (MAX_REPLICAS.to_owned(), intent.max_total().to_string()),
    ])
}

/// Equal but for the hash label.
fn same_template(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(theirs) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) else { return false };
    without_hash(theirs) == without_hash(template)
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let meta = template.metadata.get_or_insert_default();
    if let Some(labels) = &mut meta.labels {
        labels.remove(TEMPLATE_HASH);
    }
    meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
    meta.annotations = meta.annotations.take().filter(|annotations| !annotations.is_empty());
    meta.creation_timestamp = None;
    template
}

/// Splits into the set of the current template, if there is one, and all others, oldest first.
pub(crate) fn split<'a, S: AsRef<ReplicaSet>>(
    sets: &'a [S],
    template: &PodTemplateSpec,
) -> (Option<&'a ReplicaSet>, Vec<&'a ReplicaSet>) {
    let mut all: Vec<&ReplicaSet> = sets.iter().map(AsRef::as_ref).collect();
    all.sort_by_key(|set| (set.creation_timestamp(), revision(set), set.name_any()));
    let new = all.iter().position(|set| same_template(set, template));
    let new = new.map(|at| all.remove(at));
    (new, all)
}

/// The set for the current template.
pub(crate) fn new_set(deployment: &Deployment, replicas: i32, revision: i64, intent: &Intent) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let hash = template_hash(&spec.template, collisions);
    let mut template = spec.template;
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(TEMPLATE_HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.to_owned(), hash.clone());
    let mut annotations = deployment.annotations().clone();
    annotations.remove(LAST_APPLIED);
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations.extend(scale_annotations(intent));
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![pods::owner_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

fn template_hash(template: &PodTemplateSpec, collisions: i32) -> String {
    let text = serde_json::to_string(&without_hash(template)).unwrap_or_default();
    let digest = Sha256::new().chain_update(text).chain_update(collisions.to_le_bytes()).finalize();
    digest.iter().take(10).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};
    use std::sync::Arc;

    fn deployment(image: &str) -> Deployment {
        from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "d"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": image}]}}
            }
        }))
        .unwrap()
    }

    #[test]
    fn finds_the_set_made_from_the_current_template() {
        let (one, two) = (deployment("a"), deployment("b"));
        let intent = Intent::of(one.spec.as_ref().unwrap());
        let sets = [Arc::new(new_set(&one, 1, 1, &intent)), Arc::new(new_set(&two, 1, 2, &intent))];
        let (new, old) = split(&sets, &two.spec.unwrap().template);
        assert_eq!(new.unwrap().name_any(), sets[1].name_any());
        assert_eq!(old.len(), 1);
        assert_eq!(revision(old[0]), 1);
    }

    #[test]
    fn a_collision_gives_another_name_for_the_same_template() {
        let template = deployment("a").spec.unwrap().template;
        assert_eq!(template_hash(&template, 0), template_hash(&template, 0));
        assert_ne!(template_hash(&template, 0), template_hash(&template, 1));
        assert_eq!(template_hash(&template, 0).len(), 10);
    }
}
