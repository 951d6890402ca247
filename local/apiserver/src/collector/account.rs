//! The account `default` of every namespace. Pods here need none, but manifests and tools expect it.

use serde_json::json;

use crate::Core;
use crate::meta;
use crate::query::{FieldValidation, WriteParameters};
use crate::store::{Key, Object};
use crate::write::{Part, Request, create::create};

const RESOURCE: &str = "serviceaccounts";
const NAME: &str = "default";

/// The namespace to look at when this object was written.
pub(super) fn missing_in(object: &Object) -> Option<&str> {
    let is_namespace = object.key.namespace.is_empty() && &*object.key.resource == "namespaces";
    is_namespace.then_some(&*object.key.name)
}

/// The namespace to look at when this object is gone.
pub(super) fn taken_from(object: &Object) -> Option<&str> {
    let is_account = &*object.key.resource == RESOURCE && &*object.key.name == NAME;
    is_account.then_some(&*object.key.namespace)
}

/// Creates the account where it is missing.
pub(super) async fn ensure(core: &Core, namespace: &str) -> Result<(), String> {
    let is_there = core.store.get(&Key::new(RESOURCE, namespace, NAME)).is_some();
    let lives = core.store.get(&Key::namespace(namespace)).is_some_and(|namespace| !namespace.terminating);
    if is_there || !lives {
        return Ok(());
    }
    let kind = core.kinds().find("", "v1", RESOURCE).cloned().ok_or("service accounts are not served")?;
    let parameters = WriteParameters {
        manager: "namespace-controller".to_owned(),
        manager_given: true,
        dry_run: false,
        force: false,
        field_validation: FieldValidation::Ignore,
    };
    let (namespace, now) = (namespace.to_owned(), meta::now());
    let request = Request { kind, namespace, part: Part::Main, parameters, now, duplicates: Vec::new() };
    match create(core, &request, json!({"metadata": {"name": NAME}})).await {
        Err(error) if error.reason != "AlreadyExists" => Err(error.to_string()),
        Ok(_) | Err(_) => Ok(()),
    }
}
