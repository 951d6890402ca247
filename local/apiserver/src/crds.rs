//! Custom kinds: `CustomResourceDefinition` objects become served kinds, at once and as a whole.

use std::sync::Arc;

use modelway_schema::Schema;
use serde_json::{Value, json};

use crate::Core;
use crate::kinds::{ColumnSource, KindSet, PrinterColumn, ResourceKind, ScalePaths};
use crate::meta;
use crate::status::{ApiError, Cause};
use crate::store::Key;

/// The resource that stores definitions.
pub const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Keeps a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The kinds of one definition, as of one state of it.
#[derive(Debug)]
pub struct Registered {
    fingerprint: Value,
    kinds: Vec<Arc<ResourceKind>>,
}

pub fn key(name: &str) -> Key {
    Key::new(RESOURCE, "", name)
}

fn is_definition(kind: &ResourceKind) -> bool {
    kind.kind == "CustomResourceDefinition" && kind.group == "apiextensions.k8s.io"
}

/// Fills names and, on a new definition, the cleanup finalizer.
pub fn prepare(value: &mut Value) {
    let kind = value["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = meta::map_at(value, &["spec", "names"]) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    if let Some(spec) = meta::map_at(value, &["spec"]) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    }
    let mut finalizers = meta::finalizers(value);
    if !meta::is_terminating(value) && !finalizers.iter().any(|one| one == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        meta::set_finalizers(value, &finalizers);
    }
}

/// What is wrong with a definition beyond its own schema.
pub fn validate(value: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &value["spec"];
    let expected = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    if meta::name(value) != expected {
        let why = format!("must be spec.names.plural+\".\"+spec.group ({expected})");
        causes.push(Cause::invalid("metadata.name", &meta::name(value).into(), &why));
    }
    if let Some(old) = old {
        for field in ["group", "scope"] {
            if old["spec"][field] != spec[field] {
                causes.push(Cause::invalid(&format!("spec.{field}"), &spec[field], "field is immutable"));
            }
        }
    }
    if !matches!(text(&spec["scope"]), "Namespaced" | "Cluster") {
        let message = format!("Unsupported value: {}: supported values: \"Cluster\", \"Namespaced\"", spec["scope"]);
        causes.push(Cause::new("FieldValueNotSupported", message, "spec.scope"));
    }
    causes.extend(validate_versions(spec));
    causes
}

fn validate_versions(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let versions = versions(spec);
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], why));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            causes.push(Cause::required(&path, "schemas are required"));
        } else if let Err(error) = Schema::parse(schema) {
            let field = if error.path.is_empty() { path } else { format!("{path}.{}", error.path) };
            causes.push(Cause::new("FieldValueInvalid", error.message, field));
        }
    }
    if text(&spec["conversion"]["strategy"]) == "Webhook" {
        let message = "Unsupported value: \"Webhook\": supported values: \"None\"";
        causes.push(Cause::new("FieldValueNotSupported", message, "spec.conversion.strategy"));
    }
    causes
}

fn versions(spec: &Value) -> &[Value] {
    spec["versions"].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Decides the status of a definition before it is stored: accepted names, stored versions, conditions.
pub fn settle(core: &Core, kind: &ResourceKind, value: &mut Value) {
    if !is_definition(kind) {
        return;
    }
    let conflict = conflict(&core.kinds(), value);
    let now = meta::now();
    let spec = value["spec"].clone();
    let status = &mut value["status"];
    if conflict.is_none() {
        status["acceptedNames"] = spec["names"].clone();
    } else if status["acceptedNames"].is_null() {
        status["acceptedNames"] = json!({"plural": "", "kind": ""});
    }
    keep_stored_versions(&mut status["storedVersions"], &spec);
    let accepted = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    set_condition(status, "NamesAccepted", accepted.0, accepted.1, &accepted.2, &now);
    let established = match &conflict {
        None => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        Some(_) => ("False", "NotAccepted", "not all names are accepted"),
    };
    set_condition(status, "Established", established.0, established.1, established.2, &now);
}

fn keep_stored_versions(stored: &mut Value, spec: &Value) {
    let mut names: Vec<Value> = stored.as_array().cloned().unwrap_or_default();
    let storage = versions(spec).iter().find(|version| version["storage"] == true);
    if let Some(name) = storage.map(|version| &version["name"])
        && !names.contains(name)
    {
        names.push(name.clone());
    }
    *stored = names.into();
}

/// A name that another resource of the same group has already.
fn conflict(kinds: &KindSet, value: &Value) -> Option<(&'static str, String)> {
    let spec = &value["spec"];
    let names = &spec["names"];
    let others =
        kinds.iter().filter(|kind| kind.group == text(&spec["group"]) && kind.plural != text(&names["plural"]));
    for other in others {
        if other.kind == text(&names["kind"]) {
            return Some(("KindConflict", format!("\"{}\" is already in use", other.kind)));
        }
        if other.singular == text(&names["singular"]) {
            return Some(("SingularConflict", format!("\"{}\" is already in use", other.singular)));
        }
        let short = names["shortNames"].as_array().into_iter().flatten().map(text);
        if let Some(taken) = short.into_iter().find(|name| other.short_names.iter().any(|known| known == name)) {
            return Some(("ShortNamesConflict", format!("\"{taken}\" is already in use")));
        }
    }
    None
}

/// Sets a condition; its time moves only with its status.
fn set_condition(object_status: &mut Value, name: &str, status: &str, reason: &str, message: &str, now: &str) {
    let mut conditions = object_status["conditions"].as_array().cloned().unwrap_or_default();
    let known = conditions.iter_mut().find(|one| one["type"] == name);
    let mut condition = json!({
        "type": name, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    match known {
        Some(known) => {
            if known["status"] == status {
                condition["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
    object_status["conditions"] = conditions.into();
}

pub fn mark_deleted(value: &mut Value) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut value["status"], "Terminating", "True", "InstanceDeletionPending", message, &meta::now());
}

/// No new objects of a kind that is being removed.
pub fn check_create(core: &Core, kind: &ResourceKind) -> Result<(), ApiError> {
    match core.store.get(&key(&kind.resource())) {
        Some(definition) if definition.terminating => Err(ApiError::terminating_definition()),
        Some(_) | None => Ok(()),
    }
}

/// Brings the served kinds in line with the stored definition, whichever write was last.
pub fn refresh(core: &Core, name: &str) {
    let mut custom = core.custom.lock();
    match core.store.get(&key(name)).map(|object| object.value()).filter(is_established) {
        None => {
            if custom.remove(name).is_none() {
                return;
            }
        }
        Some(value) => {
            let fingerprint = value["spec"].clone();
            if custom.get(name).is_some_and(|known| known.fingerprint == fingerprint) {
                return;
            }
            let kinds = kinds_of(&value).into_iter().map(Arc::new).collect();
            custom.insert(name.to_owned(), Registered { fingerprint, kinds });
        }
    }
    let all = core.builtin.iter().chain(custom.values().flat_map(|one| &one.kinds)).cloned();
    core.set_kinds(KindSet::new(all));
}

fn is_established(value: &Value) -> bool {
    let conditions = value["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// The served versions, the preferred one first.
fn kinds_of(value: &Value) -> Vec<ResourceKind> {
    let spec = &value["spec"];
    let mut served: Vec<&Value> = versions(spec).iter().filter(|version| version["served"] == true).collect();
    served.sort_by_key(|version| version_priority(text(&version["name"])));
    served.into_iter().filter_map(|version| kind_of(spec, version)).collect()
}

/// Sorts `v2` before `v1` before `v1beta2` before `v1alpha1` before all else.
fn version_priority(name: &str) -> (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>, String) {
    let parsed = name.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let (rank, minor) = match &rest[digits..] {
            "" => (0, 0),
            tail => match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                (Some(minor), _) => (1, minor.parse().ok()?),
                (_, Some(minor)) => (2, minor.parse().ok()?),
                (None, None) => return None,
            },
        };
        Some((rank, std::cmp::Reverse(major), std::cmp::Reverse(minor), String::new()))
    });
    parsed.unwrap_or((3, std::cmp::Reverse(0), std::cmp::Reverse(0), name.to_owned()))
}

fn kind_of(spec: &Value, version: &Value) -> Option<ResourceKind> {
    let names = &spec["names"];
    let open_api = &version["schema"]["openAPIV3Schema"];
    let schema = Schema::parse(open_api)
        .inspect_err(|error| tracing::error!(%error, "a stored schema cannot be read; the kind is not served"))
        .ok()?;
    let list = |value: &Value| value.as_array().into_iter().flatten().map(|one| text(one).to_owned()).collect();
    Some(ResourceKind {
        group: text(&spec["group"]).to_owned(),
        version: text(&version["name"]).to_owned(),
        kind: text(&names["kind"]).to_owned(),
        list_kind: text(&names["listKind"]).to_owned(),
        plural: text(&names["plural"]).to_owned(),
        singular: text(&names["singular"]).to_owned(),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: text(&spec["scope"]) == "Namespaced",
        status_subresource: version["subresources"]["status"].is_object(),
        scale: scale_of(&version["subresources"]["scale"]),
        columns: version["additionalPrinterColumns"].as_array().into_iter().flatten().map(column_of).collect(),
        schema: Arc::new(schema),
        open_api: Arc::new(open_api.clone()),
    })
}

fn scale_of(scale: &Value) -> Option<ScalePaths> {
    Some(ScalePaths {
        spec_replicas: scale["specReplicasPath"].as_str()?.to_owned(),
        status_replicas: text(&scale["statusReplicasPath"]).to_owned(),
        label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    })
}

fn column_of(column: &Value) -> PrinterColumn {
    PrinterColumn {
        name: text(&column["name"]).to_owned(),
        type_: text(&column["type"]).to_owned(),
        format: text(&column["format"]).to_owned(),
        description: text(&column["description"]).to_owned(),
        priority: column["priority"].as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or_default(),
        source: ColumnSource::JsonPath(text(&column["jsonPath"]).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_in_kubernetes() {
        let mut names = ["v1alpha1", "v1", "foo", "v2", "v1beta2", "v1beta10"];
        names.sort_by_key(|name| version_priority(name));
        assert_eq!(names, ["v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]);
    }

    #[test]
    fn bad_definitions_are_told_field_by_field() {
        let value = json!({
            "metadata": {"name": "x"},
            "spec": {"group": "g.io", "names": {"plural": "as", "kind": "A"}, "scope": "Namespaced",
                     "versions": [{"name": "v1", "served": true, "storage": false}]},
        });
        let fields: Vec<String> = validate(&value, None).into_iter().map(|cause| cause.field).collect();
        assert_eq!(fields, ["metadata.name", "spec.versions", "spec.versions[0].schema.openAPIV3Schema"]);
    }

    #[test]
    fn condition_times_move_only_with_the_status() {
        let mut status = json!({});
        set_condition(&mut status, "Established", "True", "A", "", "t1");
        set_condition(&mut status, "Established", "True", "B", "", "t2");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "t1");
        set_condition(&mut status, "Established", "False", "B", "", "t3");
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "t3");
    }
}
