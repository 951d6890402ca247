//! `apps/v1` `ReplicaSets`: keep a number of equal pods running.

mod decide;
mod rank;
mod reconcile;

pub(crate) use reconcile::ReplicaSetReconciler;
