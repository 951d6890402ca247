//! A finished training job that opted in becomes a `ModelVersion`, once.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason, labels,
    model_version::{ImageBuildPhase, JobReference, ModelVersionSpec, ModelVersionStatus, Provenance, Storage},
    names,
};
use serde_json::{Value, json};

use crate::{
    context::Context,
    job_source::{JobSource, Outcome},
    json as read,
    manifest::patch_metadata,
    plan::{Action, Plan},
    source::{self, ClaimUse, SourceError},
    world::{Key, Kind},
};

/// How long after a job's end its pod may take to show up in the cache with its termination message.
const REPORT_GRACE: Duration = Duration::from_secs(2);
/// How soon to look again for it.
const REPORT_POLL: Duration = Duration::from_millis(200);

/// Plans what the job's present state asks for.
pub fn plan(cx: &Context, sources: &[JobSource], key: &Key) -> Plan {
    let mut plan = Plan::default();
    let Some(job) = cx.world.object(key) else { return plan };
    let Some(source) = sources.iter().find(|source| source.kind == key.kind) else { return plan };
    let Some(model) = read::annotation(job, labels::job::MODEL).filter(|_| !JobSource::is_child(job, sources)) else {
        release(&mut plan, job);
        return plan;
    };
    match source.outcome(job) {
        Outcome::Running => hold(cx, &mut plan, source, job),
        Outcome::Failed { message } => {
            let message = format!("the job failed, no version of {model} is made: {message}");
            refuse(&mut plan, job, &SourceError { reason: Reason::JobFailed, message });
        }
        Outcome::Succeeded { at } => publish(cx, &mut plan, source, job, model, at),
    }
    plan
}

fn publish(cx: &Context, plan: &mut Plan, source: &JobSource, job: &Value, model: &str, ended: Option<Timestamp>) {
    if let Some(version) = read::annotation(job, labels::job::PUBLISHED) {
        release_when_built(cx, plan, job, version, ended);
        return;
    }
    let chief = source.chief_pod(cx.world, job);
    let has_ended = chief.is_some_and(|pod| matches!(read::text(pod, "/status/phase"), "Succeeded" | "Failed"));
    if !has_ended && ended.is_some_and(|ended| cx.left(ended, REPORT_GRACE).is_some()) {
        plan.look_again(REPORT_POLL);
        return;
    }
    match version_of(cx, source, job, model, chief) {
        Ok(version) => create(cx, plan, job, &version),
        Err(error) => refuse(plan, job, &error),
    }
}

/// The version's spec, or why there is none.
fn version_of(
    cx: &Context,
    source: &JobSource,
    job: &Value,
    model: &str,
    chief: Option<&Value>,
) -> Result<ModelVersionSpec, SourceError> {
    let invalid = |message: String| SourceError { reason: Reason::InvalidName, message };
    if !is_model_name(model) {
        return Err(invalid(format!(
            "annotation {} is \"{}\": a model's name has at most 40 lower-case letters, digits and dashes and begins with a letter",
            labels::job::MODEL,
            modelway_api::conditions::shortened(model, 100)
        )));
    }
    let tag = read::annotation(job, labels::job::VERSION);
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        let tag = modelway_api::conditions::shortened(tag, 140);
        return Err(invalid(format!("annotation {} is \"{tag}\", which is no image tag", labels::job::VERSION)));
    }
    let template = job.pointer(source.template).unwrap_or(&Value::Null);
    let report = source::report(chief);
    let storage = source::find(job, template, chief, &report)?;
    check_storage(cx, &storage)?;
    let images = read::items(template, "/spec/containers").map(|container| read::text(container, "/image"));
    Ok(ModelVersionSpec {
        model_name: model.to_owned(),
        created_by: Some(read::name(job).to_owned()),
        storage,
        image_repo: read::annotation(job, labels::job::IMAGE_REPO).map(str::to_owned),
        image_tag: tag.map(str::to_owned),
        provenance: Some(Provenance {
            job: Some(JobReference {
                api_version: source.kind.api_version(),
                kind: source.kind.as_str().to_owned(),
                name: read::name(job).to_owned(),
                uid: read::uid(job).to_owned(),
            }),
            images: images.filter(|image| !image.is_empty()).map(str::to_owned).take(32).collect(),
            metrics: report.metrics,
        }),
        ..ModelVersionSpec::default()
    })
}

/// Whether this release may and can read the storage.
pub fn check_storage(cx: &Context, storage: &Storage) -> Result<(), SourceError> {
    if let Some(local) = &storage.local_storage
        && !source::is_allowed(&local.path, &cx.settings.allowed_host_paths)
    {
        let prefixes = cx.settings.allowed_host_paths.join(", ");
        return Err(SourceError {
            reason: Reason::HostPathNotAllowed,
            message: format!(
                "host folder {} is under none of the allowed prefixes ({}): use a persistent volume claim, or ask \
                 whoever runs the controller to allow the folder with --allowed-host-paths",
                local.path,
                if prefixes.is_empty() { "there are none" } else { &prefixes }
            ),
        });
    }
    if storage.nfs.is_some() || storage.aws_efs.is_some() {
        return Err(SourceError {
            reason: Reason::StorageNotSupported,
            message: "nfs and AWSEfs storage is not read by this release: mount it as a persistent volume claim and \
                      use storage.pvc"
                .to_owned(),
        });
    }
    Ok(())
}

fn create(cx: &Context, plan: &mut Plan, job: &Value, spec: &ModelVersionSpec) {
    let (name, uid, namespace) = (read::name(job), read::uid(job), read::text(job, "/metadata/namespace"));
    let version = names::model_version(name, uid);
    let key = Key::new(Kind::ModelVersion, namespace, &version);
    if let Some(rejection) = cx.world.rejection(&key) {
        let message = format!("{key} was refused: {}", rejection.message);
        refuse(plan, job, &SourceError { reason: Reason::ChildRejected, message });
        return;
    }
    match cx.world.get(Kind::ModelVersion, namespace, &version) {
        Some(there) if read::label(there, labels::JOB_UID) != Some(uid) => {
            let message = format!("ModelVersion {version} exists and is of another job: delete it or rename the job");
            refuse(plan, job, &SourceError { reason: Reason::NameTaken, message });
            return;
        }
        Some(_) => {}
        None => plan.push(Action::Create(json!({
            "apiVersion": Kind::ModelVersion.api_version(),
            "kind": Kind::ModelVersion.as_str(),
            "metadata": {
                "name": version,
                "namespace": namespace,
                "labels": {
                    labels::JOB_UID: uid,
                    labels::JOB_NAME: names::label_value(name),
                    labels::MODEL_NAME: spec.model_name,
                    labels::MANAGED_BY: modelway_api::MANAGER,
                },
            },
            "spec": spec,
        }))),
    }
    let annotations = json!({ labels::job::PUBLISHED: version, labels::job::NOT_PUBLISHED: null });
    plan.actions.extend(patch_metadata(job, json!({ "annotations": annotations })));
    plan.tell(job, false, Reason::Published, format!("output is being published as ModelVersion {version}"));
}

/// Records why there is no version, and lets the job go.
fn refuse(plan: &mut Plan, job: &Value, error: &SourceError) {
    let note = modelway_api::conditions::shortened(&format!("{}: {}", error.reason, error.message), 1_024);
    if read::annotation(job, labels::job::NOT_PUBLISHED) == Some(&note) {
        release(plan, job);
        return;
    }
    let annotations = json!({ labels::job::NOT_PUBLISHED: note });
    plan.actions.extend(patch_metadata(job, json!({ "annotations": annotations })));
    plan.tell(job, true, error.reason, error.message.as_str());
}

/// Holds a job that owns the volume with its output, as long as it may still succeed.
fn hold(cx: &Context, plan: &mut Plan, source: &JobSource, job: &Value) {
    if read::is_deleted(job) {
        release(plan, job);
        return;
    }
    if has_finalizer(job) || !owns_output(cx, source, job) {
        return;
    }
    let mut finalizers: Vec<&Value> = read::items(job, "/metadata/finalizers").collect();
    let ours = json!(labels::PUBLISH_FINALIZER);
    finalizers.push(&ours);
    plan.actions.extend(patch_metadata(job, json!({ "finalizers": finalizers })));
}

fn owns_output(cx: &Context, source: &JobSource, job: &Value) -> bool {
    let template = job.pointer(source.template).unwrap_or(&Value::Null);
    let namespace = read::text(job, "/metadata/namespace");
    source::candidate_claims(job, template).into_iter().any(|claim| match claim {
        ClaimUse::Ephemeral => true,
        ClaimUse::Named(name) => cx
            .world
            .get(Kind::PersistentVolumeClaim, namespace, &name)
            .is_some_and(|claim| read::is_owned_by(claim, read::uid(job))),
    })
}

/// Lets a held job go once its version is built, failed for good or gone, or the limit has passed.
fn release_when_built(cx: &Context, plan: &mut Plan, job: &Value, version: &str, ended: Option<Timestamp>) {
    if !has_finalizer(job) {
        return;
    }
    let namespace = read::text(job, "/metadata/namespace");
    let is_leaving = cx.world.get(Kind::Namespace, "", namespace).is_some_and(read::is_deleted);
    let started = read::time(job, "/metadata/deletionTimestamp").or(ended);
    let left = started.and_then(|started| cx.left(started, cx.settings.hold_job_limit));
    let is_done = cx.world.get(Kind::ModelVersion, namespace, version).is_some_and(|version| {
        let status = serde_json::from_value::<ModelVersionStatus>(version["status"].clone()).unwrap_or_default();
        matches!(
            status.image_build_phase,
            Some(ImageBuildPhase::ImageBuildSucceeded | ImageBuildPhase::ImageBuildFailed)
        )
    });
    match left {
        Some(left) if !is_done && !is_leaving => plan.look_again(left),
        _ => release(plan, job),
    }
}

fn has_finalizer(job: &Value) -> bool {
    read::items(job, "/metadata/finalizers").any(|name| name == labels::PUBLISH_FINALIZER)
}

fn release(plan: &mut Plan, job: &Value) {
    if has_finalizer(job) {
        let others: Vec<&Value> =
            read::items(job, "/metadata/finalizers").filter(|name| *name != labels::PUBLISH_FINALIZER).collect();
        plan.actions.extend(patch_metadata(job, json!({ "finalizers": others })));
    }
}

fn is_model_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(is_inner)
}

fn is_tag(tag: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=128).contains(&tag.len()) && !tag.starts_with(['.', '-']) && tag.chars().all(is_inner)
}
