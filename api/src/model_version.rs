//! `ModelVersion`: one immutable image of a model, built from files that a job or a person left somewhere.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{conditions::Condition, schemas};

/// Where the files are and what the image is called.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "model.kubedl.io",
    version = "v1alpha1",
    kind = "ModelVersion",
    plural = "modelversions",
    shortname = "mv",
    category = "modelway",
    namespaced,
    status = "ModelVersionStatus",
    derive = "PartialEq",
    annotation("helm.sh/resource-policy", "keep"),
    doc = "One immutable version of a Model, published as an OCI image.",
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].reason"}"#,
    printcolumn = r#"{"name":"Model","type":"string","jsonPath":".spec.modelName"}"#,
    printcolumn = r#"{"name":"Tag","type":"string","jsonPath":".status.tag"}"#,
    printcolumn = r#"{"name":"Bytes","type":"integer","jsonPath":".status.sizeBytes"}"#,
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".status.image","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ModelVersionSpec {
    /// Name of the Model that this is a version of; the Model is created when it is absent.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub model_name: String,
    /// Who made the version: the name of the training job, or of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub created_by: Option<String>,
    /// Where the files are: exactly one kind of storage.
    #[x_kube(validation = Rule::new("[has(self.nfs), has(self.localStorage), has(self.AWSEfs), has(self.pvc)].filter(x, x).size() == 1").message("exactly one of pvc, localStorage, nfs and AWSEfs is needed"))]
    pub storage: Storage,
    /// Image repository; `<default registry>/<namespace>/<model>` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub image_repo: Option<String>,
    /// Image tag; the first characters of the version's UID when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"))]
    pub image_tag: Option<String>,
    /// Secret (`kubernetes.io/dockerconfigjson`) for the registry, `regcred` when absent; need not exist for an anonymous registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub registry_secret: Option<String>,
    /// How long and how often to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_policy: Option<BuildPolicy>,
    /// What the files were made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// A place with files. Exactly one field is set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// A persistent volume claim in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc: Option<ClaimStorage>,
    /// A folder of a node, under one of the prefixes that the controller allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_storage: Option<LocalStorage>,
    /// An NFS export. Accepted, not read by this release: the version fails with `StorageNotSupported`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfs: Option<NfsStorage>,
    /// An EFS volume. Accepted, not read by this release: the version fails with `StorageNotSupported`.
    #[serde(default, rename = "AWSEfs", skip_serializing_if = "Option::is_none")]
    pub aws_efs: Option<EfsStorage>,
}

/// A folder of a persistent volume claim.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimStorage {
    /// Name of the claim.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
    /// Folder within the volume; all of it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub sub_path: Option<String>,
}

/// A folder of a node.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalStorage {
    /// Absolute path of the folder.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/"))]
    pub path: String,
    /// Where `KubeDL` mounted it in the training pod; not needed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub mount_path: Option<String>,
    /// Node that has the folder; any node when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_name: Option<String>,
}

/// An NFS export.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NfsStorage {
    /// Host name or address of the server.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub server: String,
    /// Exported path.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Where it was mounted in the training pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub mount_path: Option<String>,
}

/// An Elastic File System volume.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EfsStorage {
    /// Handle of the volume.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub volume_handle: String,
    /// Attributes of the volume.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub attributes: BTreeMap<String, String>,
}

/// Bounds of a build.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildPolicy {
    /// Attempts after the first one, 3 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 20))]
    pub retries: Option<u32>,
    /// Longest time from the first attempt to the end, such as `10m` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub deadline: Option<String>,
}

/// What a version was made from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The training job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobReference>,
    /// Container images that the job ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 512)))]
    pub images: Vec<String>,
    /// Numbers that the job reported, such as `accuracy`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schemas::numbers")]
    pub metrics: BTreeMap<String, f64>,
}

/// A training job of any kind.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobReference {
    /// Group and version.
    #[schemars(length(max = 253))]
    pub api_version: String,
    /// Kind.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Name in the same namespace.
    #[schemars(length(max = 253))]
    pub name: String,
    /// UID, so that a job of the same name later is another one.
    #[schemars(length(max = 128))]
    pub uid: String,
}

/// How far the build is, and the image once it is there.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelVersionStatus {
    /// The image, always `repo@sha256:...`; empty until it is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// How far the build is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_build_phase: Option<ImageBuildPhase>,
    /// When the build ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub finish_time: Option<String>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
    /// When the first attempt for this spec began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::time")]
    pub start_time: Option<String>,
    /// Tag of the image in its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub tag: Option<String>,
    /// Digest of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub digest: Option<String>,
    /// Bytes of all files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// Number of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<i64>,
    /// Format of the weights, such as `onnx`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub format: Option<String>,
    /// Number of parameters, where the format says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter_count: Option<i64>,
    /// How the files got to the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
    /// Numbers that came with the files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schemas::numbers")]
    pub metrics: BTreeMap<String, f64>,
    /// Builds begun for this spec.
    #[serde(default)]
    pub attempts: u32,
    /// Last lines of a failed build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub log: Option<String>,
    /// Hash of the spec that was built or is being built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub spec_hash: Option<String>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, and `SpecChanged` once a published version's spec was edited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// How far a build is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ImageBuildPhase {
    /// A builder works, or will work.
    ImageBuilding,
    /// All attempts failed.
    ImageBuildFailed,
    /// The image is in the registry.
    ImageBuildSucceeded,
}

/// What an upload cost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    /// Bytes sent.
    #[serde(default)]
    pub sent_bytes: i64,
    /// Bytes that the registry had already.
    #[serde(default)]
    pub skipped_bytes: i64,
    /// Bytes taken from another repository of the registry.
    #[serde(default)]
    pub mounted_bytes: i64,
    /// Seconds that it took.
    #[serde(default)]
    pub seconds: f64,
}
