//! Rules in CEL.

use modelway_schema::Schema;
use serde_json::{Value, json};

use crate::samples::{object, with_spec};

fn rule(properties: &Value, rule: &Value) -> Value {
    with_spec(&json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]}))
}

fn sizes() -> Value {
    json!({"min": {"type": "integer"}, "max": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "namespace": {"type": "string"}, "x-y": {"type": "integer"},
        "ports": {"type": "array", "items": {"type": "object", "properties": {"number": {"type": "integer"}}}},
        "since": {"type": "string", "format": "date-time"}, "wait": {"type": "string", "format": "duration"},
        "ratio": {"type": "number"}, "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

fn check(text: &str, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = Schema::parse(&rule(&sizes(), &json!({"rule": text}))).unwrap();
    let old = old.map(object);
    schema.validate(&object(spec), old.as_ref()).iter().map(ToString::to_string).collect()
}

#[test]
fn a_broken_rule_has_its_message() {
    let spec = json!({"min": 3, "max": 2});
    for (given, expected) in [
        (json!({"message": "min above max"}), "spec: Invalid value: min above max"),
        (json!({}), "spec: Invalid value: failed rule: self.min <= self.max"),
        (json!({"messageExpression": "'min is ' + string(self.min)"}), "spec: Invalid value: min is 3"),
        (json!({"message": "m", "reason": "FieldValueForbidden"}), "spec: Forbidden: m"),
        (json!({"message": "m", "reason": "FieldValueRequired", "fieldPath": ".max"}), "spec.max: Required value: m"),
    ] {
        let mut written = given;
        written["rule"] = json!("self.min <= self.max");
        let schema = Schema::parse(&rule(&sizes(), &written)).unwrap();
        let errors = schema.validate(&object(&spec), None);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].to_string(), expected);
        assert_eq!(schema.validate(&object(&json!({"min": 1, "max": 2})), None), []);
    }
}

#[test]
fn kubernetes_functions_and_types_work() {
    for (text, spec) in [
        ("has(self.min) && self.min > 0", json!({"min": 1})),
        ("self.names.all(name, name.startsWith('a'))", json!({"names": ["a", "ab"]})),
        ("self.names.exists_one(name, name == 'b')", json!({"names": ["a", "b"]})),
        ("self.ports.map(port, port.number).sum() == 3", json!({"ports": [{"number": 1}, {"number": 2}]})),
        ("self.labels.all(key, self.labels[key].size() < 3)", json!({"labels": {"a.b/c-d": "xy"}})),
        ("self.labels.exists(key, key == 'a.b')", json!({"labels": {"a.b": "x"}})),
        ("self.__namespace__ == 'x'", json!({"namespace": "x"})),
        ("self.x__dash__y == 2", json!({"x-y": 2})),
        ("self.since > timestamp('2020-01-01T00:00:00Z')", json!({"since": "2024-01-01T00:00:00Z"})),
        ("self.wait < duration('2m')", json!({"wait": "90s"})),
        ("self.ratio < 1.5", json!({"ratio": 1})),
        ("isQuantity('1Gi') && quantity('1Gi').isGreaterThan(quantity('1Mi'))", json!({})),
        ("sets.contains(self.names, ['a'])", json!({"names": ["a", "b"]})),
        ("'x-1'.matches('^[a-z]-[0-9]$')", json!({})),
        ("self.min in [1, 2]", json!({"min": 2})),
    ] {
        assert_eq!(check(text, &spec, None), [""; 0], "{text}");
    }
}

#[test]
fn an_evaluation_error_is_an_error_of_the_field() {
    let errors = check("self.min > 0", &json!({}), None);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("spec: Invalid value: \"object\": no such key: min evaluating rule:"), "{errors:?}");
}

#[test]
fn transition_rules_see_the_old_value() {
    let grows = "self.min >= oldSelf.min";
    let old = json!({"min": 5});
    assert_eq!(check(grows, &json!({"min": 1}), None), [""; 0]);
    assert_eq!(check(grows, &json!({"min": 6}), Some(&old)), [""; 0]);
    assert_eq!(check(grows, &json!({"min": 4}), Some(&old)).len(), 1);
}

#[test]
fn optional_old_self_is_there_on_create_too() {
    let written =
        json!({"rule": "oldSelf.hasValue() || self.min == 0", "optionalOldSelf": true, "message": "start at 0"});
    let schema = Schema::parse(&rule(&sizes(), &written)).unwrap();
    assert_eq!(schema.validate(&object(&json!({"min": 1})), None).len(), 1);
    assert_eq!(schema.validate(&object(&json!({"min": 0})), None), []);
    let old = object(&json!({"min": 0}));
    assert_eq!(schema.validate(&object(&json!({"min": 1})), Some(&old)), []);
    let written = json!({"rule": "self.min >= oldSelf.orValue(self).min", "optionalOldSelf": true});
    let schema = Schema::parse(&rule(&sizes(), &written)).unwrap();
    assert_eq!(schema.validate(&object(&json!({"min": -1})), Some(&old)).len(), 1);
}

#[test]
fn elements_of_a_list_map_are_compared_by_key() {
    let list = |kind: &Value| {
        let mut schema = json!({"type": "array", "items": {
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "only grows"}]
        }});
        schema.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        Schema::parse(&with_spec(&schema))
    };
    let schema = list(&json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]})).unwrap();
    let old = object(&json!([{"name": "a", "size": 5}, {"name": "b", "size": 1}]));
    let new = object(&json!([{"name": "b", "size": 1}, {"name": "a", "size": 4}, {"name": "c", "size": 0}]));
    let errors = schema.validate(&new, Some(&old));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].path, "spec[1]");
    let error = list(&json!({})).unwrap_err();
    assert!(error.message.contains("uncorrelatable"), "{error}");
}

#[test]
fn rules_naming_unknown_fields_are_refused() {
    for (text, why) in [
        ("self.foo > 1", "undefined field 'foo'"),
        ("has(self.foo)", "undefined field 'foo'"),
        ("self.min > oldSelf.foo", "undefined field 'foo'"),
        ("self.min.foo > 1", "does not support field selection"),
        ("self.ports.all(port, port.foo > 1)", "undefined field 'foo'"),
        ("self.ports[0].foo > 1", "undefined field 'foo'"),
        ("self.open.anything == 1", "undefined field 'anything'"),
        ("nonsense(self.min)", "undeclared reference to 'nonsense'"),
        ("self.min.nonsense()", "undeclared reference to 'nonsense'"),
        ("minimum > 1", "undeclared reference to 'minimum'"),
        ("self.min >", ""),
        ("((((", ""),
        ("", ""),
    ] {
        let error = Schema::parse(&rule(&sizes(), &json!({"rule": text}))).unwrap_err();
        assert_eq!(error.path, "properties[spec].x-kubernetes-validations[0].rule", "{text}");
        assert!(error.message.contains(why), "{text}: {error}");
    }
    for (keyword, value) in
        [("messageExpression", "self.foo"), ("fieldPath", ".foo"), ("fieldPath", "min"), ("reason", "Because")]
    {
        let error = Schema::parse(&rule(&sizes(), &json!({"rule": "true", keyword: value}))).unwrap_err();
        assert!(error.path.ends_with(keyword), "{error}");
    }
    let metadata = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.labels.size() < 2"}]});
    assert!(Schema::parse(&metadata).unwrap_err().message.contains("undefined field 'labels'"));
    let name = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name.size() < 2"}]});
    assert_eq!(Schema::parse(&name).unwrap().validate(&object(&json!({})), None).len(), 1);
}

#[test]
fn rules_wait_until_the_object_has_its_shape() {
    let schema = Schema::parse(&rule(&sizes(), &json!({"rule": "self.min > 0"}))).unwrap();
    let errors = schema.validate(&object(&json!({"min": "x"})), None);
    assert_eq!(errors.len(), 2);
    assert!(errors[1].message.contains("some validation rules were not checked"));
}
