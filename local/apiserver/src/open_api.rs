//! `OpenAPI` v3: one document a group and version, so that kubectl can check, explain and patch.

mod two;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, LazyLock},
};

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{builtin, discovery::json_response, kinds::ResourceKind, status::ApiError};

const REF_PREFIX: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3";

/// The Kubernetes release that the schemas come from.
const VERSION: &str = "v1.37.2";

/// Answers below `/openapi`.
pub(crate) fn answer(path: &[&str], headers: &HeaderMap, query: Option<&str>, kinds: &[Arc<ResourceKind>]) -> Response {
    if path == ["v2"] {
        return version_two(headers, kinds);
    }
    let Some((&"v3", rest)) = path.split_first() else { return ApiError::path_not_found().into_response() };
    if only_protobuf(headers) {
        return (StatusCode::NOT_ACCEPTABLE, "OpenAPI v3 is served as JSON").into_response();
    }
    if rest.is_empty() {
        return json_response(&index(kinds));
    }
    let (group, version) = match rest {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return ApiError::path_not_found().into_response(),
    };
    match served(kinds, group, version) {
        Some(document) => cached(&document, headers, query),
        None => ApiError::path_not_found().into_response(),
    }
}

fn version_two(headers: &HeaderMap, kinds: &[Arc<ResourceKind>]) -> Response {
    let document = two::document(kinds);
    if two::wants_protobuf(headers) {
        return ([(header::CONTENT_TYPE, two::PROTOBUF_ANSWER)], wire::encode(&document)).into_response();
    }
    json_response(&document)
}

fn only_protobuf(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    !accept.is_empty() && accept.split(',').all(|media| media.trim().starts_with(PROTOBUF))
}

/// A document that is asked for by its hash never changes: clients may keep it.
fn cached(document: &Document, headers: &HeaderMap, query: Option<&str>) -> Response {
    let etag = format!("\"{}\"", document.hash);
    let same = headers.get(header::IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == etag.as_bytes());
    let whole = || ([(header::CONTENT_TYPE, "application/json")], document.text.clone()).into_response();
    let mut response = if same { StatusCode::NOT_MODIFIED.into_response() } else { whole() };
    let current = query.unwrap_or_default().split('&').any(|pair| pair == format!("hash={}", etag.trim_matches('"')));
    let control = if current { "public, immutable" } else { "no-cache, private" };
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static(control));
    if let Ok(value) = etag.parse() {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

/// Hex digest of a document; equal documents have equal digests.
pub(crate) fn hash(document: &Value) -> String {
    digest(&document.to_string())
}

fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"))
}

/// A document as it is sent.
struct Document {
    text: Bytes,
    hash: String,
}

impl Document {
    fn of(value: &Value) -> Self {
        let text = value.to_string();
        Self { hash: digest(&text), text: text.into() }
    }
}

/// Documents by group and version.
type Made = HashMap<(String, String), Arc<Document>>;

/// The document of one group and version. Those of built-in kinds never change, and are made once a process.
fn served(kinds: &[Arc<ResourceKind>], group: &str, version: &str) -> Option<Arc<Document>> {
    static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
    let is_own = |kind: &ResourceKind| builtin::component_name(&kind.group, &kind.version, &kind.kind).is_some();
    let mut listed = kinds.iter().filter(|kind| kind.group == group && kind.version == version);
    if !listed.all(|kind| is_own(kind)) {
        return document(kinds, group, version).map(|value| Arc::new(Document::of(&value)));
    }
    let key = (group.to_owned(), version.to_owned());
    if let Some(made) = MADE.lock().get(&key) {
        return Some(made.clone());
    }
    let made = Arc::new(Document::of(&document(kinds, group, version)?));
    MADE.lock().insert(key, made.clone());
    Some(made)
}

/// `/openapi/v3`: where each group's document is, with its hash.
pub fn index(kinds: &[Arc<ResourceKind>]) -> Value {
    let versions: BTreeSet<(&str, &str)> =
        kinds.iter().map(|kind| (kind.group.as_str(), kind.version.as_str())).collect();
    let mut paths = Map::new();
    for (group, version) in versions {
        let Some(document) = served(kinds, group, version) else { continue };
        let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let address = format!("/openapi/v3/{path}?hash={}", document.hash);
        paths.insert(path, json!({"serverRelativeURL": address}));
    }
    json!({"paths": paths})
}

/// The document of one group and version; `None` when nothing in it is served.
pub fn document(kinds: &[Arc<ResourceKind>], group: &str, version: &str) -> Option<Value> {
    let mut paths = Map::new();
    let mut schemas = BTreeMap::new();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        let name = component_name(kind);
        paths.extend(paths_of(kind, &name));
        let schema = component(kind);
        collect(&schema, &mut schemas);
        schemas.insert(name, schema);
    }
    if schemas.is_empty() {
        return None;
    }
    for (name, schema) in &mut schemas {
        builtin::describe(name, schema);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// Name of a kind's schema: Kubernetes' own for built-in kinds, else the group's domain backwards.
fn component_name(kind: &ResourceKind) -> String {
    builtin::component_name(&kind.group, &kind.version, &kind.kind).unwrap_or_else(|| {
        let domain: Vec<&str> = kind.group.rsplit('.').collect();
        format!("{}.{}.{}", domain.join("."), kind.version, kind.kind)
    })
}

/// The kind's schema as served. Custom kinds get what Kubernetes adds to theirs: type, metadata and identity.
fn component(kind: &ResourceKind) -> Value {
    let mut schema = kind.open_api.as_ref().clone();
    if !schema.is_object() {
        schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    if schema["x-kubernetes-group-version-kind"].is_array() {
        return schema;
    }
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |description: &str| json!({"type": "string", "description": description});
    schema["properties"]["apiVersion"] = text("Group and version of this kind's schema.");
    schema["properties"]["kind"] = text("Name of this kind.");
    schema["properties"]["metadata"] = json!({"description": "Standard object's metadata.", "allOf": [{"$ref": format!("{REF_PREFIX}{OBJECT_META}")}]});
    schema
}

/// Adds every built-in definition that the schema refers to.
fn collect(schema: &Value, found: &mut BTreeMap<String, Value>) {
    match schema {
        Value::Object(object) => {
            let target = object.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix(REF_PREFIX));
            if let Some(name) = target
                && !found.contains_key(name)
                && let Some(definition) = builtin::definition(name)
            {
                found.insert(name.to_owned(), definition.clone());
                collect(definition, found);
            }
            object.values().for_each(|value| collect(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn paths_of(kind: &ResourceKind, component: &str) -> Vec<(String, Value)> {
    let base = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    let all = format!("{base}/{}", kind.plural);
    let scoped = if kind.namespaced { format!("{base}/namespaces/{{namespace}}/{}", kind.plural) } else { all.clone() };
    let one = format!("{scoped}/{{name}}");
    let operations = Operations { kind, component };
    let mut paths = vec![(scoped, operations.collection()), (one.clone(), operations.item())];
    if kind.namespaced {
        paths.push((all, json!({"get": operations.operation("list", &[])})));
    }
    if kind.status_subresource {
        paths.push((format!("{one}/status"), operations.item()));
    }
    paths
}

/// The operations of one kind. kubectl reads which query parameters and patch types there are.
struct Operations<'a> {
    kind: &'a ResourceKind,
    component: &'a str,
}

impl Operations<'_> {
    fn reference(&self) -> Value {
        json!({"schema": {"$ref": format!("{REF_PREFIX}{}", self.component)}})
    }

    fn operation(&self, action: &str, parameters: &[&str]) -> Value {
        let parameters: Vec<Value> = parameters.iter().map(|name| parameter(name)).collect();
        json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": {"application/json": self.reference()}}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind":
                {"group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind},
        })
    }

    fn with_body(&self, action: &str) -> Value {
        let mut operation = self.operation(action, &["dryRun", "fieldManager", "fieldValidation"]);
        operation["requestBody"] = json!({"required": true, "content": {"application/json": self.reference()}});
        operation
    }

    fn patch(&self) -> Value {
        let mut operation = self.operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"]);
        let mut types =
            vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
        // Custom kinds know no strategic merge, and clients choose by this list.
        if builtin::component_name(&self.kind.group, &self.kind.version, &self.kind.kind).is_some() {
            types.push("application/strategic-merge-patch+json");
        }
        let content: Map<String, Value> =
            types.into_iter().map(|media| (media.to_owned(), json!({"schema": {"type": "object"}}))).collect();
        operation["requestBody"] = json!({"required": true, "content": content});
        operation
    }

    fn collection(&self) -> Value {
        json!({
            "get": self.operation("list", &["fieldSelector", "labelSelector", "limit", "continue", "watch"]),
            "post": self.with_body("post"),
            "delete": self.operation("deletecollection", &["dryRun", "fieldSelector", "labelSelector"]),
        })
    }

    fn item(&self) -> Value {
        json!({
            "get": self.operation("get", &[]),
            "put": self.with_body("put"),
            "patch": self.patch(),
            "delete": self.operation("delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
        })
    }
}

fn parameter(name: &str) -> Value {
    let kind = match name {
        "force" | "watch" => "boolean",
        "limit" | "gracePeriodSeconds" => "integer",
        _ => "string",
    };
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

#[cfg(test)]
mod tests {
    use modelway_schema::Schema;

    use super::*;
    use crate::builtin::builtin_kinds;

    fn kinds() -> Vec<Arc<ResourceKind>> {
        builtin_kinds().into_iter().map(Arc::new).collect()
    }

    fn widget() -> ResourceKind {
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
            status_subresource: true,
            scale: None,
            columns: Vec::new(),
            schema: Arc::new(Schema::permissive()),
            open_api: Arc::new(json!({"type": "object", "properties": {"spec": {"type": "object"}}})),
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let kinds = kinds();
        for (group, version) in [("", "v1"), ("apps", "v1"), ("batch", "v1"), ("apiextensions.k8s.io", "v1")] {
            let document = document(&kinds, group, version).unwrap();
            let text = document.to_string();
            for piece in text.split("\"$ref\":\"").skip(1) {
                let target = piece.split('"').next().unwrap().strip_prefix(REF_PREFIX).unwrap();
                assert!(document["components"]["schemas"][target].is_object(), "{target}");
            }
        }
    }

    #[test]
    fn custom_kinds_have_metadata_and_no_strategic_merge() {
        let document = document(&[Arc::new(widget())], "example.com", "v1").unwrap();
        let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
        assert!(document["components"]["schemas"][OBJECT_META].is_object());
        let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
        let types = patch["requestBody"]["content"].as_object().unwrap();
        assert!(types.contains_key("application/merge-patch+json"));
        assert!(!types.contains_key("application/strategic-merge-patch+json"));
    }

    #[test]
    fn the_index_names_documents_by_their_content() {
        let kinds = kinds();
        let first = index(&kinds);
        assert_eq!(first, index(&kinds));
        let address = first["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
        let expected = hash(&document(&kinds, "apps", "v1").unwrap());
        assert_eq!(address, format!("/openapi/v3/apis/apps/v1?hash={expected}"));
    }

    #[test]
    fn version_two_comes_in_the_form_asked_for() {
        let kind = |accept: &'static str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, http::HeaderValue::from_static(accept))]);
            answer(&["v2"], &headers, None, &kinds()).headers()[header::CONTENT_TYPE].clone()
        };
        assert_eq!(kind("application/json"), "application/json");
        assert_eq!(kind(two::PROTOBUF), two::PROTOBUF_ANSWER);
    }
}
