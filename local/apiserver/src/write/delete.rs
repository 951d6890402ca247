//! Deletion: at once, or marked and left to finalizers, grace periods and dependents.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use serde::Deserialize;
use serde_json::Value;

use super::{ATTEMPTS, Request, live};
use crate::Core;
use crate::kinds::ResourceKind;
use crate::meta::{self, FOREGROUND, ORPHAN};
use crate::query::Parameters;
use crate::selector::Selector;
use crate::status::{self, ApiError};
use crate::store::{Change, Object, Write, WriteError};
use crate::{strategy, versions};

/// Deletions of one collection under way at a time.
const PARALLEL: usize = 64;

/// The body or the parameters of a DELETE.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<Propagation>,
    pub preconditions: Option<Preconditions>,
    pub dry_run: Option<Vec<String>>,
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// What a deletion does to an object.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    /// Nothing keeps it.
    Remove(Value),
    /// It stays, marked, until released.
    Mark(Value),
    /// Already as marked as it can be.
    Unchanged,
}

impl DeleteOptions {
    /// Reads the body when there is one, else the parameters: as in Kubernetes, a body stands alone.
    pub fn read(body: Option<Value>, parameters: &Parameters) -> Result<Self, ApiError> {
        if let Some(body) = body {
            return serde_json::from_value(body)
                .map_err(|error| ApiError::bad_request(format!("cannot read the DeleteOptions: {error}")));
        }
        let grace = parameters.number("gracePeriodSeconds")?;
        Ok(Self {
            grace_period_seconds: grace.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
            propagation_policy: parameters.text("propagationPolicy").map(policy_of).transpose()?,
            dry_run: parameters.dry_run()?.then(|| vec!["All".to_owned()]),
            ..Self::default()
        })
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|stages| !stages.is_empty())
    }
}

fn policy_of(text: &str) -> Result<Propagation, ApiError> {
    match text {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => Err(ApiError::bad_request(format!(
            "propagationPolicy: Unsupported value: \"{other}\": supported values: \"Background\", \"Foreground\", \"Orphan\""
        ))),
    }
}

/// Deletes one object. The answer is the object while it stays, a `Status` once it is gone.
pub async fn delete(core: &Core, request: &Request, name: &str, options: &DeleteOptions) -> Result<Value, ApiError> {
    for _ in 0..ATTEMPTS {
        let current = live(core, request, name)?;
        match delete_once(core, request, &current, options).await? {
            Ok(answer) => return Ok(answer),
            Err(WriteError::Stale) => {}
            Err(error) => return Err(request.refused(name, &error)),
        }
    }
    Err(ApiError::stale(&request.kind, name))
}

async fn delete_once(
    core: &Core,
    request: &Request,
    current: &Arc<Object>,
    options: &DeleteOptions,
) -> Result<Result<Value, WriteError>, ApiError> {
    let kind = &request.kind;
    let old = versions::shown(current, kind);
    check_preconditions(kind, current, options)?;
    strategy::check_delete(kind, &old)?;
    let now = k8s_openapi::jiff::Timestamp::now();
    let (change, value) = match decide(kind, &old, options, now) {
        Outcome::Unchanged => return Ok(Ok(old)),
        Outcome::Mark(value) => (Change::Put(versions::stored(value.clone(), kind)), value),
        Outcome::Remove(value) => (Change::Delete(versions::stored(value.clone(), kind)), value),
    };
    let removes = matches!(change, Change::Delete(_));
    if !options.is_dry_run() {
        let write = Write { key: current.key.clone(), expected: Some(current.revision), change, within: None };
        let object = match core.store.write(write).await {
            Ok(object) => object,
            Err(error) => return Ok(Err(error)),
        };
        core.after_write(&object);
        if !removes || strategy::returns_deleted(kind) {
            return Ok(Ok(versions::shown(&object, kind)));
        }
    }
    Ok(Ok(if removes { status::success(kind, &current.key.name, &current.uid) } else { value }))
}

/// Deletes what a selector picks; returns the objects.
pub async fn delete_collection(
    core: &Core,
    request: &Request,
    namespace: Option<&str>,
    selector: &Selector,
    options: &DeleteOptions,
) -> Result<Vec<Arc<Object>>, ApiError> {
    let mut objects = core.store.list(&versions::stored_resource(&request.kind), namespace).objects;
    objects.retain(|object| selector.matches(object));
    let deletions = objects.iter().map(|object| async {
        let mut one = request.clone();
        one.namespace.clone_from(&object.key.namespace);
        match Box::pin(delete(core, &one, &object.key.name, options)).await {
            Err(error) if error.reason != "NotFound" => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    });
    // At once, so that they share commits.
    let deletions = deletions.collect::<Vec<_>>();
    futures::stream::iter(deletions).buffer_unordered(PARALLEL).try_for_each(|()| async { Ok(()) }).await?;
    Ok(objects)
}

fn check_preconditions(kind: &ResourceKind, current: &Object, options: &DeleteOptions) -> Result<(), ApiError> {
    let Some(preconditions) = &options.preconditions else { return Ok(()) };
    let refuse = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(ApiError::conflict(kind, &current.key.name, &why))
    };
    if let Some(uid) = &preconditions.uid
        && *uid != current.uid
    {
        return refuse("UID", uid, &current.uid);
    }
    if let Some(revision) = &preconditions.resource_version
        && *revision != current.revision.to_string()
    {
        return refuse("ResourceVersion", revision, &current.revision.to_string());
    }
    Ok(())
}

fn decide(kind: &ResourceKind, old: &Value, options: &DeleteOptions, now: k8s_openapi::jiff::Timestamp) -> Outcome {
    let grace = strategy::grace_seconds(kind, old, options.grace_period_seconds);
    let finalizers = finalizers_for(old, options.propagation_policy);
    let mut new = old.clone();
    meta::set_finalizers(&mut new, &finalizers);
    let kept = !finalizers.is_empty() || grace > 0 || strategy::keeps_until_emptied(kind, old);
    let first = !meta::is_terminating(old);
    let earlier = old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    if first || grace < earlier {
        let due = now + k8s_openapi::jiff::SignedDuration::from_secs(grace);
        meta::set(&mut new, "deletionTimestamp", Some(meta::timestamp(due).into()));
        meta::set(&mut new, "deletionGracePeriodSeconds", Some(grace.into()));
    }
    if first && let Some(generation) = old["metadata"]["generation"].as_i64() {
        meta::set(&mut new, "generation", Some((generation + 1).into()));
    }
    if first {
        strategy::mark_deleted(kind, &mut new);
    }
    match (kept, new == *old) {
        (false, _) => Outcome::Remove(new),
        (true, true) => Outcome::Unchanged,
        (true, false) => Outcome::Mark(new),
    }
}

/// The policy becomes a finalizer that the collector works off; no policy keeps what is there.
fn finalizers_for(old: &Value, policy: Option<Propagation>) -> Vec<String> {
    let mut finalizers = meta::finalizers(old);
    let Some(policy) = policy else { return finalizers };
    let wanted = match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    finalizers.retain(|one| (one != FOREGROUND && one != ORPHAN) || Some(one.as_str()) == wanted);
    if let Some(wanted) = wanted
        && !finalizers.iter().any(|one| one == wanted)
    {
        finalizers.push(wanted.to_owned());
    }
    finalizers
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::kinds::test_kind;

    fn outcome(kind: &str, old: &Value, options: &DeleteOptions) -> Outcome {
        decide(&test_kind("", kind), old, options, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn running_pods_wait_for_their_grace_period() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "local", "terminationGracePeriodSeconds": 5}});
        let Outcome::Mark(marked) = outcome("Pod", &pod, &DeleteOptions::default()) else { panic!("not marked") };
        assert_eq!(marked["metadata"]["deletionTimestamp"], "1970-01-01T00:00:05Z");
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 5);
        assert_eq!(outcome("Pod", &marked, &DeleteOptions::default()), Outcome::Unchanged);
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        assert!(matches!(outcome("Pod", &marked, &now), Outcome::Remove(_)));
    }

    #[test]
    fn unscheduled_pods_and_other_kinds_go_at_once() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {}});
        assert!(matches!(outcome("Pod", &pod, &DeleteOptions::default()), Outcome::Remove(_)));
        assert!(matches!(outcome("ConfigMap", &pod, &DeleteOptions::default()), Outcome::Remove(_)));
    }

    #[test]
    fn policies_become_finalizers() {
        let object = json!({"metadata": {"name": "p", "finalizers": ["a/b"]}});
        let options = DeleteOptions { propagation_policy: Some(Propagation::Foreground), ..DeleteOptions::default() };
        let Outcome::Mark(marked) = outcome("ConfigMap", &object, &options) else { panic!("not marked") };
        assert_eq!(marked["metadata"]["finalizers"], json!(["a/b", "foregroundDeletion"]));
        let options = DeleteOptions { propagation_policy: Some(Propagation::Background), ..DeleteOptions::default() };
        let Outcome::Mark(marked) = outcome("ConfigMap", &marked, &options) else { panic!("not marked") };
        assert_eq!(marked["metadata"]["finalizers"], json!(["a/b"]));
    }
}
