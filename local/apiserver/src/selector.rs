//! Label and field selectors: parsed once, matched against the index's facts, or the JSON when nothing less will do.

use serde_json::Value;

use crate::names;
use crate::status::ApiError;
use crate::store::Object;

/// Both selectors of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    pub fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self, ApiError> {
        let labels = split_outside_parentheses(labels.unwrap_or_default())
            .map(parse_label)
            .collect::<Result<_, _>>()
            .map_err(|why| ApiError::bad_request(format!("unable to parse requirement: {why}")))?;
        let fields = split_unescaped(fields.unwrap_or_default())
            .iter()
            .filter(|term| !term.is_empty())
            .map(|term| parse_field(term))
            .collect::<Result<_, _>>()?;
        Ok(Self { labels, fields })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.labels.iter().all(|requirement| requirement.matches(&object.labels)) && self.fields_match(object)
    }

    fn fields_match(&self, object: &Object) -> bool {
        let mut parsed: Option<Value> = None;
        self.fields.iter().all(|requirement| {
            let equal = match requirement.path.as_str() {
                "metadata.name" => object.key.name == requirement.value,
                "metadata.namespace" => object.key.namespace == requirement.value,
                path => {
                    let value = parsed.get_or_insert_with(|| object.value());
                    field_text(value, path) == requirement.value
                }
            };
            equal == requirement.equal
        })
    }
}

impl LabelRequirement {
    fn matches(&self, labels: &[(String, String)]) -> bool {
        let value = labels.iter().find(|(key, _)| *key == self.key).map(|(_, value)| value.as_str());
        match (&self.test, value) {
            (LabelTest::Exists, value) => value.is_some(),
            (LabelTest::Absent, value) => value.is_none(),
            (LabelTest::In(wanted), Some(value)) => wanted.iter().any(|one| one == value),
            (LabelTest::NotIn(unwanted), Some(value)) => unwanted.iter().all(|one| one != value),
            (LabelTest::NotIn(_), None) => true,
            (LabelTest::Greater(bound), Some(value)) => value.parse::<i64>().is_ok_and(|value| value > *bound),
            (LabelTest::Less(bound), Some(value)) => value.parse::<i64>().is_ok_and(|value| value < *bound),
            (LabelTest::In(_) | LabelTest::Greater(_) | LabelTest::Less(_), None) => false,
        }
    }
}

/// A scalar at a dotted path as text; empty when absent.
fn field_text(value: &Value, path: &str) -> String {
    let found = path.trim_start_matches('.').split('.').try_fold(value, |value, name| value.get(name));
    match found {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

fn split_outside_parentheses(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|term| !term.is_empty())
}

fn parse_label(term: &str) -> Result<LabelRequirement, String> {
    if let Some(key) = term.strip_prefix('!') {
        return requirement(key, LabelTest::Absent);
    }
    for (operator, negative) in [("!=", true), ("==", false), ("=", false)] {
        if let Some((key, value)) = term.split_once(operator) {
            let values = vec![label_value(value)?];
            return requirement(key, if negative { LabelTest::NotIn(values) } else { LabelTest::In(values) });
        }
    }
    if let Some((key, bound)) = term.split_once('>') {
        return requirement(key, LabelTest::Greater(number(bound)?));
    }
    if let Some((key, bound)) = term.split_once('<') {
        return requirement(key, LabelTest::Less(number(bound)?));
    }
    parse_set(term)
}

/// `key in (a,b)`, `key notin (a,b)` or a bare `key`.
fn parse_set(term: &str) -> Result<LabelRequirement, String> {
    let Some((head, tail)) = term.split_once('(') else {
        return requirement(term, LabelTest::Exists);
    };
    let inner = tail.trim_end().strip_suffix(')').ok_or_else(|| format!("\"{term}\" lacks a ')'"))?;
    let values = inner.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
    match head.split_whitespace().collect::<Vec<_>>().as_slice() {
        [key, "in"] => requirement(key, LabelTest::In(values)),
        [key, "notin"] => requirement(key, LabelTest::NotIn(values)),
        _ => Err(format!("found \"{term}\", expected: KEY in (A,B) or KEY notin (A,B)")),
    }
}

fn requirement(key: &str, test: LabelTest) -> Result<LabelRequirement, String> {
    let key = key.trim();
    match names::check_key(key) {
        Some(why) => Err(format!("key: Invalid value: \"{key}\": {why}")),
        None => Ok(LabelRequirement { key: key.to_owned(), test }),
    }
}

fn label_value(value: &str) -> Result<String, String> {
    let value = value.trim();
    match names::check_value(value) {
        Some(why) => Err(format!("values: Invalid value: \"{value}\": {why}")),
        None => Ok(value.to_owned()),
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| format!("\"{}\" must be an integer", text.trim()))
}

/// Field selectors escape `,`, `=` and `\` with a backslash.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(c);
        }
    }
    terms
}

fn parse_field(term: &str) -> Result<FieldRequirement, ApiError> {
    let malformed = || ApiError::bad_request(format!("invalid selector: '{term}'; can't understand '{term}'"));
    let at = unescaped_equals(term).ok_or_else(malformed)?;
    let (head, tail) = (&term[..at], &term[at + 1..]);
    let (path, equal) = match head.strip_suffix('!') {
        Some(path) => (path, false),
        None => (head, true),
    };
    let value = tail.strip_prefix('=').unwrap_or(tail);
    if path.trim().is_empty() {
        return Err(malformed());
    }
    Ok(FieldRequirement { path: path.trim().to_owned(), value: unescape(value), equal })
}

fn unescaped_equals(term: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in term.char_indices() {
        if c == '=' && !escaped {
            return Some(at);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

fn unescape(text: &str) -> String {
    let mut result = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        result.push(if c == '\\' { characters.next().unwrap_or('\\') } else { c });
    }
    result
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::store::Key;

    fn matches(labels: Option<&str>, fields: Option<&str>) -> bool {
        let value = json!({
            "metadata": {"name": "p", "labels": {"app": "web", "tier": "3"}},
            "spec": {"nodeName": "local", "count": 2}
        });
        let body = Bytes::from(value.to_string());
        let object = Object::from_body(Key::new("pods", "default", "p"), 1, body).unwrap();
        Selector::parse(labels, fields).unwrap().matches(&object)
    }

    #[test]
    fn label_selectors_match_as_in_kubernetes() {
        for (selector, expected) in [
            ("app=web", true),
            ("app==web,tier in (2, 3)", true),
            ("app!=web", false),
            ("missing!=x", true),
            ("missing", false),
            ("!missing,app", true),
            ("app notin (db)", true),
            ("tier>2", true),
            ("tier<3", false),
            ("", true),
        ] {
            assert_eq!(matches(Some(selector), None), expected, "{selector}");
        }
    }

    #[test]
    fn field_selectors_reach_any_scalar() {
        for (selector, expected) in [
            ("metadata.name=p,spec.nodeName=local", true),
            ("metadata.namespace!=default", false),
            ("spec.count=2", true),
            ("spec.missing=", true),
            ("spec.nodeName!=other", true),
        ] {
            assert_eq!(matches(None, Some(selector)), expected, "{selector}");
        }
    }

    #[test]
    fn refuses_nonsense() {
        for selector in ["a b", "app in (x", "x=#", "tier>x"] {
            assert!(Selector::parse(Some(selector), None).is_err(), "{selector}");
        }
        assert!(Selector::parse(None, Some("nothing")).is_err());
    }
}
