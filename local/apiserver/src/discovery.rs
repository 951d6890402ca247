//! What the server serves, in the words clients discover it by: groups, versions, resources, version, health.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};

use crate::{kinds::ResourceKind, limits, open_api};

/// The Kubernetes release whose API is followed.
const MAJOR: &str = "1";
const MINOR: &str = "37";
const GIT_VERSION: &str = "v1.37.2+modelway";

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Verbs of every kind, in Kubernetes' order.
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// Answers requests that are about the server and not about objects, and those beyond its limits; `None` for every other path.
pub fn answer(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    query: Option<&str>,
    kinds: &[Arc<ResourceKind>],
) -> Option<Response> {
    let trimmed = path.trim_end_matches('/');
    let segments: Vec<&str> = trimmed.split('/').skip(1).collect();
    if let Some(refusal) = limits::refusal(method, &segments) {
        return Some(refusal.into_response());
    }
    let body = match segments.as_slice() {
        [] => root_paths(kinds),
        ["healthz" | "livez" | "readyz", ..] => return Some(only_read(method, || plain("ok"))),
        ["version"] => version(),
        ["openapi", rest @ ..] => {
            return Some(only_read(method, || open_api::answer(rest, headers, query, kinds)));
        }
        ["api"] if wants_aggregated(headers) => return Some(only_read(method, || aggregated(kinds, true))),
        ["apis"] if wants_aggregated(headers) => return Some(only_read(method, || aggregated(kinds, false))),
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["apis"] => {
            let groups: Vec<Value> = group_names(kinds).iter().map(|name| group(kinds, name)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["apis", name] if has_group(kinds, name) => {
            let mut found = group(kinds, name);
            found["kind"] = "APIGroup".into();
            found["apiVersion"] = "v1".into();
            found
        }
        ["api", "v1"] => resources(kinds, "", "v1"),
        ["apis", name, version] if kinds.iter().any(|kind| kind.group == *name && kind.version == *version) => {
            resources(kinds, name, version)
        }
        _ => return None,
    };
    Some(only_read(method, || json_response(&body)))
}

fn only_read(method: &Method, respond: impl FnOnce() -> Response) -> Response {
    if matches!(*method, Method::GET | Method::HEAD) {
        return respond();
    }
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")]).into_response()
}

fn plain(text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// A JSON document with status 200.
pub(crate) fn json_response(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], Body::from(body.to_string())).into_response()
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let media = accept.flat_map(|value| value.split(',')).map(|media| media.replace(' ', ""));
    let parts = ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"];
    media.into_iter().any(|media| parts.iter().all(|part| media.split(';').any(|found| found == *part)))
}

/// `/version`.
pub fn version() -> Value {
    json!({
        "major": MAJOR, "minor": MINOR, "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_architecture()),
        "emulationMajor": MAJOR, "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR, "minCompatibilityMinor": MINOR,
    })
}

fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn root_paths(kinds: &[Arc<ResourceKind>]) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for name in group_names(kinds) {
        paths.push(format!("/apis/{name}"));
        paths.extend(versions(kinds, &name).iter().map(|version| format!("/apis/{name}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

/// Named groups, built-in ones (without a domain or below `k8s.io`) first, as clients resolve bare words in this order.
fn group_names(kinds: &[Arc<ResourceKind>]) -> Vec<String> {
    let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.group.as_str()).filter(|name| !name.is_empty()).collect();
    let custom = |name: &&str| name.contains('.') && !name.ends_with(".k8s.io");
    let (custom, builtin): (Vec<&str>, Vec<&str>) = names.into_iter().partition(custom);
    builtin.into_iter().chain(custom).map(str::to_owned).collect()
}

fn has_group(kinds: &[Arc<ResourceKind>], name: &str) -> bool {
    !name.is_empty() && kinds.iter().any(|kind| kind.group == name)
}

/// Versions of a group, the preferred one first.
fn versions(kinds: &[Arc<ResourceKind>], group: &str) -> Vec<String> {
    let found: BTreeSet<&str> =
        kinds.iter().filter(|kind| kind.group == group).map(|kind| kind.version.as_str()).collect();
    let mut found: Vec<String> = found.into_iter().map(str::to_owned).collect();
    found.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
    found
}

/// Stable before beta before alpha, then by number; other names come last.
fn version_rank(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let minor = |tail: &str| tail.parse().ok();
        match &rest[digits..] {
            "" => Some((3, major, 0)),
            tail if tail.starts_with("beta") => Some((2, major, minor(&tail[4..])?)),
            tail if tail.starts_with("alpha") => Some((1, major, minor(&tail[5..])?)),
            _ => None,
        }
    };
    parse().unwrap_or_default()
}

fn group(kinds: &[Arc<ResourceKind>], name: &str) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let entries: Vec<Value> = versions(kinds, name).iter().map(entry).collect();
    let preferred = entries.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": entries, "preferredVersion": preferred})
}

/// What hangs below one kind: name, verbs, and the kind of its body.
struct Subresource {
    name: &'static str,
    group: String,
    version: String,
    kind: String,
    verbs: &'static [&'static str],
}

fn subresources(kind: &ResourceKind) -> Vec<Subresource> {
    let own = |name, verbs| Subresource {
        name,
        group: kind.group.clone(),
        version: kind.version.clone(),
        kind: kind.kind.clone(),
        verbs,
    };
    let mut found = Vec::new();
    if kind.group.is_empty() && kind.kind == "Pod" {
        let eviction = ("policy".to_owned(), "v1".to_owned(), "Eviction".to_owned());
        let (group, version, kind) = eviction;
        found.push(Subresource { name: "eviction", group, version, kind, verbs: &["create"] });
        found.push(own("log", &["get"]));
    }
    if kind.scale.is_some() {
        let (group, version) = ("autoscaling".to_owned(), "v1".to_owned());
        found.push(Subresource { name: "scale", group, version, kind: "Scale".to_owned(), verbs: SUBRESOURCE_VERBS });
    }
    if kind.status_subresource {
        found.push(own("status", SUBRESOURCE_VERBS));
    }
    found
}

/// The plain `APIResourceList` of a group and version.
fn resources(kinds: &[Arc<ResourceKind>], group: &str, version: &str) -> Value {
    let mut listed = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": VERBS,
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        listed.push(resource);
        listed.extend(subresources(kind).into_iter().map(|sub| {
            json!({
                "name": format!("{}/{}", kind.plural, sub.name), "singularName": "", "namespaced": kind.namespaced,
                "group": sub.group, "version": sub.version, "kind": sub.kind, "verbs": sub.verbs,
            })
        }));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed})
}

/// Aggregated discovery: all groups and their resources in one document.
fn aggregated(kinds: &[Arc<ResourceKind>], core: bool) -> Response {
    let names = if core { vec![String::new()] } else { group_names(kinds) };
    let items: Vec<Value> = names.iter().map(|name| aggregated_group(kinds, name)).collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let etag = open_api::hash(&body);
    let kind = [(header::CONTENT_TYPE, AGGREGATED.to_owned()), (header::ETAG, format!("\"{etag}\""))];
    (kind, Body::from(body.to_string())).into_response()
}

fn aggregated_group(kinds: &[Arc<ResourceKind>], name: &str) -> Value {
    let version = |version: &String| {
        let listed = kinds.iter().filter(|kind| kind.group == *name && kind.version == *version);
        let resources: Vec<Value> = listed.map(|kind| aggregated_resource(kind)).collect();
        json!({"version": version, "freshness": "Current", "resources": resources})
    };
    let versions: Vec<Value> = versions(kinds, name).iter().map(version).collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &ResourceKind) -> Value {
    let subresource = |sub: Subresource| {
        json!({
            "subresource": sub.name, "verbs": sub.verbs,
            "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
        })
    };
    json!({
        "resource": kind.plural, "singularResource": kind.singular, "shortNames": kind.short_names,
        "categories": kind.categories, "verbs": VERBS,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "subresources": subresources(kind).into_iter().map(subresource).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::builtin::builtin_kinds;

    fn kinds() -> Vec<Arc<ResourceKind>> {
        builtin_kinds().into_iter().map(Arc::new).collect()
    }

    fn get(path: &str, accept: &'static str) -> Option<Response> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        answer(&Method::GET, path, &headers, None, &kinds())
    }

    async fn body(response: Response) -> Value {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 22).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn aggregated_discovery_is_served_to_who_asks_for_it() {
        let response = get("/apis", AGGREGATED).unwrap();
        assert_eq!(response.headers()[header::CONTENT_TYPE], AGGREGATED);
        let found = body(response).await;
        let apps = found["items"].as_array().unwrap().iter().find(|group| group["metadata"]["name"] == "apps").unwrap();
        let deployments = &apps["versions"][0]["resources"][0];
        assert_eq!(deployments["resource"], "deployments");
        assert_eq!(deployments["subresources"][0]["responseKind"]["kind"], "Scale");
    }

    #[tokio::test]
    async fn plain_discovery_lists_subresources_too() {
        let found = body(get("/api/v1", "application/json").unwrap()).await;
        let names: Vec<&str> =
            found["resources"].as_array().unwrap().iter().filter_map(|resource| resource["name"].as_str()).collect();
        assert!(names.contains(&"pods/log") && names.contains(&"pods/status") && names.contains(&"pods"));
        assert_eq!(body(get("/apis/apps", "*/*").unwrap()).await["preferredVersion"]["version"], "v1");
    }

    #[test]
    fn paths_of_objects_are_not_ours() {
        for path in ["/api/v1/pods", "/apis/none", "/apis/apps/v2", "/nothing", "/apis/apps/v1/deployments"] {
            assert!(get(path, "*/*").is_none(), "{path}");
        }
        assert!(get("/readyz/ping", "*/*").is_some());
    }

    #[test]
    fn the_preferred_version_is_the_most_stable() {
        let mut versions = ["v1alpha1", "v1", "v2beta3", "v10", "odd", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta3", "v1alpha1", "odd"]);
    }
}
