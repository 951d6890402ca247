//! What the informers have seen, and which keys a change wakes.

use std::{collections::HashSet, sync::Arc};

use modelway_plan::{Key, Kind, World, world::Rejection};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{kinds, queue::Queue};

/// The shared world and the queue that its changes feed.
#[derive(Clone, Debug, Default)]
pub struct Store {
    world: Arc<Mutex<World>>,
    pub queue: Arc<Queue<Key>>,
}

impl Store {
    /// A planner's view of one namespace.
    pub fn namespace(&self, namespace: &str) -> World {
        self.world.lock().namespace(namespace)
    }

    /// Takes a new or changed object in.
    pub fn put(&self, object: Value) {
        let Some(key) = Key::of(&object) else { return };
        let mut world = self.world.lock();
        let mut woken = world.object(&key).map(|old| kinds::woken_by(&world, old)).unwrap_or_default();
        world.insert(object);
        woken.extend(world.object(&key).map(|new| kinds::woken_by(&world, new)).unwrap_or_default());
        drop(world);
        self.wake(woken);
    }

    /// Takes an object out.
    pub fn remove(&self, key: &Key) {
        let mut world = self.world.lock();
        let woken = world.object(key).map(|old| kinds::woken_by(&world, old)).unwrap_or_default();
        world.remove(key);
        world.accept(key);
        drop(world);
        self.wake(woken);
    }

    /// Takes out what a complete list no longer has.
    pub fn retain(&self, kind: Kind, listed: &HashSet<Key>) {
        let gone: Vec<Key> = self.world.lock().keys(kind).filter(|key| !listed.contains(*key)).cloned().collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// Remembers that the API server refused a manifest.
    pub fn reject(&self, key: Key, rejection: Rejection) {
        self.world.lock().reject(key, rejection);
    }

    /// Forgets a refusal.
    pub fn accept(&self, key: &Key) {
        self.world.lock().accept(key);
    }

    fn wake(&self, keys: HashSet<Key>) {
        for key in keys {
            self.queue.add(key);
        }
    }
}
