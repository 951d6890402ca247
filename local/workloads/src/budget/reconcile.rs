//! Keeps the status of budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;

use super::decide::{decide, selects};
use crate::call::CallError;
use crate::hub::Hub;
use crate::key::Key;
use crate::pods;
use crate::queue::Queue;
use crate::worker::{Next, Reconcile};

/// The budget controller.
pub(crate) struct BudgetReconciler {
    pub(crate) hub: Arc<Hub>,
}

impl Reconcile for BudgetReconciler {
    const NAME: &'static str = "budget";

    fn queue(&self) -> &Queue {
        &self.hub.queues.budgets
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let Some(budget) = self.hub.caches.budgets.get(key) else { return Ok(Next::Never) };
        let all = self.hub.caches.pods.in_namespace(&key.namespace);
        let pods: Vec<&Pod> = all.iter().map(AsRef::as_ref).filter(|pod| selects(&budget, pod)).collect();
        if let Some(status) = decide(&budget, &pods, self.expected(key, &pods), Timestamp::now()) {
            let mut written = PodDisruptionBudget::clone(&budget);
            written.status = Some(status);
            self.hub.replace_status(&written).await?;
        }
        Ok(Next::Event)
    }
}

impl BudgetReconciler {
    /// What the pods' sets ask for, and one for each pod without.
    fn expected(&self, key: &Key, pods: &[&Pod]) -> i32 {
        let mut wanted: BTreeMap<String, i32> = BTreeMap::new();
        for pod in pods {
            let owner = pods::controller(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet");
            let set = owner.and_then(|owner| self.hub.caches.replica_sets.get(&Key::new(&key.namespace, &owner.name)));
            match set {
                Some(set) => {
                    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                    wanted.insert(Key::of(set.as_ref()).name, replicas);
                }
                None => *wanted.entry(String::new()).or_default() += 1,
            }
        }
        wanted.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}
