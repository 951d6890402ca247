//! `PersistentVolumeClaims`: each is a folder of the data directory, bound at once and removed when nobody uses it.

mod decide;
mod reconcile;

pub(crate) use decide::claims_of;
pub(crate) use reconcile::ClaimReconciler;
