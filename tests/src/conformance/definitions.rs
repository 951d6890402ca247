//! Custom kinds.

use serde_json::{Value, json};

use super::support::{Api, MERGE, eventually, fields, revision};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "frozen": {"type": "string", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "frozen cannot change"}]},
            "low": {"type": "integer"}, "high": {"type": "integer"},
        }, "x-kubernetes-validations": [
            {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high", "message": "low must not exceed high"}]},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
    }})
}

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema()},
        "subresources": {"status": {}, "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
    })
}

/// A definition whose group belongs to the case alone.
fn definition(api: &Api, kind: &str) -> Value {
    let group = group(api);
    let plural = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version("v1", true)],
            "names": {"plural": plural, "kind": kind, "shortNames": [format!("x{}", kind.to_lowercase())]},
        },
    })
}

fn group(api: &Api) -> String {
    format!("{}.example.com", api.namespace)
}

fn condition<'a>(definition: &'a Value, name: &str) -> &'a Value {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|one| one["type"] == name).unwrap_or(&Value::Null)
}

/// Creates the definition and waits until its kind is served; returns the path of its objects.
async fn served(api: &Api, definition: &Value) -> String {
    api.post(DEFINITIONS, definition).await.unwrap();
    let name = definition["metadata"]["name"].as_str().unwrap();
    eventually("the definition to be established", || async {
        let now = api.get(&format!("{DEFINITIONS}/{name}")).await.unwrap();
        (condition(&now, "Established")["status"] == "True").then_some(())
    })
    .await;
    let path = api.path(&format!("{}/v1", group(api)), definition["spec"]["names"]["plural"].as_str().unwrap());
    eventually("the kind to be served", || async { api.get(&path).await.ok() }).await;
    path
}

/// Definitions are not in the case's namespace: each case takes its own away.
async fn remove(api: &Api, definition: &Value) {
    let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
    api.delete(&path, &json!({})).await.unwrap();
    api.gone(&path).await;
}

fn widget(api: &Api, spec: &Value) -> Value {
    json!({"apiVersion": format!("{}/v1", group(api)), "kind": "Widget", "metadata": {"name": "a"}, "spec": spec})
}

pub async fn a_kind_is_served_once_established(api: &Api) {
    let crd = definition(api, "Widget");
    let path = served(api, &crd).await;
    let now = api.get(&format!("{DEFINITIONS}/widgets.{}", group(api))).await.unwrap();
    assert_eq!(condition(&now, "NamesAccepted")["status"], "True");
    assert_eq!(now["status"]["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(now["status"]["storedVersions"], json!(["v1"]));
    api.post(&path, &widget(api, &json!({"size": 1}))).await.unwrap();
    assert_eq!(api.get(&path).await.unwrap()["kind"], "WidgetList");
    remove(api, &crd).await;
}

pub async fn schemas_default_prune_and_validate(api: &Api) {
    let crd = definition(api, "Widget");
    let path = served(api, &crd).await;
    let made = api.post(&path, &widget(api, &json!({"size": 1, "unknown": true}))).await.unwrap();
    assert_eq!(made["spec"], json!({"size": 1, "color": "red"}));
    let status = api.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"size": 11}})).await.unwrap_err();
    assert_eq!((status.code, fields(&status)[0].as_str()), (422, "spec.size"));
    let status = api.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"color": "green"}})).await.unwrap_err();
    let cause = &status.details.as_ref().unwrap().causes[0];
    assert_eq!((cause.reason.as_str(), cause.field.as_str()), ("FieldValueNotSupported", "spec.color"));
    let status = api.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"size": null}})).await.unwrap_err();
    assert_eq!(status.details.as_ref().unwrap().causes[0].reason, "FieldValueRequired");
    remove(api, &crd).await;
}

pub async fn rules_are_enforced(api: &Api) {
    let crd = definition(api, "Widget");
    let path = served(api, &crd).await;
    let status = api.post(&path, &widget(api, &json!({"size": 1, "low": 3, "high": 2}))).await.unwrap_err();
    assert_eq!((status.code, fields(&status)), (422, vec!["spec".to_owned()]));
    assert!(status.message.contains("low must not exceed high"), "{}", status.message);
    api.post(&path, &widget(api, &json!({"size": 1, "frozen": "x"}))).await.unwrap();
    let status = api.patch(&format!("{path}/a"), MERGE, &json!({"spec": {"frozen": "y"}})).await.unwrap_err();
    assert!(status.message.contains("frozen cannot change"), "{}", status.message);
    remove(api, &crd).await;
}

pub async fn generation_counts_specs(api: &Api) {
    let crd = definition(api, "Widget");
    let path = served(api, &crd).await;
    let mut body = widget(api, &json!({"size": 1}));
    body["status"] = json!({"size": 9});
    let made = api.post(&path, &body).await.unwrap();
    assert_eq!(made["metadata"]["generation"], 1);
    assert!(made.get("status").is_none());
    let object = format!("{path}/a");
    let labelled = api.patch(&object, MERGE, &json!({"metadata": {"labels": {"x": "y"}}})).await.unwrap();
    assert_eq!(labelled["metadata"]["generation"], 1);
    let status = json!({"status": {"size": 2}, "spec": {"size": 7}});
    let reported = api.patch(&format!("{object}/status"), MERGE, &status).await.unwrap();
    assert_eq!((&reported["status"]["size"], &reported["spec"]["size"]), (&json!(2), &json!(1)));
    assert_eq!(reported["metadata"]["generation"], 1);
    let grown = api.patch(&object, MERGE, &json!({"spec": {"size": 3}, "status": {"size": 8}})).await.unwrap();
    assert_eq!((&grown["metadata"]["generation"], &grown["status"]["size"]), (&json!(2), &json!(2)));
    assert!(revision(&grown) > revision(&reported));
    remove(api, &crd).await;
}

pub async fn scale_follows_the_paths(api: &Api) {
    let crd = definition(api, "Widget");
    let path = served(api, &crd).await;
    api.post(&path, &widget(api, &json!({"size": 2}))).await.unwrap();
    let scale = format!("{path}/a/scale");
    assert_eq!(api.get(&scale).await.unwrap()["spec"]["replicas"], 2);
    let mut wanted = api.get(&scale).await.unwrap();
    wanted["spec"]["replicas"] = 5.into();
    assert_eq!(api.put(&scale, &wanted).await.unwrap()["spec"]["replicas"], 5);
    assert_eq!(api.get(&format!("{path}/a")).await.unwrap()["spec"]["size"], 5);
    remove(api, &crd).await;
}

pub async fn versions_share_objects(api: &Api) {
    let mut crd = definition(api, "Widget");
    crd["spec"]["versions"] = json!([version("v1", true), version("v2", false)]);
    let path = served(api, &crd).await;
    api.post(&path, &widget(api, &json!({"size": 2}))).await.unwrap();
    let second = format!("{}/a", api.path(&format!("{}/v2", group(api)), "widgets"));
    let object = api.get(&second).await.unwrap();
    assert_eq!(object["apiVersion"], format!("{}/v2", group(api)));
    api.patch(&second, MERGE, &json!({"spec": {"size": 3}})).await.unwrap();
    let object = api.get(&format!("{path}/a")).await.unwrap();
    assert_eq!(object["apiVersion"], format!("{}/v1", group(api)));
    assert_eq!(object["spec"]["size"], 3);
    remove(api, &crd).await;
}

pub async fn taken_names_are_not_accepted(api: &Api) {
    let crd = definition(api, "Widget");
    served(api, &crd).await;
    let mut taken = definition(api, "Gadget");
    taken["spec"]["names"]["kind"] = "Widget".into();
    api.post(DEFINITIONS, &taken).await.unwrap();
    let path = format!("{DEFINITIONS}/gadgets.{}", group(api));
    eventually("the names to be refused", || async {
        let now = api.get(&path).await.unwrap();
        (condition(&now, "NamesAccepted")["status"] == "False").then_some(())
    })
    .await;
    remove(api, &taken).await;
    remove(api, &crd).await;
}

pub async fn deletion_removes_the_objects(api: &Api) {
    let crd = definition(api, "Widget");
    let path = served(api, &crd).await;
    api.post(&path, &widget(api, &json!({"size": 2}))).await.unwrap();
    remove(api, &crd).await;
    eventually("the kind to be gone", || async { api.get(&path).await.err() }).await;
    let path = served(api, &crd).await;
    assert_eq!(api.get(&path).await.unwrap()["items"], json!([]));
    remove(api, &crd).await;
}

pub async fn bad_schemas_are_refused(api: &Api) {
    let mut crd = definition(api, "Widget");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["bad"] =
        json!({"description": "no type"});
    let status = api.post(DEFINITIONS, &crd).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let mut crd = definition(api, "Widget");
    crd["metadata"]["name"] = "other".into();
    assert!(fields(&api.post(DEFINITIONS, &crd).await.unwrap_err()).contains(&"metadata.name".to_owned()));
}
