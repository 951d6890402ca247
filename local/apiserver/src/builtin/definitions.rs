//! The embedded `OpenAPI` v3 definitions, as served and in the structural form that the schema engine takes.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

const REF_PREFIX: &str = "#/components/schemas/";

static DEFINITIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("schemas/definitions.json")).expect("the embedded definitions are JSON")
});

/// Descriptions by component and field; that of the component under the empty name.
static DESCRIPTIONS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("schemas/descriptions.json")).expect("the embedded descriptions are JSON")
});

/// The definition of that component name as served, with `$ref`s to other components.
pub fn definition(name: &str) -> Option<&'static Value> {
    DEFINITIONS.get(name)
}

/// Puts the words of Kubernetes' own documentation into the served form of a definition.
pub fn describe(name: &str, definition: &mut Value) {
    let Some(words) = DESCRIPTIONS.get(name).and_then(Value::as_object) else { return };
    for (field, text) in words {
        let place = if field.is_empty() { Some(&mut *definition) } else { definition["properties"].get_mut(field) };
        if let Some(place) = place.and_then(Value::as_object_mut) {
            place.insert("description".to_owned(), text.clone());
        }
    }
}

/// Component name of a built-in kind, `io.k8s.api.apps.v1.Deployment`.
pub fn component_name(group: &str, version: &str, kind: &str) -> Option<String> {
    let is_it = |definition: &Value| {
        let found = &definition["x-kubernetes-group-version-kind"][0];
        found["kind"] == kind && found["group"] == group && found["version"] == version
    };
    DEFINITIONS.iter().find(|(_, definition)| is_it(definition)).map(|(name, _)| name.clone())
}

/// The definition with every reference replaced by what it names.
pub(super) fn structural(name: &str) -> Value {
    resolve_name(name, &mut Vec::new())
}

fn resolve_name(name: &str, inside: &mut Vec<String>) -> Value {
    // Only JSON schemas contain themselves. Types without structure of their own take any value.
    if inside.iter().any(|outer| outer == name) || is_free_form(name) {
        return json!({"x-kubernetes-preserve-unknown-fields": true});
    }
    if name.ends_with(".IntOrString") {
        return json!({"x-kubernetes-int-or-string": true});
    }
    inside.push(name.to_owned());
    let resolved = resolve(DEFINITIONS.get(name).unwrap_or(&Value::Null), inside);
    inside.pop();
    resolved
}

/// `Quantity` is here because a plain number is a quantity too.
fn is_free_form(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    matches!(last, "Quantity" | "RawExtension" | "FieldsV1" | "JSON" | "JSONSchemaProps")
}

fn resolve(schema: &Value, inside: &mut Vec<String>) -> Value {
    let Some(object) = schema.as_object() else { return schema.clone() };
    if let Some(name) = reference(object) {
        let mut resolved = resolve_name(name, inside);
        // The neighbours of a reference (its default, list and patch markers) belong to the place, not to the type.
        for (key, value) in object.iter().filter(|(key, _)| !matches!(key.as_str(), "$ref" | "allOf")) {
            resolved[key] = value.clone();
        }
        return resolved;
    }
    let mut resolved = Map::new();
    for (key, value) in object {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, property)| (name.clone(), resolve(property, inside))).collect()
            }
            ("items" | "additionalProperties", value) => resolve(value, inside),
            ("x-kubernetes-group-version-kind" | "x-kubernetes-unions", _) => continue,
            (_, value) => value.clone(),
        };
        resolved.insert(key.clone(), value);
    }
    Value::Object(resolved)
}

fn reference(object: &Map<String, Value>) -> Option<&str> {
    let target = object.get("$ref").or_else(|| object.get("allOf")?.get(0)?.get("$ref"))?;
    target.as_str()?.strip_prefix(REF_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_disappear_and_their_markers_stay() {
        let pod = structural("io.k8s.api.core.v1.Pod");
        assert!(!pod.to_string().contains("$ref"));
        let env = &pod["properties"]["spec"]["properties"]["containers"]["items"]["properties"]["env"];
        assert_eq!(env["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(env["items"]["properties"]["name"]["type"], "string");
        assert_eq!(pod["properties"]["spec"]["default"], json!({}));
    }

    #[test]
    fn json_schemas_inside_a_definition_are_free_form() {
        let name = component_name("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        let crd = structural(&name);
        let version = &crd["properties"]["spec"]["properties"]["versions"]["items"];
        let schema = &version["properties"]["schema"]["properties"]["openAPIV3Schema"];
        assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
    }
}
