//! `Table` output: what kubectl shows, with the server's columns.

mod age;
mod json_path;

use std::time::SystemTime;

pub use age::human_duration;
use serde_json::{Map, Value, json};

use crate::kinds::{ColumnSource, PrinterColumn, ResourceKind};

/// What a row carries beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`; `None` for a word that Kubernetes does not know either.
    pub fn parse(word: Option<&str>) -> Option<Self> {
        match word {
            None | Some("" | "Metadata") => Some(Self::Metadata),
            Some("Object") => Some(Self::Object),
            Some("None") => Some(Self::None),
            Some(_) => None,
        }
    }
}

/// True when the first acceptable media type of an `Accept` header asks for a `meta.k8s.io/v1` table.
pub fn wanted(accept: &str) -> bool {
    for media in accept.split(',') {
        let mut parts = media.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let parameters: Vec<&str> = parts.collect();
        let json = matches!(kind, "application/json" | "*/*" | "application/*" | "");
        let table = parameters.contains(&"as=Table");
        if json && table && parameters.contains(&"v=v1") && parameters.contains(&"g=meta.k8s.io") {
            return true;
        }
        if json && !parameters.iter().any(|parameter| parameter.starts_with("as=")) {
            return false;
        }
    }
    false
}

/// The table of a list (`metadata` is the list's own) or of one object (its `resourceVersion` as `metadata`).
pub fn table(kind: &ResourceKind, metadata: &Value, items: &[Value], include: IncludeObject, now: SystemTime) -> Value {
    let mut table = headless(kind, metadata, items, include, now);
    table["columnDefinitions"] = columns_of(kind).iter().map(definition).collect();
    table
}

/// The table of one watch event; Kubernetes names the columns in the first event of a watch only.
pub fn watch_table(kind: &ResourceKind, object: &Value, include: IncludeObject, first: bool, now: SystemTime) -> Value {
    let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
    let items = std::slice::from_ref(object);
    if first { table(kind, &metadata, items, include, now) } else { headless(kind, &metadata, items, include, now) }
}

fn headless(kind: &ResourceKind, metadata: &Value, items: &[Value], include: IncludeObject, now: SystemTime) -> Value {
    let columns = columns_of(kind);
    let rows: Vec<Value> = items.iter().map(|item| row(&columns, item, include, now)).collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": [], "rows": rows})
}

/// NAME comes first for every kind; kinds without columns of their own show AGE after it.
fn columns_of(kind: &ResourceKind) -> Vec<PrinterColumn> {
    let mut columns = Vec::with_capacity(kind.columns.len() + 1);
    // Events show their name last: the one column with this format says where the name is.
    if !kind.columns.iter().any(|column| column.format == "name") {
        columns.push(path_column("Name", "string", "name", ".metadata.name"));
    }
    columns.extend(kind.columns.iter().cloned());
    if kind.columns.is_empty() {
        columns.push(path_column("Age", "date", "", ".metadata.creationTimestamp"));
    }
    columns
}

fn path_column(name: &str, type_: &str, format: &str, path: &str) -> PrinterColumn {
    PrinterColumn {
        name: name.to_owned(),
        type_: type_.to_owned(),
        format: format.to_owned(),
        description: String::new(),
        priority: 0,
        source: ColumnSource::JsonPath(path.to_owned()),
    }
}

fn definition(column: &PrinterColumn) -> Value {
    json!({
        "name": column.name, "type": column.type_, "format": column.format,
        "description": column.description, "priority": column.priority,
    })
}

fn row(columns: &[PrinterColumn], object: &Value, include: IncludeObject, now: SystemTime) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| cell(column, object, now)).collect();
    match include {
        IncludeObject::None => json!({"cells": cells, "object": null}),
        IncludeObject::Object => json!({"cells": cells, "object": object}),
        IncludeObject::Metadata => json!({"cells": cells, "object": partial(object)}),
    }
}

/// The object's metadata alone, as `meta.k8s.io/v1` has it.
pub fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn cell(column: &PrinterColumn, object: &Value, now: SystemTime) -> Value {
    match &column.source {
        ColumnSource::Function(function) => timed(function(object), now),
        ColumnSource::JsonPath(path) => {
            json_path::first(object, path).map_or(Value::Null, |value| typed(&column.type_, value, now))
        }
    }
}

/// A cell that shows the time since `timestamp`, with text around it.
pub fn age_cell(before: &str, timestamp: &Value, after: &str) -> Value {
    json!({"age": timestamp, "before": before, "after": after})
}

/// Functions have no clock: they leave an object where an age goes ([`age_cell`]).
fn timed(cell: Value, now: SystemTime) -> Value {
    let Value::Object(parts) = &cell else { return cell };
    let text = |key: &str| parts.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{}{}{}", text("before"), age::since(text("age"), now), text("after")).into()
}

/// The value in the column's type, else nothing, as the API server of Kubernetes does for custom resources.
fn typed(type_: &str, value: &Value, now: SystemTime) -> Value {
    match (type_, value) {
        ("integer", Value::Number(number)) => {
            number.as_i64().map_or_else(|| json!(number.as_f64().map(f64::trunc)), Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
        ("date", Value::String(text)) => age::since(text, now).into(),
        ("string", Value::Null) | ("integer" | "number" | "boolean" | "date", _) => Value::Null,
        (_, other) => other.to_string().into(),
    }
}

/// `metadata` of a table that shows one object.
pub fn single_metadata(object: &Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), object["metadata"]["resourceVersion"].clone());
    Value::Object(metadata)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use modelway_schema::Schema;

    use super::*;

    fn widgets(columns: Vec<PrinterColumn>) -> ResourceKind {
        ResourceKind {
            group: "example.com".into(),
            version: "v1".into(),
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            status_subresource: false,
            scale: None,
            columns,
            schema: Arc::new(Schema::permissive()),
            open_api: Arc::new(json!({})),
        }
    }

    fn object() -> Value {
        json!({"metadata": {"name": "a", "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:10Z"},
               "spec": {"size": 3, "ready": true}})
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_kind_without_columns_shows_name_and_age() {
        let shown = table(&widgets(Vec::new()), &json!({}), &[object()], IncludeObject::Metadata, at(70));
        assert_eq!(shown["rows"][0]["cells"], json!(["a", "60s"]));
        assert_eq!(shown["columnDefinitions"][1]["name"], "Age");
        assert_eq!(shown["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }

    #[test]
    fn cells_have_the_type_of_their_column_or_are_null() {
        let kind = widgets(vec![
            path_column("Size", "integer", "", ".spec.size"),
            path_column("Ready", "string", "", ".spec.ready"),
            path_column("Odd", "integer", "", ".spec.ready"),
            path_column("None", "string", "", ".spec.missing"),
        ]);
        let shown = table(&kind, &json!({}), &[object()], IncludeObject::None, at(70));
        assert_eq!(shown["rows"][0]["cells"], json!(["a", 3, "true", null, null]));
        assert_eq!(shown["rows"][0]["object"], Value::Null);
    }

    #[test]
    fn only_the_first_watch_event_names_the_columns() {
        let kind = widgets(Vec::new());
        let first = watch_table(&kind, &object(), IncludeObject::Object, true, at(70));
        let second = watch_table(&kind, &object(), IncludeObject::Object, false, at(70));
        assert_eq!(first["columnDefinitions"].as_array().map(Vec::len), Some(2));
        assert_eq!(second["columnDefinitions"], json!([]));
        assert_eq!(second["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn kubectl_gets_a_table_and_others_get_objects() {
        assert!(wanted(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
        ));
        assert!(wanted("application/json; as=Table; v=v1; g=meta.k8s.io, application/json"));
        assert!(!wanted("application/json"));
        assert!(!wanted("application/json, application/json;as=Table;v=v1;g=meta.k8s.io"));
        assert!(!wanted("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"));
    }
}
