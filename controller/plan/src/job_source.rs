//! Which kinds are training jobs, when they have succeeded or failed, and which pod is the chief. Kinds are data.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::{
    json as read,
    world::{Kind, World},
};

/// A kind of training job.
#[derive(Clone, Debug)]
pub struct JobSource {
    /// Where its objects are in the world.
    pub kind: Kind,
    /// Holds once the job has succeeded.
    pub success: Rule,
    /// Holds once the job has failed for good.
    pub failure: Rule,
    /// Which of the job's pods reports for it.
    pub chief: Chief,
    /// JSON pointer to the pod template.
    pub template: &'static str,
}

/// A test of a job object.
#[derive(Clone, Debug)]
pub enum Rule {
    /// The condition of that type is `True`.
    Condition(&'static str),
    /// The value at a JSON pointer is that text.
    Equals(&'static str, &'static str),
    /// All parts hold.
    All(Vec<Rule>),
    /// Any part holds.
    Any(Vec<Rule>),
}

impl Rule {
    /// Whether the rule holds for the job.
    pub fn holds(&self, job: &Value) -> bool {
        match self {
            Self::Condition(type_) => read::condition_holds(job, type_),
            Self::Equals(pointer, value) => read::text(job, pointer) == *value,
            Self::All(rules) => rules.iter().all(|rule| rule.holds(job)),
            Self::Any(rules) => rules.iter().any(|rule| rule.holds(job)),
        }
    }
}

/// How the chief is found among the pods that the job controls.
#[derive(Clone, Debug)]
pub enum Chief {
    /// The succeeded pod with the lowest completion index, then the oldest.
    FirstSucceeded,
    /// The pod with that label.
    Label(&'static str, &'static str),
}

/// How a job stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    Running,
    Succeeded { at: Option<Timestamp> },
    Failed { message: String },
}

/// The built-in rows.
pub fn built_in() -> Vec<JobSource> {
    vec![JobSource {
        kind: Kind::Job,
        success: Rule::Condition("Complete"),
        failure: Rule::Condition("Failed"),
        chief: Chief::FirstSucceeded,
        template: "/spec/template",
    }]
}

impl JobSource {
    /// How the job stands by this row's rules; failure wins.
    pub fn outcome(&self, job: &Value) -> Outcome {
        if self.failure.holds(job) {
            let message = read::condition(job, "Failed").map_or("", |condition| read::text(condition, "/message"));
            return Outcome::Failed { message: message.to_owned() };
        }
        if self.success.holds(job) {
            let end = read::time(job, "/status/completionTime");
            return Outcome::Succeeded { at: end.or_else(|| condition_time(job, "Complete")) };
        }
        Outcome::Running
    }

    /// The chief pod.
    pub fn chief_pod<'a>(&self, world: &'a World, job: &'a Value) -> Option<&'a Value> {
        let namespace = read::text(job, "/metadata/namespace");
        let pods = world.list(Kind::Pod, namespace).filter(|pod| read::is_controlled_by(pod, read::uid(job)));
        match self.chief {
            Chief::FirstSucceeded => pods.min_by_key(|pod| {
                let index = read::annotation(pod, "batch.kubernetes.io/job-completion-index");
                let index = index.and_then(|index| index.parse::<u32>().ok()).unwrap_or(0);
                let has_failed = read::text(pod, "/status/phase") != "Succeeded";
                (has_failed, index, read::text(pod, "/metadata/creationTimestamp").to_owned())
            }),
            Chief::Label(key, value) => pods.into_iter().find(|pod| read::label(pod, key) == Some(value)),
        }
    }

    /// Whether the job is part of another training job, which then publishes for both.
    pub fn is_child(job: &Value, sources: &[Self]) -> bool {
        read::items(job, "/metadata/ownerReferences").filter(|owner| owner["controller"] == true).any(|owner| {
            sources
                .iter()
                .any(|source| owner["kind"] == source.kind.as_str() && owner["apiVersion"] == source.kind.api_version())
        })
    }
}

fn condition_time(job: &Value, type_: &str) -> Option<Timestamp> {
    read::condition(job, type_).and_then(|condition| read::time(condition, "/lastTransitionTime"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failure_wins_over_success() {
        let job = json!({"status": {"conditions": [
            {"type": "Complete", "status": "True"}, {"type": "Failed", "status": "True", "message": "no"}]}});
        assert_eq!(built_in()[0].outcome(&job), Outcome::Failed { message: "no".to_owned() });
        assert_eq!(built_in()[0].outcome(&json!({})), Outcome::Running);
    }

    #[test]
    fn rules_compose() {
        let rule = Rule::All(vec![
            Rule::Equals("/status/jobStatus", "SUCCEEDED"),
            Rule::Any(vec![Rule::Condition("A"), Rule::Equals("/status/phase", "Complete")]),
        ]);
        assert!(rule.holds(&json!({"status": {"jobStatus": "SUCCEEDED", "phase": "Complete"}})));
        assert!(!rule.holds(&json!({"status": {"jobStatus": "SUCCEEDED"}})));
    }
}
