//! `apps/v1` Deployments: move pods from one template to the next without losing availability.

mod decide;
mod intent;
mod reconcile;
mod rolling;
mod scale;
mod sets;
#[cfg(test)]
mod simulation;
mod status;

pub(crate) use reconcile::DeploymentReconciler;
