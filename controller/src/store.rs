//! What the informers have seen, and which keys a change wakes.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use modelway_plan::{Key, Kind, World, replicas::Load, world::Rejection};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::{kinds, queue::Queue};

/// The shared worlds, one a namespace, and the queue that their changes feed.
///
/// A planner takes the world of a namespace as it is; a change that comes while somebody holds it copies it first.
#[derive(Clone, Debug, Default)]
pub struct Store {
    worlds: Arc<Mutex<BTreeMap<String, Arc<World>>>>,
    pub queue: Arc<Queue<Key>>,
    /// Told of every change of an object.
    changed: watch::Sender<()>,
}

impl Store {
    /// A planner's view of one namespace. To be dropped before anything is waited for.
    pub fn namespace(&self, namespace: &str) -> Arc<World> {
        self.worlds.lock().get(namespace).cloned().unwrap_or_default()
    }

    /// Names of the namespaces that anything is known of.
    pub fn namespaces(&self) -> Vec<String> {
        self.worlds.lock().keys().cloned().collect()
    }

    /// Told of every change of an object.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Takes in what the routers of an Inference tell, and wakes it.
    pub fn set_load(&self, inference: &Key, load: Option<Load>) {
        let mut worlds = self.worlds.lock();
        let Some(world) = worlds.get_mut(place(inference)) else { return };
        if world.load(&inference.namespace, &inference.name) == load.as_ref() {
            return;
        }
        Arc::make_mut(world).set_load(inference.clone(), load);
        drop(worlds);
        self.queue.add(inference.clone());
    }

    /// Takes a new or changed object in. One that is known in that version wakes nobody.
    pub fn put(&self, object: Value) {
        let Some(key) = Key::of(&object) else { return };
        let mut worlds = self.worlds.lock();
        let world = worlds.entry(place(&key).to_owned()).or_default();
        let old = world.object(&key);
        if old.is_some_and(|old| is_same_version(old, &object)) {
            return;
        }
        let mut woken = old.map(|old| kinds::woken_by(world, old)).unwrap_or_default();
        Arc::make_mut(world).insert(object);
        woken.extend(world.object(&key).map(|new| kinds::woken_by(world, new)).unwrap_or_default());
        drop(worlds);
        self.changed.send_replace(());
        self.wake(woken);
    }

    /// Takes an object out.
    pub fn remove(&self, key: &Key) {
        let mut worlds = self.worlds.lock();
        let Some(world) = worlds.get_mut(place(key)) else { return };
        let woken = world.object(key).map(|old| kinds::woken_by(world, old)).unwrap_or_default();
        let world = Arc::make_mut(world);
        world.remove(key);
        world.accept(key);
        world.set_load(key.clone(), None);
        if world.is_empty() {
            worlds.remove(place(key));
        }
        drop(worlds);
        self.changed.send_replace(());
        self.wake(woken);
    }

    /// Takes out what a complete list of a namespace, or of all, no longer has.
    pub fn retain(&self, kind: Kind, namespace: Option<&str>, listed: &HashSet<Key>) {
        let worlds = self.worlds.lock();
        let is_listed = |name: &str| namespace.is_none_or(|namespace| namespace == name);
        let known = worlds.iter().filter(|(name, _)| is_listed(name)).flat_map(|(_, world)| world.keys(kind));
        let gone: Vec<Key> = known.filter(|key| !listed.contains(*key)).cloned().collect();
        drop(worlds);
        for key in gone {
            self.remove(&key);
        }
    }

    /// Remembers that the API server refused a manifest. Returns whether the same one was refused before.
    pub fn reject(&self, key: Key, rejection: Rejection) -> bool {
        let mut worlds = self.worlds.lock();
        let world = worlds.entry(place(&key).to_owned()).or_default();
        let is_again = world.rejection(&key).is_some_and(|before| before.applied == rejection.applied);
        Arc::make_mut(world).reject(key, rejection);
        is_again
    }

    /// Forgets a refusal.
    pub fn accept(&self, key: &Key) {
        let mut worlds = self.worlds.lock();
        let refused = worlds.get_mut(place(key)).filter(|world| world.rejection(key).is_some());
        if let Some(world) = refused {
            Arc::make_mut(world).accept(key);
        }
    }

    /// Wakes every key that has a planner.
    pub fn wake_all(&self) {
        let worlds = self.worlds.lock();
        let keys = worlds.values().flat_map(|world| kinds::planned(world)).collect();
        drop(worlds);
        self.wake(keys);
    }

    fn wake(&self, keys: HashSet<Key>) {
        for key in keys {
            self.queue.add(key);
        }
    }
}

/// The world that an object is in: a namespace is part of its own.
fn place(key: &Key) -> &str {
    if key.kind == Kind::Namespace { &key.name } else { &key.namespace }
}

fn is_same_version(old: &Value, new: &Value) -> bool {
    let version = &new["metadata"]["resourceVersion"];
    !version.is_null()
        && old["metadata"]["resourceVersion"] == *version
        && old["metadata"]["uid"] == new["metadata"]["uid"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model(namespace: &str, version: &str) -> Value {
        json!({"apiVersion": "model.kubedl.io/v1alpha1", "kind": "Model",
            "metadata": {"name": "m", "namespace": namespace, "uid": "u", "resourceVersion": version}})
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_wakes_nobody() {
        let store = Store::default();
        store.put(model("a", "1"));
        let key = store.queue.next().await;
        store.queue.done(&key);
        store.put(model("a", "1"));
        assert_eq!(store.queue.due(), 0);
        store.put(model("a", "2"));
        assert_eq!(store.queue.due(), 1);
    }

    #[tokio::test]
    async fn a_list_of_one_namespace_says_nothing_about_others() {
        let store = Store::default();
        store.put(model("a", "1"));
        store.put(model("b", "1"));
        store.retain(Kind::Model, Some("a"), &HashSet::new());
        assert!(store.namespace("a").is_empty());
        assert_eq!(store.namespace("b").len(), 1);
        store.retain(Kind::Model, None, &HashSet::new());
        assert!(store.namespace("b").is_empty());
    }

    #[tokio::test]
    async fn a_namespace_is_part_of_its_own_world() {
        let store = Store::default();
        store.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}));
        assert!(store.namespace("a").get(Kind::Namespace, "", "a").is_some());
    }
}
