//! Events on transitions: equal ones are counted, not repeated.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use modelway_plan::{Event, json as read};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock;

/// An equal event within that time is the same transition seen twice, through a cache that lags.
const QUIET: Duration = Duration::from_secs(5);
/// Most transitions remembered for that.
const MAX_RECENT: usize = 1_024;

/// Writes events.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    recent: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Recorder {
    /// A recorder over that client.
    pub fn new(client: Client) -> Self {
        Self { client, recent: Arc::default() }
    }

    /// Writes one event, or counts it when it is there.
    pub async fn record(&self, event: &Event) -> kube::Result<()> {
        let name = name(event);
        if !self.is_new(&name) {
            return Ok(());
        }
        let namespace = read::text(&event.regarding, "/metadata/namespace");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource());
        let now = clock::now();
        let object = serde_json::from_value(manifest(event, &name, now)).map_err(kube::Error::SerdeError)?;
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 409 => count(&api, &name, now).await,
            answer => answer.map(|_| ()),
        }
    }

    fn is_new(&self, name: &str) -> bool {
        let mut recent = self.recent.lock();
        let now = Instant::now();
        if recent.len() >= MAX_RECENT {
            recent.retain(|_, at| now.duration_since(*at) < QUIET);
        }
        if recent.len() >= MAX_RECENT {
            recent.clear();
        }
        recent.insert(name.to_owned(), now).is_none_or(|before| now.duration_since(before) >= QUIET)
    }
}

async fn count(api: &Api<DynamicObject>, name: &str, now: Timestamp) -> kube::Result<()> {
    let live = api.get(name).await?;
    let count = read::number(&live.data, "/count").max(1) + 1;
    let patch = json!({ "count": count, "lastTimestamp": whole(now) });
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
}

/// Equal transitions of one object have equal names.
fn name(event: &Event) -> String {
    let object = &event.regarding;
    let hash = read::hash(&json!([read::uid(object), event.reason.as_str(), event.message]));
    format!("{}.{hash}", modelway_api::names::bounded(read::name(object), 200))
}

fn manifest(event: &Event, name: &str, now: Timestamp) -> Value {
    let object = &event.regarding;
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": object["metadata"]["namespace"] },
        "involvedObject": {
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"],
            "uid": object["metadata"]["uid"],
        },
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason.as_str(),
        "message": event.message,
        "count": 1,
        "firstTimestamp": whole(now),
        "lastTimestamp": whole(now),
        "source": { "component": "modelway-controller" },
        "reportingComponent": "modelway-controller",
        "reportingInstance": "modelway-controller",
    })
}

fn whole(now: Timestamp) -> String {
    modelway_api::conditions::whole_second(now).to_string()
}

fn resource() -> ApiResource {
    ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Event".to_owned(),
        plural: "events".to_owned(),
    }
}
