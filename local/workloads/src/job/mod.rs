//! `batch/v1` Jobs: run pods until enough of them succeed.

mod conditions;
mod decide;
mod failure;
mod pod;
mod reconcile;
#[cfg(test)]
mod simulation;
mod tally;

pub(crate) use reconcile::JobReconciler;
