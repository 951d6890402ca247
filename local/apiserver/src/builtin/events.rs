//! Events have two faces, `v1` and `events.k8s.io/v1`, of one stored object: the `v1` form.

use serde_json::{Map, Value};

/// Names in `events.k8s.io/v1` and in `v1`.
const FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Turns an `events.k8s.io/v1` event into the `v1` form that is stored.
pub fn to_core_event(event: &mut Value) {
    rename(event, "v1", |name| FIELDS.iter().find(|(new, _)| *new == name).map(|&(_, core)| core));
}

/// Turns a stored `v1` event into its `events.k8s.io/v1` form.
pub fn from_core_event(event: &mut Value) {
    rename(event, "events.k8s.io/v1", |name| FIELDS.iter().find(|(_, core)| *core == name).map(|&(new, _)| new));
}

fn rename(event: &mut Value, api_version: &str, new_name: impl Fn(&str) -> Option<&'static str>) {
    let Value::Object(fields) = event else { return };
    let mut renamed = Map::with_capacity(fields.len());
    for (name, value) in std::mem::take(fields) {
        let value = if name == "apiVersion" { api_version.into() } else { value };
        renamed.insert(new_name(&name).map_or(name, str::to_owned), value);
    }
    *fields = renamed;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_say_the_same() {
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "a"}, "note": "text",
            "eventTime": "2030-01-01T00:00:00.000000Z", "reportingController": "c", "deprecatedCount": 1});
        let mut event = new.clone();
        to_core_event(&mut event);
        assert_eq!(event["involvedObject"]["name"], "a");
        assert_eq!((&event["message"], &event["apiVersion"]), (&json!("text"), &json!("v1")));
        from_core_event(&mut event);
        assert_eq!(event, new);
    }
}
