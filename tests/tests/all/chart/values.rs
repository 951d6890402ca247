//! Values: nonsense is refused with words, and the schema knows exactly what the chart reads.

use serde_json::Value;

use super::helm::{MINIMAL, chart, helm, render};

#[test]
fn nonsense_is_refused_by_name() {
    let Some(helm) = helm() else { return };
    let cases = [
        ("replica=3", "replica"),
        ("replicas=two", "/replicas"),
        ("replicas=-1", "/replicas"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("image.digest=sha256:1234", "/image/digest"),
        ("defaultRegistry=https://registry.example.com", "/defaultRegistry"),
        ("watchNamespaces=team-a", "/watchNamespaces"),
        ("watchNamespaces={Team_A}", "/watchNamespaces/0"),
        ("allowedHostPaths={data}", "/allowedHostPaths/0"),
        ("modelMount=csi", "/modelMount"),
        ("registry.storage.size=much", "/registry/storage/size"),
        ("podSecurity.runAsUser=0", "/podSecurity/runAsUser"),
        ("registry.port=80", "/registry/port"),
        ("extraArguments={rm}", "/extraArguments/0"),
    ];
    for (value, expected) in cases {
        let refusal = render(helm, &[MINIMAL, value]).expect_err(value);
        assert!(refusal.contains(expected), "{value}: {refusal}");
    }
}

#[test]
fn a_release_without_a_registry_says_what_to_give() {
    let Some(helm) = helm() else { return };
    let refusal = render(helm, &[]).unwrap_err();
    assert!(refusal.contains("defaultRegistry is needed"), "{refusal}");
    assert!(refusal.contains("registry.enabled=true"), "{refusal}");
}

/// Paths of every value, down to where the schema leaves the content open.
fn paths(path: &str, values: &Value, schema: &Value, root: &Value, problems: &mut Vec<String>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let Some(properties) = schema["properties"].as_object() else { return };
    if schema["additionalProperties"] != false {
        problems.push(format!("{path} takes unknown names"));
    }
    for (name, value) in values.as_object().into_iter().flatten() {
        match properties.get(name) {
            Some(schema) => paths(&format!("{path}/{name}"), value, schema, root, problems),
            None => problems.push(format!("{path}/{name} is not in the schema")),
        }
    }
    for name in properties.keys().filter(|name| values.get(name).is_none()) {
        // Helm's own, and kinds of resources that have no default.
        if name != "global" && !(path.ends_with("/resources") && name == "claims") {
            problems.push(format!("{path}/{name} has no default"));
        }
    }
}

#[test]
fn schema_and_defaults_know_the_same_values() {
    let read = |name: &str| std::fs::read_to_string(chart().join(name)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut problems = Vec::new();
    paths("", &values, &schema, &schema, &mut problems);
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn every_default_is_read_by_a_template() {
    let mut templates = String::new();
    for folder in ["templates", "templates/tests"] {
        for entry in std::fs::read_dir(chart().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                templates.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let text = std::fs::read_to_string(chart().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let mut unread = Vec::new();
    for (name, value) in values.as_object().unwrap() {
        let is_read = |path: &str| templates.contains(&format!(".Values.{path}"));
        match value.as_object().filter(|fields| !fields.is_empty()) {
            Some(fields) => {
                unread.extend(fields.keys().map(|field| format!("{name}.{field}")).filter(|path| !is_read(path)));
            }
            None => unread.extend(Some(name.clone()).filter(|path| !is_read(path))),
        }
    }
    assert!(unread.is_empty(), "{unread:?}");
}
