//! The subset of JSON path that printer columns use: fields, quoted fields, indices, slices, `[*]` and equality filters.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    /// `[first:end]`, each counted from the end when negative, and left out for all there is.
    Slice(Option<i64>, Option<i64>),
    All,
    /// `[?(@.field.path == literal)]`
    Equals(Vec<Step>, Value),
}

/// First value that the path selects; none when the path is malformed or selects nothing.
pub(super) fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = parse(path)?;
    select(object, &steps).into_iter().next()
}

fn select<'a>(root: &'a Value, steps: &[Step]) -> Vec<&'a Value> {
    let mut current = vec![root];
    for step in steps {
        current = current.into_iter().flat_map(|value| apply(value, step)).collect();
    }
    current
}

fn apply<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => value.as_array().and_then(|items| at(items, *index)).into_iter().collect(),
        Step::Slice(first, end) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let (first, end) = (place(items, first.unwrap_or(0)), end.map_or(items.len(), |end| place(items, end)));
            items.get(first..end).unwrap_or_default().iter().collect()
        }
        Step::All => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Equals(path, literal) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter(|item| select(item, path).first() == Some(&literal)).collect()
        }
    }
}

/// A bound of a slice, within the list.
fn place(items: &[Value], bound: i64) -> usize {
    let distance = usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX);
    if bound < 0 { items.len().saturating_sub(distance) } else { distance.min(items.len()) }
}

fn at(items: &[Value], index: i64) -> Option<&Value> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 { items.len().checked_sub(distance).and_then(|place| items.get(place)) } else { items.get(distance) }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim();
    rest = rest.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(rest);
    rest = rest.strip_prefix('$').unwrap_or(rest);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, tail) = if let Some(inner) = rest.strip_prefix('[') { bracket(inner)? } else { field(rest)? };
        steps.extend(step);
        rest = tail;
    }
    Some(steps)
}

/// `.name`, with `\.` for a dot within the name. A lone leading dot selects the object itself.
fn field(text: &str) -> Option<(Option<Step>, &str)> {
    let text = text.strip_prefix('.').unwrap_or(text);
    let mut name = String::new();
    let mut escaped = false;
    let mut end = text.len();
    for (index, character) in text.char_indices() {
        match character {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '.' | '[' if !escaped => {
                end = index;
                break;
            }
            _ => name.push(character),
        }
        escaped = false;
    }
    let step = match name.as_str() {
        "" if end == 0 && text.starts_with('.') => return None,
        "" => None,
        "*" => Some(Step::All),
        _ => Some(Step::Field(name)),
    };
    Some((step, &text[end..]))
}

fn bracket(inner: &str) -> Option<(Option<Step>, &str)> {
    let end = closing(inner)?;
    let (content, tail) = (inner[..end].trim(), &inner[end + 1..]);
    let step = if let Some(filter) = content.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (left, right) = filter.split_once("==")?;
        Step::Equals(parse(left.trim().strip_prefix('@')?)?, literal(right.trim())?)
    } else if let Some(name) = unquote(content) {
        Step::Field(name.to_owned())
    } else if content == "*" {
        Step::All
    } else if let Some((first, end)) = content.split_once(':') {
        let bound = |text: &str| if text.trim().is_empty() { Some(None) } else { text.trim().parse().ok().map(Some) };
        Step::Slice(bound(first)?, bound(end)?)
    } else {
        Step::Index(content.parse().ok()?)
    };
    Some((Some(step), tail))
}

/// Where the bracket closes, quotes and nested brackets skipped.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) => quote = (open != character).then_some(open),
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

fn literal(text: &str) -> Option<Value> {
    match unquote(text) {
        Some(inner) => Some(inner.into()),
        None => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selects_as_printer_columns_expect() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}}, "list": [{"n": 1}, {"n": 2}],
            "status": {"conditions": [{"type": "Idle", "status": "True"}, {"type": "Ready", "status": "False"}]}});
        let cases = [
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("False"))),
            (".status.conditions[?(@.type == 'Idle')].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='None')].status", None),
            (".metadata.labels['a.b/c']", Some(json!("x"))),
            (".metadata.labels.a\\.b/c", Some(json!("x"))),
            (".list[0].n", Some(json!(1))),
            (".list[-1].n", Some(json!(2))),
            (".list[*].n", Some(json!(1))),
            ("{.list[1].n}", Some(json!(2))),
            ("$.list[1].n", Some(json!(2))),
            (".list[7].n", None),
            (".list[-1:].n", Some(json!(2))),
            (".list[:1].n", Some(json!(1))),
            (".list[1:9].n", Some(json!(2))),
            (".list[2:1].n", None),
            (".list[-9:].n", Some(json!(1))),
        ];
        for (path, expected) in cases {
            assert_eq!(first(&object, path), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn malformed_paths_select_nothing() {
        for path in ["..a", ".a[", ".a[?(@.b)]", ".a[x]", ".a[?(b=='c')]", ".a[']", ".a[x:]"] {
            assert_eq!(first(&json!({"a": [1], "b": 2}), path), None, "{path}");
        }
    }
}
