//! The objects of one kind as last seen, from the watch and from the answers to our own writes.
//!
//! Answers to writes go in at once, so a controller always reads its own writes: it never creates a pod twice because
//! the watch is late. A uid that was seen deleted never comes back, whatever order answers and events arrive in.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

use crate::key::Key;

/// Deleted uids remembered; far more than writes that can be in flight at once.
const TOMBSTONES: usize = 4096;

/// One object before and after.
pub(crate) struct Change<K> {
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object's latest known form.
    pub(crate) fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

pub(crate) struct Cache<K> {
    inner: Mutex<Inner<K>>,
}

struct Inner<K> {
    objects: HashMap<Key, Arc<K>>,
    gone: HashSet<String>,
    gone_order: VecDeque<String>,
    listing: Option<Listing<K>>,
    ready: bool,
}

struct Listing<K> {
    objects: HashMap<Key, Arc<K>>,
    /// Keys whose write was answered while the list ran: the list may be older than they are.
    written: HashSet<Key>,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        let inner = Inner {
            objects: HashMap::new(),
            gone: HashSet::new(),
            gone_order: VecDeque::new(),
            listing: None,
            ready: false,
        };
        Self { inner: Mutex::new(inner) }
    }
}

impl<K: Resource + Clone> Cache<K> {
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.inner.lock().objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.inner.lock().objects.values().cloned().collect()
    }

    /// Objects of a namespace, in no order.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.inner.lock().objects.iter().filter(|(key, _)| key.namespace == namespace).map(|(_, o)| o.clone()).collect()
    }

    /// The first list has been read.
    pub(crate) fn is_ready(&self) -> bool {
        self.inner.lock().ready
    }

    /// Takes in the answer to a write of our own.
    pub(crate) fn observe(&self, object: K) -> Option<Change<K>> {
        let mut inner = self.inner.lock();
        let key = Key::of(&object);
        if let Some(listing) = &mut inner.listing {
            listing.written.insert(key);
        }
        inner.put(object)
    }

    /// Takes in that an object is gone.
    pub(crate) fn forget(&self, key: &Key, uid: &str) -> Option<Change<K>> {
        self.inner.lock().bury(key, uid)
    }

    /// Takes in one watch event and says what changed.
    pub(crate) fn apply(&self, event: Event<K>) -> Vec<Change<K>> {
        let mut inner = self.inner.lock();
        match event {
            Event::Apply(object) => inner.put(object).into_iter().collect(),
            Event::Delete(object) => {
                let uid = object.uid().unwrap_or_default();
                inner.bury(&Key::of(&object), &uid).into_iter().collect()
            }
            Event::Init => {
                inner.listing = Some(Listing { objects: HashMap::new(), written: HashSet::new() });
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(listing) = &mut inner.listing {
                    listing.objects.insert(Key::of(&object), Arc::new(object));
                }
                Vec::new()
            }
            Event::InitDone => inner.finish_listing(),
        }
    }
}

impl<K: Resource + Clone> Inner<K> {
    fn put(&mut self, object: K) -> Option<Change<K>> {
        let key = Key::of(&object);
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        if let Some(known) = self.objects.get(&key)
            && !is_newer(&object, known.as_ref())
        {
            return None;
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key, new.clone());
        Some(Change { old, new: Some(new) })
    }

    fn bury(&mut self, key: &Key, uid: &str) -> Option<Change<K>> {
        if self.gone.insert(uid.to_owned()) {
            self.gone_order.push_back(uid.to_owned());
            if self.gone_order.len() > TOMBSTONES
                && let Some(oldest) = self.gone_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
        let known = self.objects.get(key)?;
        if known.meta().uid.as_deref() != Some(uid) {
            return None;
        }
        let old = self.objects.remove(key);
        Some(Change { old, new: None })
    }

    fn finish_listing(&mut self) -> Vec<Change<K>> {
        self.ready = true;
        let Some(listing) = self.listing.take() else { return Vec::new() };
        let vanished: Vec<(Key, String)> = self
            .objects
            .iter()
            .filter(|(key, _)| !listing.objects.contains_key(*key) && !listing.written.contains(*key))
            .map(|(key, object)| (key.clone(), object.meta().uid.clone().unwrap_or_default()))
            .collect();
        let mut changes: Vec<Change<K>> = vanished.iter().filter_map(|(key, uid)| self.bury(key, uid)).collect();
        changes.extend(listing.objects.into_values().filter_map(|object| self.put(K::clone(&object))));
        changes
    }
}

fn is_newer<K: Resource>(candidate: &K, known: &K) -> bool {
    match (version(candidate), version(known)) {
        (Some(candidate), Some(known)) => candidate > known,
        _ => true,
    }
}

fn version<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("default".into());
        object.metadata.name = Some(name.into());
        object.metadata.uid = Some(uid.into());
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    #[test]
    fn ignores_what_it_already_knows_and_what_is_older() {
        let cache = Cache::default();
        assert!(cache.observe(object("a", "1", 5)).is_some());
        assert!(cache.apply(Event::Apply(object("a", "1", 5))).is_empty());
        assert!(cache.apply(Event::Apply(object("a", "1", 4))).is_empty());
        assert_eq!(cache.apply(Event::Apply(object("a", "1", 6))).len(), 1);
    }

    #[test]
    fn never_revives_a_deleted_uid() {
        let cache = Cache::default();
        cache.observe(object("a", "1", 5));
        assert_eq!(cache.apply(Event::Delete(object("a", "1", 7))).len(), 1);
        assert!(cache.observe(object("a", "1", 6)).is_none());
        assert!(cache.get(&key("a")).is_none());
        assert!(cache.observe(object("a", "2", 8)).is_some());
        assert!(cache.apply(Event::Delete(object("a", "1", 7))).is_empty(), "a late event is not about the new object");
        assert!(cache.get(&key("a")).is_some());
    }

    #[test]
    fn keeps_writes_that_a_running_list_cannot_know() {
        let cache = Cache::default();
        cache.observe(object("old", "1", 1));
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(object("listed", "2", 2)));
        cache.observe(object("written", "3", 3));
        assert_eq!(cache.apply(Event::InitDone).len(), 2, "one gone, one new");
        assert!(cache.get(&key("old")).is_none());
        assert!(cache.get(&key("listed")).is_some());
        assert!(cache.get(&key("written")).is_some());
        assert!(cache.is_ready());
    }
}
