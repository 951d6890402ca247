//! Taking in objects that belong to nobody, and letting go of one's own.

use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::call::CallError;
use crate::hub::{Hub, Watched};
use crate::key::Key;
use crate::pods;

/// Makes `owner` the controller of `object`, unless somebody changed it meanwhile.
pub(crate) async fn adopt<K: Watched, O: Resource<DynamicType = ()>>(
    hub: &Hub,
    object: &K,
    owner: &O,
) -> Result<(), CallError> {
    let mut owners = object.owner_references().to_vec();
    owners.push(pods::owner_reference(owner));
    write(hub, object, &owners).await
}

/// Takes the owner with this uid off `object`.
pub(crate) async fn release<K: Watched>(hub: &Hub, object: &K, owner_uid: &str) -> Result<(), CallError> {
    let mut owners = object.owner_references().to_vec();
    owners.retain(|owner| owner.uid != owner_uid);
    write(hub, object, &owners).await
}

async fn write<K: Watched>(
    hub: &Hub,
    object: &K,
    owners: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference],
) -> Result<(), CallError> {
    let patch = json!({"metadata": {"ownerReferences": owners, "resourceVersion": object.resource_version()}});
    hub.patch::<K>(&Key::of(object), &object.uid().unwrap_or_default(), &patch).await
}
