//! `PodDisruptionBudget`s: how many pods may be disturbed now. The API server refuses evictions by the same rules.

mod decide;
mod reconcile;

pub(crate) use decide::selects;
pub(crate) use reconcile::BudgetReconciler;
