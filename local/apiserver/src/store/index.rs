//! All objects in memory, ordered for lists, with the two look-ups that owner collection needs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::object::{Key, Object};

/// The newest revision of every object.
#[derive(Debug, Default)]
pub struct Index {
    objects: BTreeMap<Key, Arc<Object>>,
    by_uid: HashMap<String, Key>,
    dependents: HashMap<String, BTreeSet<Key>>,
}

impl Index {
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Objects of a resource in order of namespace and name.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let start = Key::new(resource, namespace.unwrap_or_default(), "");
        self.objects
            .range(start..)
            .take_while(|(key, _)| {
                *key.resource == *resource && namespace.is_none_or(|namespace| key.namespace == namespace)
            })
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Everything that lives in one namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.objects.values().filter(|object| object.key.namespace == namespace).cloned().collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    pub fn by_uid(&self, uid: &str) -> Option<&Arc<Object>> {
        self.objects.get(self.by_uid.get(uid)?)
    }

    /// Objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        let keys = self.dependents.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    pub fn put(&mut self, object: Arc<Object>) {
        self.remove(&object.key.clone());
        self.by_uid.insert(object.uid.clone(), object.key.clone());
        for owner in &object.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(object.key.clone());
        }
        self.objects.insert(object.key.clone(), object);
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(old) = self.objects.remove(key) else { return };
        self.by_uid.remove(&old.uid);
        for owner in &old.owners {
            if let Some(keys) = self.dependents.get_mut(&owner.uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn object(resource: &str, namespace: &str, name: &str, owner: Option<&str>) -> Arc<Object> {
        let mut value = json!({"metadata": {"name": name, "uid": format!("{namespace}/{name}")}});
        if let Some(owner) = owner {
            value["metadata"]["ownerReferences"] = json!([{"uid": owner}]);
        }
        let body = Bytes::from(value.to_string());
        Arc::new(Object::from_body(Key::new(resource, namespace, name), 1, body).unwrap())
    }

    #[test]
    fn lists_stop_at_the_resource_and_the_namespace() {
        let mut index = Index::default();
        for (resource, namespace, name) in [("pods", "a", "x"), ("pods", "b", "y"), ("podsets", "a", "z")] {
            index.put(object(resource, namespace, name, None));
        }
        assert_eq!(index.list("pods", None).len(), 2);
        assert_eq!(index.list("pods", Some("a")).len(), 1);
        assert_eq!(index.in_namespace("a").len(), 2);
    }

    #[test]
    fn dependents_follow_owner_changes() {
        let mut index = Index::default();
        index.put(object("pods", "a", "x", Some("owner")));
        assert_eq!(index.dependents("owner").len(), 1);
        index.put(object("pods", "a", "x", None));
        assert!(index.dependents("owner").is_empty());
    }
}
