//! The builder Job of a `ModelVersion`, and what its pod reports.

use std::{collections::BTreeMap, time::Duration};

use modelway_api::{
    Reason, labels,
    model_version::{ModelVersionSpec, Upload},
    names,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    context::Context,
    json as read,
    manifest::{annotate, container_security, labels as label_map, manifest, pod_security},
    pods, refusal, source,
    world::Kind,
};

/// Secret with registry credentials unless the version names one.
const DEFAULT_REGISTRY_SECRET: &str = "regcred";
/// Where the credentials are mounted.
const AUTH_FOLDER: &str = "/etc/modelway/registry";
/// Key of a `kubernetes.io/dockerconfigjson` Secret.
const AUTH_KEY: &str = ".dockerconfigjson";
/// Key of the certificate authority of a registry that has its own.
const CA_KEY: &str = "ca.crt";
/// Where the files are mounted.
const SOURCE_FOLDER: &str = "/source";
/// Where the result goes.
const RESULT_FILE: &str = "/dev/termination-log";

/// Failures that another attempt cannot cure: the files themselves are the problem.
const PERMANENT: [&str; 7] =
    ["InvalidReference", "SourceEmpty", "SecretInSource", "PickleDenied", "ModelDamaged", "SourceInvalid", "TagTaken"];

/// One attempt to build an image.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    pub version: &'a Value,
    pub spec: &'a ModelVersionSpec,
    pub spec_hash: &'a str,
    pub repository: &'a str,
    pub tag: &'a str,
    pub number: u32,
    /// Time that the attempt may take.
    pub deadline: Duration,
}

/// The builder Job; created once, never changed.
pub fn job(cx: &Context, attempt: &Attempt) -> Value {
    let version_name = read::name(attempt.version);
    let names = label_map(&[
        (labels::APP_NAME, "modelway"),
        (labels::APP_COMPONENT, labels::component::BUILDER),
        (labels::BUILDS_VERSION, &names::label_value(version_name)),
        (labels::MODEL_NAME, &attempt.spec.model_name),
    ]);
    let name = names::build_job(version_name, attempt.spec_hash, attempt.number);
    let mut job = manifest(Kind::Job, &name, attempt.version, names.clone());
    annotate(&mut job, labels::VERSION_NAME, version_name);
    annotate(&mut job, labels::SPEC_HASH, attempt.spec_hash);
    annotate(&mut job, labels::ATTEMPT, &attempt.number.to_string());
    job["spec"] = json!({
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
        "activeDeadlineSeconds": attempt.deadline.as_secs().max(1),
        "template": {
            "metadata": { "labels": names },
            "spec": pod(cx, attempt),
        },
    });
    job
}

fn pod(cx: &Context, attempt: &Attempt) -> Value {
    let secret = attempt.spec.registry_secret.as_deref().unwrap_or(DEFAULT_REGISTRY_SECRET);
    let (volume, sub_path) = source_volume(attempt.spec);
    let mut source_mount = json!({ "name": "source", "mountPath": SOURCE_FOLDER, "readOnly": true });
    if let Some(sub_path) = sub_path {
        source_mount["subPath"] = sub_path.into();
    }
    // Credentials are mounted, never read here; a registry may need none.
    let credentials = json!({ "name": "registry", "secret": { "secretName": secret, "optional": true } });
    let credentials_mount = json!({ "name": "registry", "mountPath": AUTH_FOLDER, "readOnly": true });
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "securityContext": pod_security(),
        "containers": [{
            "name": "builder",
            "image": cx.settings.image,
            "command": command(cx, attempt),
            "terminationMessagePath": RESULT_FILE,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": container_security(),
            "volumeMounts": [source_mount, credentials_mount],
        }],
        "volumes": [volume, credentials],
    });
    if let Some(node) = attempt.spec.storage.local_storage.as_ref().and_then(|local| local.node_name.as_ref()) {
        pod["nodeName"] = node.as_str().into();
    }
    pod
}

fn source_volume(spec: &ModelVersionSpec) -> (Value, Option<String>) {
    if let Some(claim) = &spec.storage.pvc {
        let volume =
            json!({ "name": "source", "persistentVolumeClaim": { "claimName": claim.claim_name, "readOnly": true } });
        return (volume, claim.sub_path.as_deref().and_then(source::clean).filter(|path| !path.is_empty()));
    }
    let path = spec.storage.local_storage.as_ref().map_or("", |local| local.path.as_str());
    (json!({ "name": "source", "hostPath": { "path": path, "type": "Directory" } }), None)
}

fn command(cx: &Context, attempt: &Attempt) -> Vec<String> {
    let mut command: Vec<String> = ["modelway", "model", "push", "--source", SOURCE_FOLDER, "--repository"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    command.extend([attempt.repository.to_owned(), "--tag".to_owned(), attempt.tag.to_owned()]);
    let host = attempt.repository.split('/').next().unwrap_or_default();
    if cx.settings.plain_http.iter().any(|plain| plain == host) {
        command.push("--plain-http".to_owned());
    }
    command.extend(["--auth-file".to_owned(), format!("{AUTH_FOLDER}/{AUTH_KEY}")]);
    command.extend(["--ca-file".to_owned(), format!("{AUTH_FOLDER}/{CA_KEY}")]);
    command.extend(["--metadata".to_owned(), literal(&metadata(attempt).to_string())]);
    command.extend(["--result".to_owned(), RESULT_FILE.to_owned()]);
    command
}

fn metadata(attempt: &Attempt) -> Value {
    json!({
        "model": attempt.spec.model_name,
        "version": read::name(attempt.version),
        "namespace": attempt.version["metadata"]["namespace"],
        "provenance": attempt.spec.provenance,
    })
}

/// Keeps Kubernetes from expanding `$(NAME)` within an argument.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// What a builder that succeeded wrote.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BuildResult {
    pub image: String,
    pub digest: String,
    #[serde(default)]
    pub tag: String,
    #[serde(default)]
    pub size_bytes: i64,
    #[serde(default)]
    pub files: i64,
    #[serde(default)]
    pub format: Option<String>,
    #[serde(default)]
    pub parameter_count: Option<i64>,
    #[serde(default)]
    pub upload: Option<Upload>,
    #[serde(default)]
    pub metrics: BTreeMap<String, Value>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BuildError {
    pub reason: Reason,
    pub message: String,
    /// Another attempt would fail alike.
    pub is_permanent: bool,
}

/// What keeps an attempt's pod from running: a volume that is not there, say.
pub fn obstacle(cx: &Context, job: &Value) -> Option<pods::Problem> {
    pods::problem(own_pods(cx, job)).or_else(|| refused_pods(cx, job))
}

/// Why the Job gets no pod at all; a Job has no condition for it, only events.
fn refused_pods(cx: &Context, job: &Value) -> Option<pods::Problem> {
    if own_pods(cx, job).next().is_some() {
        return None;
    }
    let events = cx.world.list(Kind::Event, read::text(job, "/metadata/namespace"));
    let about = events.filter(|event| event["involvedObject"]["uid"] == job["metadata"]["uid"]);
    let message =
        about.max_by_key(|event| read::text(event, "/lastTimestamp")).map(|event| read::text(event, "/message"))?;
    let reason = refusal::reason(message);
    let message = format!("no pod is made for Job {}: {message}{}", read::name(job), refusal::advice(reason));
    Some(pods::Problem { reason: Some(reason), message })
}

fn own_pods<'a>(cx: &Context<'a>, job: &'a Value) -> impl Iterator<Item = &'a Value> {
    let pods = cx.world.list(Kind::Pod, read::text(job, "/metadata/namespace"));
    pods.filter(|pod| read::is_controlled_by(pod, read::uid(job)))
}

/// The termination message of an attempt's pod; `None` when it has not been seen.
pub fn termination_message<'a>(cx: &Context<'a>, job: &'a Value) -> Option<&'a str> {
    let statuses = own_pods(cx, job).flat_map(|pod| read::items(pod, "/status/containerStatuses"));
    statuses.filter_map(|status| status.pointer("/state/terminated/message")?.as_str()).find(|text| !text.is_empty())
}

/// Reads and checks the result of a builder that succeeded.
pub fn result(message: &str, repository: &str) -> Result<BuildResult, BuildError> {
    let invalid = |why: String| BuildError { reason: Reason::ResultInvalid, message: why, is_permanent: false };
    let result: BuildResult = serde_json::from_str(message)
        .map_err(|error| invalid(format!("the builder's result cannot be read: {error}")))?;
    if !is_digest(&result.digest) || result.image != format!("{repository}@{}", result.digest) {
        let image = modelway_api::conditions::shortened(&result.image, 300);
        return Err(invalid(format!("the builder reported image {image}, expected {repository}@sha256:...")));
    }
    Ok(result)
}

/// Reads the error of a builder that failed; falls back to the Job's own words.
pub fn failure(message: Option<&str>, job: &Value) -> BuildError {
    let written = message.and_then(|message| serde_json::from_str::<Value>(message).ok());
    if let Some(error) = written.as_ref().filter(|written| written["error"].is_string()) {
        let reason = read::text(error, "/reason");
        return BuildError {
            reason: Reason::ImageBuildFailed,
            message: if reason.is_empty() {
                read::text(error, "/error").to_owned()
            } else {
                format!("{reason}: {}", read::text(error, "/error"))
            },
            is_permanent: PERMANENT.contains(&reason) || error["permanent"] == true,
        };
    }
    let condition = read::condition(job, "Failed").unwrap_or(&Value::Null);
    let is_late = condition["reason"] == "DeadlineExceeded";
    BuildError {
        reason: if is_late { Reason::DeadlineExceeded } else { Reason::ImageBuildFailed },
        message: message.unwrap_or_else(|| read::text(condition, "/message")).trim().to_owned(),
        is_permanent: is_late,
    }
}

/// Whether the text is a SHA-256 digest.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| hex.len() == 64 && hex.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_must_name_the_repository_and_a_digest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let text =
            json!({"image": format!("r:1/a/b@{digest}"), "digest": digest, "tag": "t", "sizeBytes": 3}).to_string();
        assert_eq!(result(&text, "r:1/a/b").unwrap().size_bytes, 3);
        assert_eq!(result(&text, "r:1/a/c").unwrap_err().reason, Reason::ResultInvalid);
        assert!(result("{}", "r").is_err() && result("nonsense", "r").is_err());
    }

    #[test]
    fn pods_that_admission_refuses_are_told() {
        let job = json!({"metadata": {"name": "b", "namespace": "n", "uid": "u"}});
        let mut world = crate::World::default();
        world.insert(json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
            "involvedObject": {"kind": "Job", "name": "b", "uid": "u"},
            "message": "Error creating: pods \"b-x\" is forbidden: exceeded quota: q"}));
        let settings = crate::Settings::default();
        let now = k8s_openapi::jiff::Timestamp::UNIX_EPOCH;
        let cx = Context { world: &world, settings: &settings, now, entropy: [0; 16] };
        let problem = obstacle(&cx, &job).unwrap();
        assert_eq!(problem.reason, Some(Reason::QuotaExceeded));
        assert!(problem.message.contains("no pod is made for Job b"), "{}", problem.message);
        assert_eq!(obstacle(&cx, &json!({"metadata": {"name": "c", "namespace": "n", "uid": "v"}})), None);
    }

    #[test]
    fn empty_output_is_permanent_and_a_lost_registry_is_not() {
        let empty = failure(Some(r#"{"error": "no files in /source", "reason": "SourceEmpty"}"#), &Value::Null);
        assert!(empty.is_permanent && empty.message.contains("no files"));
        assert!(!failure(Some(r#"{"error": "connection refused", "reason": "Registry"}"#), &Value::Null).is_permanent);
        assert_eq!(failure(Some("plain log line"), &Value::Null).message, "plain log line");
    }
}
