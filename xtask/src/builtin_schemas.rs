//! Prunes the official `OpenAPI` v3 documents of Kubernetes to the built-in kinds of the embedded API.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Context;
use serde_json::{Map, Value};

/// Document of the module and the kinds taken from it.
const KINDS: &[(&str, &[&str])] = &[
    (
        "api__v1",
        &[
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    ("apis__apps__v1", &["Deployment", "ReplicaSet"]),
    ("apis__batch__v1", &["Job"]),
    ("apis__discovery.k8s.io__v1", &["EndpointSlice"]),
    ("apis__coordination.k8s.io__v1", &["Lease"]),
    ("apis__events.k8s.io__v1", &["Event"]),
    ("apis__apiextensions.k8s.io__v1", &["CustomResourceDefinition"]),
    ("apis__policy__v1", &["PodDisruptionBudget"]),
    ("apis__networking.k8s.io__v1", &["NetworkPolicy"]),
    ("apis__rbac.authorization.k8s.io__v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
];

const REF_PREFIX: &str = "#/components/schemas/";

/// Writes `definitions.json` into `out`: every schema that a built-in kind needs, by its name in `components`, one a
/// line, without descriptions. These go into `descriptions.json`: by schema and field, that of the schema under "". `kubernetes_module_dir` is an unpacked Go module `k8s.io/kubernetes`.
pub fn generate(kubernetes_module_dir: &Path, out: &Path) -> anyhow::Result<()> {
    let mut kept = BTreeMap::new();
    let mut described = BTreeMap::new();
    for (document, kinds) in KINDS {
        let path = kubernetes_module_dir.join("api/openapi-spec/v3").join(format!("{document}_openapi.json"));
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let parsed: Value = serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        let schemas = parsed["components"]["schemas"].as_object().context("document has no components.schemas")?;
        for kind in *kinds {
            let root = root_of(schemas, kind).with_context(|| format!("{} has no kind {kind}", path.display()))?;
            keep(schemas, root, &mut kept)?;
        }
        for name in kept.keys() {
            if let Some(schema) = schemas.get(name) {
                described.entry(name.clone()).or_insert_with(|| descriptions(schema));
            }
        }
    }
    fs::create_dir_all(out)?;
    let target = out.join("definitions.json");
    fs::write(&target, lines(&kept)?).with_context(|| format!("writing {}", target.display()))?;
    let target = out.join("descriptions.json");
    fs::write(&target, lines(&described)?).with_context(|| format!("writing {}", target.display()))
}

/// What the schema and its fields are, in words.
fn descriptions(schema: &Value) -> Value {
    let own = schema.get("description").map(|text| (String::new(), text.clone()));
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields = fields.filter_map(|(name, field)| Some((name.clone(), field.get("description")?.clone())));
    own.into_iter().chain(fields).collect::<Map<String, Value>>().into()
}

/// The schema whose own group, version and kind say that it is `kind` (a name also ends so for `...List` parents).
fn root_of(schemas: &Map<String, Value>, kind: &str) -> Option<String> {
    let is_kind = |schema: &Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.len() == 1 && kinds[0]["kind"] == kind)
    };
    schemas.iter().find(|(_, schema)| is_kind(schema)).map(|(name, _)| name.clone())
}

fn keep(schemas: &Map<String, Value>, root: String, kept: &mut BTreeMap<String, Value>) -> anyhow::Result<()> {
    let mut wanted = BTreeSet::from([root]);
    while let Some(name) = wanted.pop_first() {
        if kept.contains_key(&name) {
            continue;
        }
        let mut schema = schemas.get(&name).with_context(|| format!("no schema {name}"))?.clone();
        strip(&mut schema, false);
        references(&schema, &mut wanted);
        kept.insert(name, schema);
    }
    Ok(())
}

/// Removes descriptions; a *property* may be called `description`, so maps of properties keep their keys.
fn strip(schema: &mut Value, is_property_map: bool) {
    match schema {
        Value::Object(object) => {
            if !is_property_map {
                object.remove("description");
            }
            for (key, value) in object.iter_mut() {
                strip(value, !is_property_map && key == "properties");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| strip(item, false)),
        _ => {}
    }
}

fn references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            if let Some(name) =
                object.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix(REF_PREFIX))
            {
                found.insert(name.to_owned());
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn lines(kept: &BTreeMap<String, Value>) -> anyhow::Result<String> {
    let rows: Vec<String> = kept
        .iter()
        .map(|(name, schema)| Ok(format!("{}:{}", serde_json::to_string(name)?, serde_json::to_string(schema)?)))
        .collect::<anyhow::Result<_>>()?;
    Ok(format!("{{\n{}\n}}\n", rows.join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_property_called_description() {
        let mut schema = serde_json::json!({
            "description": "text", "properties": {"description": {"description": "text", "type": "string"}}});
        strip(&mut schema, false);
        assert_eq!(schema, serde_json::json!({"properties": {"description": {"type": "string"}}}));
    }

    #[test]
    fn takes_what_a_kind_refers_to_and_nothing_else() {
        let schemas = serde_json::json!({
            "a.Thing": {"properties": {"b": {"allOf": [{"$ref": "#/components/schemas/a.Part"}]}},
                        "x-kubernetes-group-version-kind": [{"group": "a", "version": "v1", "kind": "Thing"}]},
            "a.Part": {"type": "string"}, "a.Other": {"type": "string"}});
        let schemas = schemas.as_object().expect("an object literal");
        let mut kept = BTreeMap::new();
        keep(schemas, root_of(schemas, "Thing").unwrap(), &mut kept).unwrap();
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["a.Part", "a.Thing"]);
    }
}
