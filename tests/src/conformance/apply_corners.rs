//! Server-side apply where managers meet: nested maps, co-owned and given-up fields, keyed lists, kubectl's own moves.

use serde_json::{Value, json};

use super::builtins::deployment;
use super::support::{Api, JSON, MERGE, fields, revision};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn entry<'a>(object: &'a Value, manager: &str, operation: &str) -> Option<&'a Value> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.into_iter().find(|one| one["manager"] == manager && one["operation"] == operation)
}

fn web(spec: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
}

/// A Deployment's spec in which only this is said about its one container.
fn container(fields: &Value) -> Value {
    let mut container = json!({"name": "main"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        container[name] = value.clone();
    }
    json!({"template": {"spec": {"containers": [container]}}})
}

/// Applies a whole Deployment `web` as manager `base`; returns its path.
async fn base(api: &Api) -> String {
    let path = format!("{}/web", api.path("apps/v1", "deployments"));
    api.apply(&path, "base", "", &deployment("web")).await.unwrap();
    path
}

pub async fn nested_maps_merge_key_by_key(api: &Api) {
    let path = base(api).await;
    let limits = |limits: Value| web(&container(&json!({"resources": {"limits": limits}})));
    api.apply(&path, "one", "", &limits(json!({"cpu": "1"}))).await.unwrap();
    let both = api.apply(&path, "two", "", &limits(json!({"memory": "1Gi"}))).await.unwrap();
    let at = "/spec/template/spec/containers/0/resources/limits";
    assert_eq!(both.pointer(at), Some(&json!({"cpu": "1", "memory": "1Gi"})));
    let status = api.apply(&path, "two", "", &limits(json!({"cpu": "2"}))).await.unwrap_err();
    assert_eq!(fields(&status), [".spec.template.spec.containers[name=\"main\"].resources.limits.cpu"]);
    let left = api.apply(&path, "one", "", &web(&container(&json!({})))).await.unwrap();
    assert_eq!(left.pointer(at), Some(&json!({"memory": "1Gi"})));
}

pub async fn shared_fields_stay_until_the_last_owner_leaves(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1", "y": "1"}))).await.unwrap();
    api.apply(&api.map("a"), "two", "", &map(&json!({"x": "1"}))).await.unwrap();
    let first = api.apply(&api.map("a"), "one", "", &map(&json!({"y": "1"}))).await.unwrap();
    assert_eq!(first["data"], json!({"x": "1", "y": "1"}));
    let second = api.apply(&api.map("a"), "two", "", &map(&json!({}))).await.unwrap();
    assert_eq!(second["data"], json!({"y": "1"}));
}

pub async fn ownership_moves_by_sharing_first(api: &Api) {
    let path = base(api).await;
    let replicas = |count: i64| web(&json!({"replicas": count}));
    api.apply(&path, "two", "", &replicas(0)).await.unwrap();
    let mut without = deployment("web");
    without["spec"].as_object_mut().unwrap().shift_remove("replicas");
    let moved = api.apply(&path, "base", "", &without).await.unwrap();
    assert_eq!(moved["spec"]["replicas"], 0);
    assert!(entry(&moved, "base", "Apply").unwrap()["fieldsV1"]["f:spec"].get("f:replicas").is_none());
    let paused = web(&json!({"replicas": 0, "paused": true}));
    assert_eq!(api.apply(&path, "two", "", &paused).await.unwrap()["spec"]["paused"], true);
}

pub async fn a_manager_that_leaves_altogether_is_forgotten(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    api.apply(&api.map("a"), "two", "", &map(&json!({"y": "1"}))).await.unwrap();
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let left = api.apply(&api.map("a"), "one", "", &bare).await.unwrap();
    assert_eq!(left["data"], json!({"y": "1"}));
    assert!(entry(&left, "one", "Apply").is_none(), "{left}");
}

pub async fn updates_take_fields_and_applies_conflict_with_them(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1", "y": "1"}))).await.unwrap();
    let path = format!("{}?fieldManager=editor", api.map("a"));
    let edited = api.patch(&path, MERGE, &json!({"data": {"x": "2"}})).await.unwrap();
    assert!(entry(&edited, "one", "Apply").unwrap()["fieldsV1"]["f:data"].get("f:x").is_none());
    let status = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1", "y": "1"}))).await.unwrap_err();
    assert_eq!((status.code, fields(&status)), (409, vec![".data.x".to_owned()]));
    let message = &status.details.as_ref().unwrap().causes[0].message;
    assert!(message.starts_with("conflict with \"editor\" using v1"), "{message}");
    let forced = api.apply(&api.map("a"), "one", "&force=true", &map(&json!({"x": "1", "y": "1"}))).await.unwrap();
    assert_eq!(forced["data"]["x"], "1");
    assert!(entry(&forced, "editor", "Update").is_none());
}

pub async fn one_name_that_applies_and_updates_is_two_managers(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let path = format!("{}?fieldManager=one", api.map("a"));
    let edited = api.patch(&path, MERGE, &json!({"data": {"x": "2", "z": "1"}})).await.unwrap();
    assert!(entry(&edited, "one", "Update").is_some());
    let status = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "3"}))).await.unwrap_err();
    assert_eq!(fields(&status), [".data.x"]);
}

pub async fn empty_maps_are_owned_and_take_nothing_away(api: &Api) {
    api.new_map("a", &json!({"labels": {"l": "v"}}), &json!({"k": "v"})).await;
    let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}}, "data": {}});
    let applied = api.apply(&api.map("a"), "one", "", &empty).await.unwrap();
    assert_eq!((&applied["data"], &applied["metadata"]["labels"]), (&json!({"k": "v"}), &json!({"l": "v"})));
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let left = api.apply(&api.map("a"), "one", "", &bare).await.unwrap();
    assert_eq!(left["data"], json!({"k": "v"}));
}

pub async fn keyed_elements_are_owned_one_by_one(api: &Api) {
    let path = base(api).await;
    let ports = |ports: Value| web(&container(&json!({"ports": ports})));
    api.apply(&path, "one", "", &ports(json!([{"containerPort": 80, "name": "a"}]))).await.unwrap();
    let other = json!([{"containerPort": 81, "name": "b"}, {"containerPort": 80, "protocol": "UDP", "name": "c"}]);
    let all = api.apply(&path, "two", "", &ports(other.clone())).await.unwrap();
    let at = "/spec/template/spec/containers/0/ports";
    assert_eq!(all.pointer(at).and_then(Value::as_array).unwrap().len(), 3);
    let status = api.apply(&path, "two", "", &ports(json!([{"containerPort": 80, "name": "z"}]))).await.unwrap_err();
    let place = ".spec.template.spec.containers[name=\"main\"].ports[containerPort=80,protocol=\"TCP\"].name";
    assert_eq!(fields(&status), [place]);
    let left = api.apply(&path, "one", "", &web(&container(&json!({})))).await.unwrap();
    let names: Vec<&Value> = left.pointer(at).unwrap().as_array().unwrap().iter().map(|port| &port["name"]).collect();
    assert_eq!(names, ["b", "c"]);
}

pub async fn elements_that_are_named_twice_are_refused(api: &Api) {
    let path = base(api).await;
    let twice = web(&container(&json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]})));
    let status = api.apply(&path, "one", "", &twice).await.unwrap_err();
    assert!(status.code == 500 || status.code == 400, "{}", status.code);
    assert!(status.message.contains("duplicate entries for key [name=\"A\"]"), "{}", status.message);
}

pub async fn atomic_lists_and_maps_have_one_owner(api: &Api) {
    let path = base(api).await;
    let arguments = |list: Value| web(&container(&json!({"args": list})));
    api.apply(&path, "one", "", &arguments(json!(["a", "b"]))).await.unwrap();
    let status = api.apply(&path, "two", "", &arguments(json!(["a"]))).await.unwrap_err();
    assert_eq!(fields(&status), [".spec.template.spec.containers[name=\"main\"].args"]);
    let taken = api.apply(&path, "two", "&force=true", &arguments(json!(["a"]))).await.unwrap();
    assert_eq!(taken.pointer("/spec/template/spec/containers/0/args"), Some(&json!(["a"])));
    let selector = web(&json!({"selector": {"matchLabels": {"app": "other"}}}));
    assert_eq!(fields(&api.apply(&path, "two", "", &selector).await.unwrap_err()), [".spec.selector"]);
}

pub async fn finalizers_and_owners_merge_across_managers(api: &Api) {
    let owner = api.new_map("owner", &json!({}), &json!({})).await;
    let with = |metadata: Value| {
        let mut body = map(&json!({"k": "v"}));
        for (name, value) in metadata.as_object().into_iter().flatten() {
            body["metadata"][name] = value.clone();
        }
        body
    };
    let first = with(json!({"finalizers": ["example.com/one"], "ownerReferences": [super::support::owner(&owner)]}));
    api.apply(&api.map("a"), "one", "", &first).await.unwrap();
    let both = api.apply(&api.map("a"), "two", "", &with(json!({"finalizers": ["example.com/two"]}))).await.unwrap();
    assert_eq!(both["metadata"]["finalizers"], json!(["example.com/one", "example.com/two"]));
    let left = api.apply(&api.map("a"), "one", "", &with(json!({}))).await.unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["example.com/two"]));
    assert!(left["metadata"].get("ownerReferences").is_none());
    api.patch(&api.map("a"), MERGE, &json!({"metadata": {"finalizers": null}})).await.unwrap();
}

pub async fn status_managers_share_conditions(api: &Api) {
    let path = format!("{}/status", base(api).await);
    let status = |kind: &str, word: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "status": {"conditions": [{"type": kind, "status": word}]}})
    };
    api.apply(&path, "one", "", &status("example.com/A", "True")).await.unwrap();
    let both = api.apply(&path, "two", "", &status("example.com/B", "True")).await.unwrap();
    let kinds = |object: &Value| -> Vec<String> {
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let own = all.iter().filter_map(|one| one["type"].as_str()).filter(|kind| kind.starts_with("example.com/"));
        own.map(str::to_owned).collect()
    };
    assert_eq!(kinds(&both), ["example.com/A", "example.com/B"]);
    let refused = api.apply(&path, "two", "", &status("example.com/A", "False")).await.unwrap_err();
    assert_eq!(fields(&refused), [".status.conditions[type=\"example.com/A\"].status"]);
    let none = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    assert_eq!(kinds(&api.apply(&path, "one", "", &none).await.unwrap()), ["example.com/B"]);
    assert_eq!(entry(&both, "one", "Apply").unwrap()["subresource"], "status");
}

pub async fn applied_revisions_are_preconditions(api: &Api) {
    let made = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let bound = |value: &str| {
        let mut body = map(&json!({"x": value}));
        body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        body
    };
    let newer = api.apply(&api.map("a"), "one", "", &bound("2")).await.unwrap();
    assert!(revision(&newer) > revision(&made));
    assert_eq!(api.apply(&api.map("a"), "one", "", &bound("3")).await.unwrap_err().code, 409);
    // Where there is nothing yet, there is nothing to be bound to.
    let mut absent = bound("1");
    absent["metadata"]["name"] = "b".into();
    api.apply(&api.map("b"), "one", "", &absent).await.unwrap();
    absent["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    absent["metadata"]["name"] = "c".into();
    assert_eq!(api.apply(&api.map("c"), "one", "", &absent).await.unwrap_err().code, 409);
}

pub async fn applied_dry_runs_write_nothing(api: &Api) {
    let made = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let shown = api.apply(&api.map("a"), "two", "&dryRun=All", &map(&json!({"y": "1"}))).await.unwrap();
    assert_eq!(shown["data"], json!({"x": "1", "y": "1"}));
    assert_eq!(api.get(&api.map("a")).await.unwrap(), made);
    let mut new = map(&json!({}));
    new["metadata"]["name"] = "b".into();
    api.apply(&api.map("b"), "one", "&dryRun=All", &new).await.unwrap();
    assert_eq!(api.get(&api.map("b")).await.unwrap_err().code, 404);
}

pub async fn fields_that_no_schema_knows_are_not_applied(api: &Api) {
    let mut body = map(&json!({}));
    body["dota"] = json!({"x": "1"});
    let status = api.apply(&api.map("a"), "one", "", &body).await.unwrap_err();
    assert!(status.message.contains(".dota: field not declared in schema"), "{}", status.message);
    assert_eq!(api.get(&api.map("a")).await.unwrap_err().code, 404);
}

pub async fn force_belongs_to_applies(api: &Api) {
    api.new_map("a", &json!({}), &json!({})).await;
    let status = api.patch(&format!("{}?force=true", api.map("a")), MERGE, &json!({})).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(
        status.message.contains("force: Forbidden: may not be specified for non-apply patch"),
        "{}",
        status.message
    );
}

pub async fn managed_fields_are_not_applied_and_can_be_reset(api: &Api) {
    let made = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let mut body = map(&json!({"x": "1"}));
    body["metadata"]["managedFields"] = made["metadata"]["managedFields"].clone();
    let status = api.apply(&api.map("a"), "one", "", &body).await.unwrap_err();
    assert!(status.message.contains("metadata.managedFields must be nil"), "{}", status.message);
    let reset = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    let bare = api.patch(&api.map("a"), JSON, &reset).await.unwrap();
    assert!(bare["metadata"].get("managedFields").is_none(), "{bare}");
    let status = api.apply(&api.map("a"), "two", "", &map(&json!({"x": "2"}))).await.unwrap_err();
    assert!(status.message.contains("before-first-apply"), "{}", status.message);
}

pub async fn kubectl_moves_from_the_client_to_the_server(api: &Api) {
    let mut body = map(&json!({"x": "1"}));
    let remembered = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"annotations": {}, "name": "a", "namespace": api.namespace}, "data": {"x": "1"}});
    body["metadata"]["annotations"] = json!({LAST_APPLIED: format!("{remembered}\n")});
    api.post(&format!("{}?fieldManager=kubectl-client-side-apply", api.maps()), &body).await.unwrap();
    let status = api.apply(&api.map("a"), "someone", "", &map(&json!({"x": "2"}))).await.unwrap_err();
    assert_eq!(status.code, 409);
    let moved = api.apply(&api.map("a"), "kubectl", "", &map(&json!({"x": "2"}))).await.unwrap();
    assert_eq!(moved["data"]["x"], "2");
    let now: Value = serde_json::from_str(moved["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap()).unwrap();
    assert_eq!(now["data"], json!({"x": "2"}));
    // What somebody changed since is not kubectl's any more.
    api.patch(&format!("{}?fieldManager=editor", api.map("a")), MERGE, &json!({"data": {"x": "3"}})).await.unwrap();
    assert_eq!(api.apply(&api.map("a"), "kubectl", "", &map(&json!({"x": "2"}))).await.unwrap_err().code, 409);
}

pub async fn times_change_with_what_is_owned(api: &Api) {
    let made = api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let time = |object: &Value, manager: &str| entry(object, manager, "Apply").unwrap()["time"].clone();
    // Times are whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let both = api.apply(&api.map("a"), "two", "", &map(&json!({"y": "1"}))).await.unwrap();
    assert_eq!(time(&both, "one"), time(&made, "one"));
    assert_ne!(time(&both, "two"), time(&made, "one"));
    let forced = api.apply(&api.map("a"), "two", "&force=true", &map(&json!({"x": "2"}))).await.unwrap();
    assert!(entry(&forced, "one", "Apply").is_none());
}

pub async fn nulls_in_applies(api: &Api) {
    api.apply(&api.map("a"), "one", "", &map(&json!({"x": "1"}))).await.unwrap();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": null}, "data": {"x": "1"}, "binaryData": null});
    let applied = api.apply(&api.map("a"), "one", "", &body).await.unwrap();
    assert_eq!(applied["data"], json!({"x": "1"}));
    assert!(applied["metadata"].get("labels").is_none() && applied.get("binaryData").is_none(), "{applied}");
}
