//! Raw JSON requests, so that a case sees exactly what the server says.

use std::future::Future;
use std::time::Duration;

use futures::io::{AsyncBufReadExt as _, Lines};
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use kube::Client;
use kube::core::Status;
use serde_json::{Value, json};

/// Longer than any healthy server needs for one step; a real one takes its time to empty many namespaces.
const PATIENCE: Duration = Duration::from_mins(1);

pub const MERGE: &str = "application/merge-patch+json";
pub const JSON: &str = "application/json-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A client with the namespace of one case.
#[derive(Clone)]
pub struct Api {
    client: Client,
    pub namespace: String,
}

impl Api {
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    /// `/api/v1/namespaces/NS/PLURAL` or, with a group and version, its `/apis` path.
    pub fn path(&self, group_version: &str, plural: &str) -> String {
        let root = if group_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{group_version}") };
        format!("{root}/namespaces/{}/{plural}", self.namespace)
    }

    pub fn maps(&self) -> String {
        self.path("v1", "configmaps")
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn map(&self, name: &str) -> String {
        format!("{}/{name}", self.maps())
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Value, Box<Status>> {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into_bytes()).unwrap();
        let answer = tokio::time::timeout(PATIENCE, self.client.request_text(request)).await.unwrap();
        match answer {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap()),
            Err(kube::Error::Api(status)) => Err(status),
            Err(other) => unreachable!("{method} {path}: {other}"),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Value, Box<Status>> {
        self.send("GET", path, &[("accept", "application/json")], String::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Box<Status>> {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, Box<Status>> {
        self.send("PUT", path, &[("content-type", "application/json")], body.to_string()).await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: &Value) -> Result<Value, Box<Status>> {
        self.send("PATCH", path, &[("content-type", kind)], body.to_string()).await
    }

    /// A server-side apply; `query` such as `&force=true`.
    pub async fn apply(&self, path: &str, manager: &str, query: &str, body: &Value) -> Result<Value, Box<Status>> {
        let path = format!("{path}?fieldManager={manager}{query}");
        self.patch(&path, "application/apply-patch+yaml", body).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, Box<Status>> {
        self.send("DELETE", path, &[("content-type", "application/json")], options.to_string()).await
    }

    /// The warnings that come with the answer to a JSON body.
    pub async fn warnings(&self, method: &str, path: String, body: &str) -> Vec<String> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(kube::client::Body::from(body.as_bytes().to_vec())).unwrap();
        let answer = tokio::time::timeout(PATIENCE, self.client.send(request)).await.unwrap().unwrap();
        let texts = answer.headers().get_all("warning").into_iter();
        texts.map(|text| text.to_str().unwrap().replace("\\\"", "\"")).collect()
    }

    /// A new config map in the case's namespace.
    pub async fn new_map(&self, name: &str, metadata: &Value, data: &Value) -> Value {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        for (field, value) in metadata.as_object().into_iter().flatten() {
            map["metadata"][field] = value.clone();
        }
        self.post(&self.maps(), &map).await.unwrap()
    }

    /// Waits until the object is gone.
    pub async fn gone(&self, path: &str) {
        eventually(path, || async { self.get(path).await.err().filter(|status| status.code == 404) }).await;
    }

    pub async fn watch(&self, path_and_query: &str) -> Watch {
        let request = http::Request::get(path_and_query).body(Vec::new()).unwrap();
        let stream = self.client.request_stream(request).await.unwrap();
        let lines: Lines<_> = Box::pin(stream).lines();
        Watch { lines: lines.map_err(|error| error.to_string()).boxed() }
    }
}

/// An open watch.
pub struct Watch {
    lines: BoxStream<'static, Result<String, String>>,
}

impl Watch {
    /// The next event; `None` when the server ended the watch.
    pub async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next()).await.expect("the server sends an event")?;
        Some(serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// The next event that is not a plain bookmark, as its type and its object.
    pub async fn event(&mut self) -> (String, Value) {
        loop {
            let mut event = self.next().await.expect("the watch goes on");
            let kind = event["type"].as_str().unwrap().to_owned();
            if kind != "BOOKMARK" {
                return (kind, event["object"].take());
            }
        }
    }
}

/// Asks until there is an answer.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let wait = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| unreachable!("waited in vain for {what}"))
}

pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| name(item).to_owned()).collect()
}

/// The fields of a failed request's causes.
pub fn fields(status: &Status) -> Vec<String> {
    status.details.iter().flat_map(|details| &details.causes).map(|cause| cause.field.clone()).collect()
}

/// An owner reference to a config map.
pub fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}
