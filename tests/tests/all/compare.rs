//! Both servers give the same answer, word for word, to the same manifests.

use std::collections::{BTreeMap, BTreeSet};

use kube::Client;
use modelway_apiserver::{ApiServer, Options};
use modelway_tests::conformance::{Api, manifests};
use serde_json::{Value, json};

use super::{probes, real_api, runner};

const PLAIN: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_and_embedded_api_answer_alike() {
    if real_api::is_oldest() {
        println!(
            "SKIPPED: the oldest version says things in other words than the embedded API, which follows the newest"
        );
        return;
    }
    let Some(real) = real_api::client().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let namespace = runner::namespace(&real, "compare").await;
    let embedded = server.client("default");
    let mut body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    Api::new(embedded.clone(), namespace.clone()).post("/api/v1/namespaces", &body).await.unwrap();
    let differences = differences(&real, &embedded, &namespace).await;
    body = json!({});
    let _ = Api::new(real, namespace.clone()).delete(&format!("/api/v1/namespaces/{namespace}"), &body).await;
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

async fn differences(real: &Client, embedded: &Client, namespace: &str) -> Vec<String> {
    let pair = Pair {
        real: Api::new(real.clone(), namespace.to_owned()),
        embedded: Api::new(embedded.clone(), namespace.to_owned()),
    };
    let mut found = pair.manifests().await;
    found.extend(pair.builtins().await);
    found.extend(pair.probes(&format!("{namespace}.example.com")).await);
    found
}

/// The two servers.
struct Pair {
    real: Api,
    embedded: Api,
}

impl Pair {
    /// Says in what the answers to one request differ.
    async fn judge(&self, method: &str, path: &str, kind: &str, body: &Value, found: &mut Vec<String>) {
        let expected = answer(&self.real, method, path, kind, body).await;
        let actual = answer(&self.embedded, method, path, kind, body).await;
        if expected != actual {
            let shown: String = body.to_string().chars().take(300).collect();
            found.push(format!("{method} {path} {shown}\n{}", leaves(&expected, &actual)));
        }
    }

    /// The kinds of Modelway.
    async fn manifests(&self) -> Vec<String> {
        manifests::install(&self.real).await;
        manifests::install(&self.embedded).await;
        let bad = manifests::bad().into_iter().map(|(object, ..)| object);
        let mut found = Vec::new();
        for object in manifests::good().into_iter().chain(bad) {
            for query in ["?fieldValidation=Strict&dryRun=All", "?dryRun=All"] {
                let path = format!("{}{query}", manifests::path(&self.real, &object));
                self.judge("POST", &path, PLAIN, &object, &mut found).await;
            }
        }
        found
    }

    /// Built-in kinds: the same fields are wrong for the same reasons, in whatever words.
    async fn builtins(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (plural, object) in probes::builtins() {
            let path = format!("{}?dryRun=All", self.real.path("v1", plural));
            let (expected, actual) = (
                faults(answer(&self.real, "POST", &path, PLAIN, &object).await),
                faults(answer(&self.embedded, "POST", &path, PLAIN, &object).await),
            );
            if expected != actual {
                found.push(format!("{plural} {object}\n  real     {expected}\n  embedded {actual}"));
            }
        }
        found
    }

    /// A kind with everything that schemas can ask.
    async fn probes(&self, group: &str) -> Vec<String> {
        let definition = probes::definition(group);
        for api in [&self.real, &self.embedded] {
            manifests::establish(api, &definition).await;
        }
        let path = self.real.path(&format!("{group}/v1"), "probes");
        let probe = |name: &str, spec: &Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Probe", "metadata": {"name": name}, "spec": spec});
        let mut found = Vec::new();
        for spec in probes::specs() {
            self.judge("POST", &format!("{path}?dryRun=All"), PLAIN, &probe("a", &spec), &mut found).await;
        }
        for (number, (before, change)) in probes::changes().into_iter().enumerate() {
            let name = format!("changed-{number}");
            self.judge("POST", &path, PLAIN, &probe(&name, &before), &mut found).await;
            let change = json!({"spec": change});
            self.judge("PATCH", &format!("{path}/{name}"), MERGE, &change, &mut found).await;
        }
        let own = format!("{}/probes.{group}", manifests::DEFINITIONS);
        let _ = self.real.delete(&own, &json!({})).await;
        found
    }
}

fn faults(mut answer: Value) -> Value {
    let mut causes = answer["details"]["causes"].take();
    for cause in causes.as_array_mut().into_iter().flatten() {
        cause.as_object_mut().unwrap().remove("message");
    }
    json!([answer["code"], answer["reason"], causes])
}

/// The places at which two answers differ.
fn leaves(real: &Value, embedded: &Value) -> String {
    let (real, embedded) = (flat(real), flat(embedded));
    let places: BTreeSet<&String> = real.keys().chain(embedded.keys()).collect();
    let line = |place: &&String| {
        let (real, embedded) = (real.get(*place), embedded.get(*place));
        (real != embedded).then(|| format!("  {place}\n    real     {real:?}\n    embedded {embedded:?}\n"))
    };
    places.iter().filter_map(line).collect()
}

fn flat(value: &Value) -> BTreeMap<String, String> {
    fn walk(value: &Value, at: &str, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                map.iter().for_each(|(name, item)| walk(item, &format!("{at}/{name}"), found));
            }
            Value::Array(list) if !list.is_empty() => {
                list.iter().enumerate().for_each(|(index, item)| walk(item, &format!("{at}/{index}"), found));
            }
            leaf => drop(found.insert(at.to_owned(), leaf.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    walk(value, "", &mut found);
    found
}

/// What the server says, without what is of the moment.
async fn answer(api: &Api, method: &str, path: &str, kind: &str, body: &Value) -> Value {
    match api.send(method, path, &[("content-type", kind)], body.to_string()).await {
        Ok(mut made) => {
            let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
            for field in ["uid", "creationTimestamp", "resourceVersion"] {
                made["metadata"].as_object_mut().unwrap().remove(field);
            }
            if !made["apiVersion"].as_str().unwrap().contains('.') {
                // Stated limits: what built-in kinds set by themselves is in the entries or not; the workload
                // controllers protect claims.
                made["metadata"].as_object_mut().unwrap().remove("managedFields");
                made["metadata"].as_object_mut().unwrap().remove("finalizers");
                return serde_json::from_str(&made.to_string().replace(&uid, "UID")).unwrap();
            }
            for entry in made["metadata"]["managedFields"].as_array_mut().unwrap() {
                entry.as_object_mut().unwrap().remove("time");
            }
            serde_json::from_str(&made.to_string().replace(&uid, "UID")).unwrap()
        }
        Err(status) => {
            let mut status = serde_json::to_value(&*status).unwrap();
            // Fields of an object are visited in no order.
            if let Some(causes) = status["details"]["causes"].as_array_mut() {
                causes.sort_by_key(Value::to_string);
                status["message"] = "as the causes".into();
            }
            status
        }
    }
}
