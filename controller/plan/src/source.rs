//! Where a finished job left its output. Either known or refused, never a guess.

use std::collections::BTreeMap;

use modelway_api::{
    Reason, labels,
    model_version::{ClaimStorage, LocalStorage, NfsStorage, Storage},
};
use serde_json::Value;

use crate::json as read;

/// Environment variables that name the output folder, in order.
const OUTPUT_VARIABLES: [&str; 3] = ["KUBEDL_MODEL_PATH", "MODEL_DIR", "OUTPUT_DIR"];

/// Most metrics taken from a job's report.
const MAX_METRICS: usize = 64;

/// Why there is no source.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    pub reason: Reason,
    pub message: String,
}

/// What a job said in its chief's termination message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub model_path: Option<String>,
    pub metrics: BTreeMap<String, f64>,
}

/// Reads the chief's termination message; anything but the expected JSON is no report.
pub fn report(pod: Option<&Value>) -> Report {
    let messages = pod.into_iter().flat_map(|pod| read::items(pod, "/status/containerStatuses"));
    messages
        .filter_map(|status| serde_json::from_str::<Value>(read::text(status, "/state/terminated/message")).ok())
        .find(|message| message.get("modelPath").is_some() || message.get("metrics").is_some())
        .map(|message| Report {
            model_path: message["modelPath"].as_str().map(str::to_owned),
            metrics: numbers(&message["metrics"]),
        })
        .unwrap_or_default()
}

/// Finite numbers by name.
pub fn numbers(value: &Value) -> BTreeMap<String, f64> {
    let entries = value.as_object().into_iter().flatten().take(MAX_METRICS);
    entries.filter_map(|(key, number)| Some((key.clone(), number.as_f64()?))).collect()
}

/// Finds the output of a job: what the annotation says, what the job reported, what its environment says.
pub fn find(job: &Value, template: &Value, chief: Option<&Value>, report: &Report) -> Result<Storage, SourceError> {
    if let Some(text) = read::annotation(job, labels::job::SOURCE) {
        return from_annotation(text);
    }
    let spec = chief.map_or(&template["spec"], |pod| &pod["spec"]);
    let container = &spec["containers"][0];
    let pod_name = chief.map(read::name);
    if let Some(path) = &report.model_path {
        return from_path(spec, container, pod_name, path, "the termination message");
    }
    for variable in OUTPUT_VARIABLES {
        let set = read::items(container, "/env").find(|entry| entry["name"] == variable);
        if let Some(path) = set.map(|entry| read::text(entry, "/value")).filter(|path| path.starts_with('/')) {
            return from_path(spec, container, pod_name, path, variable);
        }
    }
    Err(SourceError {
        reason: Reason::SourceUnknown,
        message: format!(
            "nothing says where the job left its output: set the annotation {} to pvc://CLAIM/FOLDER, or {} in the \
             first container to a folder of a mounted volume",
            labels::job::SOURCE,
            OUTPUT_VARIABLES.join(", ")
        ),
    })
}

/// Names of claims that the job's pods may have written to, with whether the claim lives only as long as the pod.
pub fn candidate_claims(job: &Value, template: &Value) -> Vec<ClaimUse> {
    if let Some(text) = read::annotation(job, labels::job::SOURCE) {
        let claim = from_annotation(text).ok().and_then(|storage| storage.pvc);
        return claim.into_iter().map(|claim| ClaimUse::Named(claim.claim_name)).collect();
    }
    read::items(template, "/spec/volumes")
        .filter_map(|volume| {
            let claim = read::text(volume, "/persistentVolumeClaim/claimName");
            if volume.get("ephemeral").is_some() {
                return Some(ClaimUse::Ephemeral);
            }
            (!claim.is_empty()).then(|| ClaimUse::Named(claim.to_owned()))
        })
        .collect()
}

/// How a job's pods use a claim.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClaimUse {
    /// By name.
    Named(String),
    /// Made for the pod, gone with it.
    Ephemeral,
}

fn from_annotation(text: &str) -> Result<Storage, SourceError> {
    let invalid = |hint: &str| SourceError {
        reason: Reason::SourceInvalid,
        message: format!(
            "annotation {} is \"{}\": {hint}",
            labels::job::SOURCE,
            modelway_api::conditions::shortened(text, 200)
        ),
    };
    let (scheme, rest) =
        text.split_once("://").ok_or_else(|| invalid("write pvc://CLAIM/FOLDER or hostpath:///FOLDER"))?;
    match scheme {
        "pvc" => {
            let (claim, folder) = rest.split_once('/').unwrap_or((rest, ""));
            let folder = clean(folder).ok_or_else(|| invalid("the folder may not contain .."))?;
            if claim.is_empty() {
                return Err(invalid("the claim's name is missing"));
            }
            Ok(claim_storage(claim, &folder))
        }
        "hostpath" | "file" if rest.starts_with('/') => {
            let path = clean(rest).ok_or_else(|| invalid("the folder may not contain .."))?;
            Ok(host_storage(&format!("/{path}")))
        }
        "nfs" => {
            let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
            let nfs = NfsStorage { server: server.to_owned(), path: format!("/{path}"), mount_path: None };
            Ok(Storage { nfs: Some(nfs), ..Storage::default() })
        }
        "s3" | "http" | "https" | "oci" => Err(SourceError {
            reason: Reason::StorageNotSupported,
            message: format!("{scheme}:// sources are not read by this release; use pvc:// or hostpath://"),
        }),
        _ => Err(invalid("write pvc://CLAIM/FOLDER or hostpath:///FOLDER")),
    }
}

/// Resolves a path in the chief's container against its volume mounts; the longest mount path wins.
fn from_path(
    spec: &Value,
    container: &Value,
    pod: Option<&str>,
    path: &str,
    said_by: &str,
) -> Result<Storage, SourceError> {
    let unknown = |why: String| SourceError { reason: Reason::SourceUnknown, message: why };
    let wanted = clean(path).ok_or_else(|| unknown(format!("{said_by} names {path}: a path may not contain ..")))?;
    let mounts = read::items(container, "/volumeMounts").filter_map(|mount| {
        let at = clean(read::text(mount, "/mountPath"))?;
        let rest = below(&wanted, &at)?.to_owned();
        Some((at.len(), rest, mount))
    });
    let Some((_, rest, mount)) = mounts.max_by_key(|(length, ..)| *length) else {
        return Err(SourceError {
            reason: Reason::SourceUnreachable,
            message: format!(
                "{said_by} names {path}, which is on no mounted volume and gone with the container: write the output \
                 to a persistent volume claim"
            ),
        });
    };
    if mount.get("subPathExpr").is_some() {
        return Err(unknown(format!(
            "{said_by} names {path}, on a mount with subPathExpr: set {}",
            labels::job::SOURCE
        )));
    }
    let folder = clean(&format!("{}/{rest}", read::text(mount, "/subPath")))
        .ok_or_else(|| unknown(format!("the mount of {path} has a subPath with ..")))?;
    let volume = read::items(spec, "/volumes").find(|volume| volume["name"] == mount["name"]);
    let volume = volume.ok_or_else(|| unknown(format!("the volume of {path} is not declared")))?;
    from_volume(volume, pod, &folder, path, said_by)
}

fn from_volume(
    volume: &Value,
    pod: Option<&str>,
    folder: &str,
    path: &str,
    said_by: &str,
) -> Result<Storage, SourceError> {
    let claim = read::text(volume, "/persistentVolumeClaim/claimName");
    if !claim.is_empty() {
        return Ok(claim_storage(claim, folder));
    }
    let host = read::text(volume, "/hostPath/path");
    if !host.is_empty() {
        let host = clean(host).unwrap_or_default();
        return Ok(host_storage(format!("/{host}/{folder}").trim_end_matches('/')));
    }
    if let (Some(_), Some(pod)) = (volume.get("ephemeral"), pod) {
        return Ok(claim_storage(&format!("{pod}-{}", read::name_of(volume)), folder));
    }
    Err(SourceError {
        reason: Reason::SourceUnreachable,
        message: format!(
            "{said_by} names {path}, on volume {} that no other pod can read: write the output to a persistent volume \
             claim",
            read::name_of(volume)
        ),
    })
}

fn claim_storage(claim: &str, folder: &str) -> Storage {
    let sub_path = (!folder.is_empty()).then(|| folder.to_owned());
    Storage { pvc: Some(ClaimStorage { claim_name: claim.to_owned(), sub_path }), ..Storage::default() }
}

fn host_storage(path: &str) -> Storage {
    let local = LocalStorage { path: path.to_owned(), ..LocalStorage::default() };
    Storage { local_storage: Some(local), ..Storage::default() }
}

/// Path without empty parts, `.` and outer slashes; `None` when it climbs.
pub fn clean(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") || path.contains('\0') {
        return None;
    }
    Some(parts.join("/"))
}

/// The part of `path` below `base`, both cleaned; `None` when it is elsewhere.
fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    if base.is_empty() || path == base {
        return Some(if base.is_empty() { path } else { "" });
    }
    path.strip_prefix(base)?.strip_prefix('/')
}

/// Whether a host folder lies under one of the allowed prefixes, at component boundaries.
pub fn is_allowed(path: &str, prefixes: &[String]) -> bool {
    let Some(path) = clean(path) else { return false };
    prefixes.iter().filter_map(|prefix| clean(prefix)).any(|prefix| below(&path, &prefix).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(volume: &Value, path: &str) -> Value {
        json!({"spec": {
            "containers": [{"name": "train", "env": [{"name": "OUTPUT_DIR", "value": path}],
                "volumeMounts": [{"name": "out", "mountPath": "/output", "subPath": "runs"}, {"name": "root", "mountPath": "/"}]}],
            "volumes": [volume, {"name": "root", "emptyDir": {}}],
        }})
    }

    fn found(job: &Value, template: &Value) -> Result<Storage, Reason> {
        find(job, template, None, &Report::default()).map_err(|error| error.reason)
    }

    #[test]
    fn environment_is_resolved_against_the_longest_mount() {
        let template = template(&json!({"name": "out", "persistentVolumeClaim": {"claimName": "data"}}), "/output/v1/");
        assert_eq!(found(&json!({}), &template), Ok(claim_storage("data", "runs/v1")));
    }

    #[test]
    fn annotation_wins_over_the_environment() {
        let job = json!({"metadata": {"annotations": {"modelway.io/source": "pvc://other/a/./b"}}});
        assert_eq!(found(&job, &template(&json!({}), "/output")), Ok(claim_storage("other", "a/b")));
    }

    #[test]
    fn report_wins_over_the_environment() {
        let pod = json!({"metadata": {"name": "p"}, "spec": template(
            &json!({"name": "out", "persistentVolumeClaim": {"claimName": "data"}}), "/output/x")["spec"],
            "status": {"containerStatuses": [{"state": {"terminated":
                {"message": "{\"modelPath\": \"/output/best\", \"metrics\": {\"accuracy\": 0.9, \"note\": \"x\"}}"}}}]}});
        let report = report(Some(&pod));
        assert_eq!(report.metrics.len(), 1);
        assert_eq!(find(&json!({}), &Value::Null, Some(&pod), &report), Ok(claim_storage("data", "runs/best")));
    }

    #[test]
    fn empty_dir_and_container_files_are_unreachable() {
        let empty = template(&json!({"name": "out", "emptyDir": {}}), "/output");
        assert_eq!(found(&json!({}), &empty), Err(Reason::SourceUnreachable));
        assert_eq!(found(&json!({}), &template(&json!({}), "/elsewhere")), Err(Reason::SourceUnreachable));
    }

    #[test]
    fn ephemeral_volume_is_the_pods_claim() {
        let spec = template(&json!({"name": "out", "ephemeral": {}}), "/output")["spec"].clone();
        let pod = json!({"metadata": {"name": "train-abc"}, "spec": spec});
        let storage = find(&json!({}), &Value::Null, Some(&pod), &Report::default());
        assert_eq!(storage, Ok(claim_storage("train-abc-out", "runs")));
    }

    #[test]
    fn hostile_annotations_are_refused_with_a_reason() {
        for (text, reason) in [
            ("pvc://claim/../../etc", Reason::SourceInvalid),
            ("pvc://", Reason::SourceInvalid),
            ("nonsense", Reason::SourceInvalid),
            ("hostpath://relative", Reason::SourceInvalid),
            ("s3://bucket/x", Reason::StorageNotSupported),
        ] {
            let job = json!({"metadata": {"annotations": {"modelway.io/source": text}}});
            assert_eq!(found(&job, &Value::Null), Err(reason), "{text}");
        }
        assert_eq!(found(&json!({}), &Value::Null), Err(Reason::SourceUnknown));
    }

    #[test]
    fn host_paths_are_allowed_at_component_boundaries() {
        let prefixes = ["/data/models".to_owned()];
        assert!(is_allowed("/data/models/a", &prefixes) && is_allowed("/data//models/", &prefixes));
        assert!(!is_allowed("/data/models-of-others", &prefixes) && !is_allowed("/data/models/../x", &prefixes));
        assert!(!is_allowed("/data/models", &[]));
    }
}
