//! A kind with one field for each thing that a schema can ask, and objects that break it.

use serde_json::{Value, json};

/// The definition, in a group of its own.
pub fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("probes.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "probes", "kind": "Probe"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec(), "status": {"type": "object", "properties": {"count": {"type": "integer"}}}}}}}],
        },
    })
}

fn spec() -> Value {
    let pair = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string"}, "b": {"type": "string", "default": "x"}, "c": {"type": "integer"}}});
    json!({"type": "object", "properties": {
        "integer": {"type": "integer", "minimum": 1, "exclusiveMinimum": true, "multipleOf": 2},
        "long": {"type": "integer", "format": "int64"},
        "number": {"type": "number", "maximum": 2.5},
        "double": {"type": "number", "format": "double"},
        "flag": {"type": "boolean"},
        "choice": {"type": "integer", "enum": [1, 2]},
        "word": {"type": "string", "maxLength": 1},
        "when": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "address": {"type": "string", "format": "ipv4"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "pairs": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"], "items": pair},
        "few": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "integer"}},
        "labels": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string", "minLength": 2}},
        "port": {"x-kubernetes-int-or-string": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "nothing": {"type": "string", "nullable": true},
        "short": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [
            {"rule": "self.size() < 3", "message": "too much"}]},
        "even": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "self % 2 == 0", "messageExpression": "self > 4 ? 'big and odd' : 'odd'"},
            {"rule": "self != 7", "reason": "FieldValueDuplicate"}]},
        "third": {"type": "array", "maxItems": 9, "items": {"type": "integer"}, "x-kubernetes-validations": [
            {"rule": "self[2] == 3", "message": "the third is three"}]},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        "below": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "!has(self.x) || self.x > 0", "fieldPath": ".x", "reason": "FieldValueForbidden"}]},
    }})
}

/// Specs of new objects.
pub fn specs() -> Vec<Value> {
    vec![
        json!({}),
        json!({"integer": 4, "long": 5, "number": 2, "double": 1.5, "flag": true, "choice": 2, "word": "x"}),
        json!({"integer": 1}),
        json!({"integer": 3}),
        json!({"integer": 4.0}),
        json!({"integer": "4"}),
        json!({"integer": -0.5}),
        json!({"long": 1e20}),
        json!({"long": 12_345_678_901_234_567_890_u64}),
        json!({"long": true}),
        json!({"number": 2.6}),
        json!({"number": "2"}),
        json!({"number": []}),
        json!({"double": false}),
        json!({"double": 3}),
        json!({"flag": "true"}),
        json!({"flag": 1}),
        json!({"choice": 3}),
        json!({"choice": "1"}),
        json!({"choice": 1.0}),
        json!({"word": "xy"}),
        json!({"word": "é"}),
        json!({"word": ["x"]}),
        json!({"when": "2024-01-02T03:04:05Z", "wait": "1h30m", "address": "10.0.0.1"}),
        json!({"when": "yesterday"}),
        json!({"when": 5}),
        json!({"when": {}}),
        json!({"wait": "1 fortnight"}),
        json!({"address": "10.0.0.256"}),
        json!({"set": ["a", "a", "a", "b", "b"]}),
        json!({"set": "a"}),
        json!({"set": [1, null]}),
        json!({"pairs": [{"a": "1"}, {"a": "1", "b": "x", "c": 1}, {"a": "1", "b": "y"}]}),
        json!({"pairs": [{"b": "1"}, {"b": "1"}]}),
        json!({"pairs": [{"a": "1"}, 7, 8]}),
        json!({"few": []}),
        json!({"few": [1, 2]}),
        json!({"few": ["1"]}),
        json!({"labels": {"a": "b"}}),
        json!({"labels": {"a": "bc", "d": "ef"}}),
        json!({"labels": {"a": 5}}),
        json!({"labels": ["a"]}),
        json!({"port": 80}),
        json!({"port": "http"}),
        json!({"port": 1.5}),
        json!({"port": {}}),
        json!({"port": null}),
        json!({"open": {"any": ["thing", null]}}),
        json!({"open": 5}),
        json!({"nothing": null, "word": null}),
        json!({"short": "abc"}),
        json!({"even": 5}),
        json!({"even": 7}),
        json!({"third": [1, 2]}),
        json!({"third": [1, 2, 4]}),
        json!({"below": {"x": 0, "y": 1}}),
        json!({"below": {"x": "0"}}),
        json!({"short": "abc", "even": 5, "word": "xy"}),
        json!({"short": "abc", "integer": 1}),
        json!({"set": ["a", "a"], "short": "abc"}),
        json!("text"),
        json!([]),
    ]
}

/// Merge patches to the specs of objects, with the spec from before.
pub fn changes() -> Vec<(Value, Value)> {
    vec![
        (json!({"fixed": "a"}), json!({"fixed": "b"})),
        (json!({"fixed": "a"}), json!({"fixed": null})),
        (json!({"fixed": "a"}), json!({"fixed": "a", "word": "xy"})),
        (json!({"even": 2}), json!({"even": 3})),
        (json!({"pairs": [{"a": "1"}]}), json!({"pairs": [{"a": "1"}, {"a": "1"}]})),
        (json!({"labels": {"a": "bc"}}), json!({"labels": {"d": "ef"}})),
        (json!({"open": {"a": {"b": 1}}}), json!({"open": {"a": {"c": 2}}})),
    ]
}

fn pod(spec: &Value) -> (&'static str, Value) {
    ("pods", json!({"metadata": {"name": "a"}, "spec": spec}))
}

/// A pod whose one container has these fields besides a name and an image.
fn container(more: &Value) -> (&'static str, Value) {
    let mut container = json!({"name": "c", "image": "i"});
    for (field, value) in more.as_object().into_iter().flatten() {
        container[field] = value.clone();
    }
    pod(&json!({"containers": [container]}))
}

/// Objects of built-in kinds that something is wrong with, by plural.
pub fn builtins() -> Vec<(&'static str, Value)> {
    let service = |spec: Value| ("services", json!({"metadata": {"name": "a"}, "spec": spec}));
    let one = json!({"name": "c", "image": "i"});
    vec![
        pod(&json!({})),
        pod(&json!({"containers": []})),
        pod(&json!({"containers": "c"})),
        pod(&json!({"containers": [one, one]})),
        pod(&json!({"containers": [{"name": "c"}]})),
        pod(&json!({"containers": [one], "restartPolicy": "Sometimes"})),
        pod(&json!({"containers": [one], "terminationGracePeriodSeconds": "x"})),
        pod(&json!({"containers": [one], "volumes": [{"name": "x"}, {"name": "x"}]})),
        container(&json!({"name": "C!"})),
        container(&json!({"ports": [{"containerPort": 0}]})),
        container(&json!({"ports": [{"containerPort": 70_000}]})),
        container(&json!({"volumeMounts": [{"name": "x", "mountPath": "/x"}]})),
        container(&json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
        container(&json!({"env": [{"name": ""}]})),
        service(json!({})),
        service(json!({"ports": [{"port": 0}]})),
        service(json!({"ports": [{"port": 80}, {"port": 81}]})),
        ("services", json!({"metadata": {"name": "A"}, "spec": {"ports": [{"port": 80}]}})),
        ("configmaps", json!({"metadata": {"name": "a"}, "data": {"a/b": "c"}})),
        ("configmaps", json!({"metadata": {"name": "a"}, "data": {"a": 5}})),
        ("secrets", json!({"metadata": {"name": "a"}, "data": {"a": "not base64!"}})),
    ]
}
