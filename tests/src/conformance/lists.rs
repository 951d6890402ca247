//! Lists: selectors, pages, tables.

use serde_json::json;

use super::support::{Api, names, revision};

async fn three(api: &Api) {
    for (name, tier) in [("a", "1"), ("b", "2"), ("c", "3")] {
        api.new_map(name, &json!({"labels": {"app": "web", "tier": tier}}), &json!({})).await;
    }
}

/// Names that the case itself made.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let list = api.get(&format!("{}?{query}", api.maps())).await.unwrap();
    names(&list).into_iter().filter(|name| name.len() == 1).collect()
}

pub async fn label_selectors_pick(api: &Api) {
    three(api).await;
    assert_eq!(listed(api, "labelSelector=tier%3D2").await, ["b"]);
    assert_eq!(listed(api, "labelSelector=app%3Dweb,tier+in+(1,3)").await, ["a", "c"]);
    assert_eq!(listed(api, "labelSelector=app,tier+notin+(1)").await, ["b", "c"]);
    assert_eq!(listed(api, "labelSelector=app,!tier").await, [""; 0]);
    let status = api.get(&format!("{}?labelSelector=a%20b", api.maps())).await.unwrap_err();
    assert_eq!(status.code, 400);
}

pub async fn field_selectors_pick(api: &Api) {
    three(api).await;
    assert_eq!(listed(api, "fieldSelector=metadata.name%3Db").await, ["b"]);
    let other = format!("fieldSelector=metadata.namespace!%3D{}", api.namespace);
    assert_eq!(listed(api, &other).await, [""; 0]);
}

pub async fn pages_show_one_moment(api: &Api) {
    three(api).await;
    let query = "labelSelector=app%3Dweb&limit=2";
    let first = api.get(&format!("{}?{query}", api.maps())).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    api.delete(&api.map("c"), &json!({})).await.unwrap();
    api.new_map("d", &json!({"labels": {"app": "web"}}), &json!({})).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = api.get(&format!("{}?{query}&continue={token}", api.maps())).await.unwrap();
    assert_eq!(names(&second), ["c"]);
    assert_eq!(revision(&second), revision(&first));
    assert!(second["metadata"].get("continue").is_none_or(|token| token == ""));
}

pub async fn cluster_wide_lists_span_namespaces(api: &Api) {
    three(api).await;
    let query = format!("fieldSelector=metadata.namespace%3D{},metadata.name%3Da", api.namespace);
    let list = api.get(&format!("/api/v1/configmaps?{query}")).await.unwrap();
    assert_eq!(names(&list), ["a"]);
    assert_eq!(list["kind"], "ConfigMapList");
}

pub async fn tables_have_columns_and_rows(api: &Api) {
    three(api).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let path = format!("{}?labelSelector=app%3Dweb", api.maps());
    let table = api.send("GET", &path, &[("accept", accept)], String::new()).await.unwrap();
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"].as_array().unwrap().len(), 3);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

pub async fn partial_metadata_has_no_data(api: &Api) {
    api.new_map("a", &json!({}), &json!({"k": "v"})).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let partial = api.send("GET", &api.map("a"), &[("accept", accept)], String::new()).await.unwrap();
    assert_eq!(partial["kind"], "PartialObjectMetadata");
    assert_eq!(partial["metadata"]["name"], "a");
    assert!(partial.get("data").is_none());
}
