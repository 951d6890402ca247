//! How a pod as a whole ends.

use k8s_openapi::jiff::Timestamp;

use super::record::{PodRecord, Reason};
use super::rules::{PodRules, RestartPolicy, Role};

/// The final phase of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed {
        why: Option<Reason>,
        /// Ended from outside: not the workload's fault, so that a Job does not count it.
        disrupted: bool,
    },
}

/// The outcome that `record` has reached at `now`, if it has.
pub fn decide(rules: &PodRules, record: &PodRecord, now: Timestamp) -> Option<Outcome> {
    if let Some(deadline) = rules.deadline.filter(|deadline| now >= record.since + *deadline) {
        let message =
            format!("Pod was active on the node longer than the specified deadline of {} s", deadline.as_secs());
        return Some(Outcome::Failed { why: Some(Reason::new("DeadlineExceeded", message)), disrupted: false });
    }
    let of_role =
        |role: Role| rules.containers.iter().zip(&record.containers).filter(move |(rules, _)| rules.role == role);
    if of_role(Role::Init).any(|(_, record)| record.done && !record.succeeded()) {
        return Some(Outcome::Failed { why: None, disrupted: false });
    }
    if rules.restart == RestartPolicy::Always || !of_role(Role::Main).all(|(_, record)| record.done) {
        return None;
    }
    let failed = of_role(Role::Main).any(|(_, record)| !record.succeeded());
    Some(if failed { Outcome::Failed { why: None, disrupted: false } } else { Outcome::Succeeded })
}
