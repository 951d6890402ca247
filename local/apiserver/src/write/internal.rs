//! Changes the server makes on its own behalf: finalizers worked off, owner references dropped.

use serde_json::Value;

use super::ATTEMPTS;
use crate::store::{Change, Key, Write, WriteError};
use crate::{Core, meta};

/// Edits an object until no other write came between. One that is gone is fine; an edit that changes nothing, too.
pub async fn edit(core: &Core, key: &Key, change: impl Fn(&mut Value)) -> Result<(), WriteError> {
    for _ in 0..ATTEMPTS {
        let Some(current) = core.store.get(key) else { return Ok(()) };
        let old = current.value();
        let mut new = old.clone();
        change(&mut new);
        if new == old {
            return Ok(());
        }
        let change = if meta::is_released(&new) { Change::Delete(new) } else { Change::Put(new) };
        let write = Write { key: key.clone(), expected: Some(current.revision), change, within: None };
        match core.store.write(write).await {
            Ok(object) => {
                core.after_write(&object);
                return Ok(());
            }
            Err(WriteError::Stale) => {}
            Err(WriteError::Missing) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Err(WriteError::Stale)
}

/// Removes one finalizer; the object goes when it was the last thing that kept it.
pub async fn remove_finalizer(core: &Core, key: &Key, name: &str) -> Result<(), WriteError> {
    edit(core, key, |value| {
        let mut finalizers = meta::finalizers(value);
        finalizers.retain(|one| one != name);
        meta::set_finalizers(value, &finalizers);
    })
    .await
}

/// Drops owner references by uid.
pub async fn remove_owners(core: &Core, key: &Key, uids: &[String]) -> Result<(), WriteError> {
    edit(core, key, |value| {
        let Some(owners) = value["metadata"]["ownerReferences"].as_array() else { return };
        let named = |owner: &&Value| uids.iter().any(|uid| owner["uid"] == uid.as_str());
        let kept: Vec<Value> = owners.iter().filter(|owner| !named(owner)).cloned().collect();
        meta::set(value, "ownerReferences", (!kept.is_empty()).then(|| kept.into()));
    })
    .await
}
