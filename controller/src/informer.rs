//! One watch a kind into the store. A kind that the server does not serve is looked for again, slowly.

use std::{collections::HashSet, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use modelway_plan::{Key, Kind};
use serde_json::Value;
use tokio::sync::watch;

use crate::store::Store;

/// Wait after a failed list or watch; doubled up to the bound.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// The type of a kind for the dynamic API.
pub fn resource(kind: Kind) -> ApiResource {
    let (group, version, name, plural) = kind.names();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: kind.api_version(),
        kind: name.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Watches a kind for ever. `synced` becomes true once the first list is in, or the kind is known to be unserved.
pub async fn run(client: Client, namespace: Option<String>, kind: Kind, store: Store, synced: watch::Sender<bool>) {
    let resource = resource(kind);
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) if kind != Kind::Namespace => Api::namespaced_with(client, &namespace, &resource),
        _ => Api::all_with(client, &resource),
    };
    let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
    let mut listed = HashSet::new();
    let mut wait = RETRY_FIRST;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let is_complete = matches!(event, watcher::Event::InitDone);
                take(&store, kind, event, &mut listed);
                if is_complete {
                    wait = RETRY_FIRST;
                    synced.send_replace(true);
                }
            }
            Err(error) => {
                if is_unserved(&error) {
                    store.retain(kind, &HashSet::new());
                    synced.send_replace(true);
                }
                tracing::debug!(kind = kind.as_str(), %error, "watch failed, trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
    }
}

fn take(store: &Store, kind: Kind, event: watcher::Event<DynamicObject>, listed: &mut HashSet<Key>) {
    match event {
        watcher::Event::Init => listed.clear(),
        watcher::Event::InitApply(object) => {
            let object = value(kind, object);
            listed.extend(Key::of(&object));
            store.put(object);
        }
        watcher::Event::InitDone => store.retain(kind, &std::mem::take(listed)),
        watcher::Event::Apply(object) => store.put(value(kind, object)),
        watcher::Event::Delete(object) => {
            if let Some(key) = Key::of(&value(kind, object)) {
                store.remove(&key);
            }
        }
    }
}

/// The object as planners see it: with its kind, without what they never read.
fn value(kind: Kind, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    if kind == Kind::Secret {
        // Only that it is there matters; its content stays out of memory.
        object.data = Value::Object(serde_json::Map::new());
    }
    let mut value = serde_json::to_value(object).expect("an object from JSON is plain data");
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.as_str().into();
    value
}

fn is_unserved(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(source)
    | watcher::Error::WatchStartFailed(source)
    | watcher::Error::WatchFailed(source)) = error
    else {
        return false;
    };
    matches!(source, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}
