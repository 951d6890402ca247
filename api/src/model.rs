//! `Model`: the name under which the versions of one model are found.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{conditions::Condition, schemas};

/// What a Model is, and which of its versions have names of their own.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "model.kubedl.io",
    version = "v1alpha1",
    kind = "Model",
    plural = "models",
    shortname = "mo",
    category = "modelway",
    namespaced,
    status = "ModelStatus",
    derive = "PartialEq",
    annotation("helm.sh/resource-policy", "keep"),
    doc = "A model: the name under which its versions are found.",
    validation = Rule::new("self.metadata.name.size() <= 40").message("metadata.name has at most 40 characters"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Latest", type_ = "string", json_path = ".status.latestVersion.modelVersion"),
    printcolumn(name = "Versions", type_ = "integer", json_path = ".status.versionCount"),
    printcolumn(name = "Image", type_ = "string", json_path = ".status.latestVersion.imageName", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// What the model is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Names for single versions, such as `champion`: alias to the name of a `ModelVersion` of this Model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub aliases: BTreeMap<String, String>,
}

/// What is known of a Model's versions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    /// The newest version whose build has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_version: Option<LatestVersion>,
    /// Aliases that name an existing version, with its image.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub aliases: BTreeMap<String, LatestVersion>,
    /// Versions whose build has succeeded, newest first, at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub versions: Vec<String>,
    /// How many versions whose build has succeeded there are.
    #[serde(default)]
    pub version_count: u32,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: there is a version to serve.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// A finished version and its image.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LatestVersion {
    /// Name of the `ModelVersion`.
    #[schemars(length(max = 253))]
    pub model_version: String,
    /// Its image, `repo@sha256:...`.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub image_name: String,
}
