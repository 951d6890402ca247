//! A pod template with the values of a candidate in it.

use modelway_api::trial::{Category, ParameterAssignment};
use serde_json::{Map, Value, json};

use crate::{
    json as read,
    template::{array, object},
};

/// Time that a server under test gets to end at most: nothing of it is worth keeping, and the next trial waits.
const GRACE_SECONDS: i64 = 2;

/// The pods of a `PodTemplate` with the values in them and these labels alone; what is not known here stays as it is.
pub fn under_test(pod_template: &Value, values: &[ParameterAssignment], labels: &Map<String, Value>) -> Value {
    let mut template = pod_template.get("template").cloned().unwrap_or_else(|| json!({}));
    let metadata = object(object(&mut template).entry("metadata").or_insert_with(|| json!({})));
    for field in ["name", "namespace", "creationTimestamp", "generateName"] {
        metadata.shift_remove(field);
    }
    metadata.insert("labels".to_owned(), labels.clone().into());
    let spec = object(object(&mut template).entry("spec").or_insert_with(|| json!({})));
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(GRACE_SECONDS);
    spec.insert("terminationGracePeriodSeconds".to_owned(), grace.min(GRACE_SECONDS).into());
    put(&mut template, values);
    template
}

/// Puts the values into a pod template: variables into all containers, resources and arguments into the first.
pub fn put(template: &mut Value, values: &[ParameterAssignment]) {
    for value in values.iter().filter(|value| value.category == Category::NodeSelector) {
        let spec = object(object(template).entry("spec").or_insert_with(|| json!({})));
        object(spec.entry("nodeSelector").or_insert_with(|| json!({})))
            .insert(value.name.clone(), value.value.clone().into());
    }
    let containers = template.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
    for (index, container) in containers.into_iter().flatten().enumerate() {
        object(container).entry("terminationMessagePolicy").or_insert_with(|| "FallbackToLogsOnError".into());
        let is_server = index == 0;
        // New variables go before all others, which may name them: the last one put in is the first.
        for value in values.iter().rev().filter(|value| value.category == Category::Env) {
            put_variable(container, &variable(&value.name), &value.value);
        }
        for value in values.iter().filter(|value| is_server && value.category == Category::Resource) {
            put_resource(container, &value.name, &value.value);
        }
        for value in values.iter().filter(|value| is_server && value.category == Category::Args) {
            put_argument(container, &value.name, &value.value);
        }
    }
}

/// The variable of a parameter: in capitals, and with `_` for what some releases refuse in a name.
pub fn variable(name: &str) -> String {
    let allowed = |character: char| character.is_ascii_alphanumeric() || character == '-';
    name.to_uppercase().chars().map(|character| if allowed(character) { character } else { '_' }).collect()
}

/// Sets a variable where it is, else before all others.
pub fn put_variable(container: &mut Value, name: &str, value: &str) {
    let variables = array(object(container).entry("env").or_insert_with(|| json!([])));
    let entry = json!({ "name": name, "value": value });
    match variables.iter_mut().find(|variable| read::name_of(variable) == name) {
        Some(known) => *known = entry,
        None => variables.insert(0, entry),
    }
}

fn put_resource(container: &mut Value, name: &str, value: &str) {
    let resources = object(object(container).entry("resources").or_insert_with(|| json!({})));
    for part in ["requests", "limits"] {
        object(resources.entry(part).or_insert_with(|| json!({}))).insert(name.to_owned(), value.into());
    }
}

/// Sets a flag where it is, else adds it. A name without a dash is a place at the end, as is a value with one of its own.
fn put_argument(container: &mut Value, name: &str, value: &str) {
    let own_flag = value.split_once('=').map_or(value, |(flag, _)| flag);
    let is_flag = name.starts_with('-');
    if !is_flag && !own_flag.starts_with('-') {
        return array(object(container).entry("args").or_insert_with(|| json!([]))).push(value.into());
    }
    let (flag, whole) = if own_flag.starts_with('-') && !is_number(value) {
        (own_flag, value.to_owned())
    } else {
        (name, format!("{name}={value}"))
    };
    for list in ["args", "command"] {
        let words = container.get_mut(list).and_then(Value::as_array_mut);
        if words.is_some_and(|words| replace_flag(words, flag, value, &whole)) {
            return;
        }
    }
    let arguments = array(object(container).entry("args").or_insert_with(|| json!([])));
    if whole.starts_with("--") || !is_flag {
        arguments.push(whole.into());
    } else {
        arguments.extend([Value::from(name), value.into()]);
    }
}

fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok()
}

/// Whether the flag was there.
fn replace_flag(words: &mut [Value], flag: &str, value: &str, whole: &str) -> bool {
    let starts = |word: &Value| {
        word.as_str().is_some_and(|word| word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
    };
    if let Some(word) = words.iter_mut().find(|word| starts(word)) {
        *word = whole.into();
        return true;
    }
    let Some(at) = words.iter().position(|word| word == flag) else { return false };
    let has_own_value =
        words.get(at + 1).and_then(Value::as_str).is_some_and(|next| !next.starts_with('-') || is_number(next));
    if whole.starts_with(flag) && whole.contains('=') && has_own_value && at + 1 < words.len() {
        let value = whole.split_once('=').map_or(value, |(_, value)| value);
        words[at + 1] = value.into();
    } else {
        words[at] = whole.into();
    }
    true
}

/// The value that the template has for a parameter, where it says.
pub fn current(template: &Value, category: Category, name: &str) -> Option<String> {
    let container = template.pointer("/spec/containers/0")?;
    let owned = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match category {
        Category::Resource => {
            let resources = &container["resources"];
            let found =
                [&resources["limits"][name], &resources["requests"][name]].into_iter().find(|value| !value.is_null());
            found.map(owned)
        }
        Category::Env => {
            let mut variables = read::items(container, "/env");
            variables.find(|entry| read::name_of(entry) == variable(name))?.get("value").map(owned)
        }
        Category::Args => {
            let given = ["/args", "/command"].iter().find_map(|list| flag_value(container, list, name));
            given.or_else(|| built_in_default(container, name).map(str::to_owned))
        }
        Category::NodeSelector => template.pointer("/spec/nodeSelector")?.get(name).map(owned),
    }
}

/// What the built-in model server does where a flag is not given.
fn built_in_default(container: &Value, flag: &str) -> Option<&'static str> {
    let mut words = read::items(container, "/command").filter_map(Value::as_str);
    let is_built_in = ["modelway", "runtime", "onnx"].into_iter().all(|word| words.next() == Some(word));
    match flag {
        "--threads" if is_built_in => Some("1"),
        "--max-batch-size" if is_built_in => Some("8"),
        "--max-batch-delay" if is_built_in => Some("0ms"),
        _ => None,
    }
}

fn flag_value(container: &Value, list: &str, flag: &str) -> Option<String> {
    let words: Vec<&str> = read::items(container, list).filter_map(Value::as_str).collect();
    let joined = words.iter().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
    let next = || words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1));
    joined.or_else(|| next().copied()).filter(|_| flag.starts_with('-')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(category: Category, name: &str, value: &str) -> ParameterAssignment {
        ParameterAssignment { name: name.into(), value: value.into(), category }
    }

    fn container(container: &Value, values: &[ParameterAssignment]) -> Value {
        let template = under_test(&json!({"template": {"spec": {"containers": [container]}}}), values, &Map::new());
        template["spec"]["containers"][0].clone()
    }

    #[test]
    fn resources_are_requested_and_limited_by_any_name() {
        let values =
            [value(Category::Resource, "nvidia.com/gpumem", "4000"), value(Category::Resource, "cpu", "2000m")];
        let found = container(&json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}), &values);
        assert_eq!(
            found["resources"],
            json!({"limits": {"cpu": "2000m", "memory": "1Gi", "nvidia.com/gpumem": "4000"},
                "requests": {"nvidia.com/gpumem": "4000", "cpu": "2000m"}})
        );
    }

    #[test]
    fn variables_are_in_capitals_and_come_before_those_that_may_name_them() {
        let values = [value(Category::Env, "batch.size", "8"), value(Category::Env, "threads", "2")];
        let found = container(
            &json!({"env": [{"name": "OPTIONS", "value": "-b $(BATCH_SIZE)"}, {"name": "THREADS", "value": "1"}]}),
            &values,
        );
        assert_eq!(
            found["env"],
            json!([{"name": "BATCH_SIZE", "value": "8"}, {"name": "OPTIONS", "value": "-b $(BATCH_SIZE)"}, {"name": "THREADS", "value": "2"}])
        );
    }

    #[test]
    fn flags_are_set_where_they_are() {
        let put = |words: Value, name: &str, text: &str| {
            container(&json!({"args": words}), &[value(Category::Args, name, text)])["args"].clone()
        };
        assert_eq!(put(json!(["--threads=1", "--x"]), "--threads", "4"), json!(["--threads=4", "--x"]));
        assert_eq!(put(json!(["--threads", "1", "--x"]), "--threads", "4"), json!(["--threads", "4", "--x"]));
        assert_eq!(put(json!(["--x"]), "--threads", "4"), json!(["--x", "--threads=4"]));
        assert_eq!(put(json!(["-t", "1"]), "-t", "-1"), json!(["-t", "-1"]));
        assert_eq!(put(json!([]), "-t", "4"), json!(["-t", "4"]));
        // As Morphling writes them: the whole argument is the value.
        assert_eq!(put(json!(["serve"]), "threads", "--threads=4"), json!(["serve", "--threads=4"]));
        assert_eq!(put(json!(["serve", "--threads=1"]), "threads", "--threads=4"), json!(["serve", "--threads=4"]));
        assert_eq!(put(json!(["serve"]), "threads", "4"), json!(["serve", "4"]));
        assert_eq!(put(json!(["serve", "--fast"]), "mode", "--fast"), json!(["serve", "--fast"]));
    }

    #[test]
    fn flags_of_the_command_are_set_there() {
        let found =
            container(&json!({"command": ["server", "--threads", "1"]}), &[value(Category::Args, "--threads", "2")]);
        assert_eq!(found["command"], json!(["server", "--threads", "2"]));
        assert!(found["args"].is_null());
    }

    #[test]
    fn the_running_values_are_read_back() {
        let template = json!({"spec": {"containers": [{"command": ["s", "--threads", "2"], "args": ["--batch=8"],
            "env": [{"name": "DELAY", "value": "2ms"}], "resources": {"limits": {"cpu": 1}}}]}});
        let found = |category, name| current(&template, category, name);
        assert_eq!(found(Category::Args, "--threads").as_deref(), Some("2"));
        assert_eq!(found(Category::Args, "--batch").as_deref(), Some("8"));
        assert_eq!(found(Category::Env, "delay").as_deref(), Some("2ms"));
        assert_eq!(found(Category::Resource, "cpu").as_deref(), Some("1"));
        assert_eq!(found(Category::Resource, "memory"), None);
        let built_in =
            json!({"spec": {"containers": [{"command": ["modelway", "runtime", "onnx", "--max-batch-size", "4"]}]}});
        let found = |name| current(&built_in, Category::Args, name);
        assert_eq!((found("--threads").as_deref(), found("--max-batch-size").as_deref()), (Some("1"), Some("4")));
    }

    #[test]
    fn nonsense_for_a_template_is_left_to_the_api_server() {
        for nonsense in [json!(null), json!({"template": 3}), json!({"template": {"spec": {"containers": "x"}}})] {
            under_test(&nonsense, &[value(Category::Env, "a", "b")], &Map::new());
        }
    }
}
