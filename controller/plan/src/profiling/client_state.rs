//! How the client of a trial is, by its Job, the pods of that, and what it reported.

use modelway_api::{Reason, labels, trial::TrialFailure};
use serde_json::Value;

use super::{
    ended::{Ended, Trouble},
    result::{self, ClientReason, Told},
};
use crate::{build, context::Context, json as read, world::Kind};

/// Results that come another way than the Job may be seen a little later than its end.
const RESULT_LATE: std::time::Duration = std::time::Duration::from_secs(10);

/// How a client is.
#[derive(Clone, Debug, PartialEq)]
pub enum Client {
    /// At work.
    Running(Option<Trouble>),
    /// It has ended, and its word may still come within that time.
    Late(std::time::Duration),
    /// It told.
    Told(Told),
    /// It ended without a word.
    Ended(Ended),
}

/// How the client is. `reported` is what it told by another way than its termination message.
pub fn observe(cx: &Context, job: &Value, reported: Option<&str>) -> Client {
    let (complete, failed) = (read::condition_holds(job, "Complete"), read::condition_holds(job, "Failed"));
    if !complete && !failed {
        return Client::Running(
            build::obstacle(cx, job).and_then(|problem| Some(Trouble::of(problem.reason?, problem.message))),
        );
    }
    let messages = messages(cx, job);
    let told = reported.and_then(result::read).or_else(|| messages.iter().find_map(|message| result::read(message)));
    if let Some(told) = told.filter(|told| complete || told.failure.is_some()) {
        return Client::Told(told);
    }
    if failed {
        return Client::Ended(failure(job, &messages));
    }
    let left = read::time(job, "/status/completionTime").and_then(|ended| cx.left(ended, RESULT_LATE));
    left.map_or_else(|| Client::Ended(silence(job)), Client::Late)
}

fn silence(job: &Value) -> Ended {
    let message = format!(
        "Job {} ended and reported nothing: it has to call SaveResult of morphling-db-manager, or leave \
         {{\"metrics\": {{...}}}} as its termination message",
        read::name(job)
    );
    Ended::new(TrialFailure::ObjectiveUnmet, Reason::ResultMissing, message)
}

fn failure(job: &Value, messages: &[&str]) -> Ended {
    let condition = read::condition(job, "Failed").unwrap_or(&Value::Null);
    let said = messages.iter().map(|message| message.trim()).find(|message| !message.is_empty());
    let words = said.unwrap_or_else(|| read::text(condition, "/message"));
    let name = read::name(job);
    if condition["reason"] == "DeadlineExceeded" {
        let seconds = read::number(job, "/spec/activeDeadlineSeconds");
        let message = format!("Job {name} did not end within its {seconds} s: {words}");
        return Ended::new(TrialFailure::ObjectiveUnmet, Reason::DeadlineExceeded, message);
    }
    let message = format!("Job {name} failed: {words}");
    Ended::new(TrialFailure::ObjectiveUnmet, Reason::ClientFailed, message)
}

/// What its pods left, the last first.
fn messages<'a>(cx: &Context<'a>, job: &'a Value) -> Vec<&'a str> {
    let pods = cx.world.list(Kind::Pod, read::text(job, "/metadata/namespace"));
    let mut own: Vec<&Value> = pods.filter(|pod| read::is_controlled_by(pod, read::uid(job))).collect();
    own.sort_by_key(|pod| std::cmp::Reverse(read::text(pod, "/metadata/creationTimestamp")));
    let statuses = own.into_iter().flat_map(|pod| read::items(pod, "/status/containerStatuses"));
    statuses.filter_map(|status| status.pointer("/state/terminated/message")?.as_str()).collect()
}

/// Whether anything of the trial is left in the namespace.
pub fn leftover_pods<'a>(cx: &Context<'a>, trial: &'a Value) -> impl Iterator<Item = &'a Value> {
    let pods = cx.world.list(Kind::Pod, read::text(trial, "/metadata/namespace"));
    pods.filter(|pod| read::label(pod, labels::TRIAL_NAME) == Some(read::name(trial)))
}

/// The failure that a load generator's word stands for.
pub fn ended(told: &Told) -> Option<Ended> {
    let (failure, reason) = told.failure?;
    let reason = match reason {
        ClientReason::ObjectiveUnmet => Reason::ObjectiveUnmet,
        ClientReason::ServiceSilent => Reason::ServiceSilent,
        ClientReason::ClientFailed => Reason::ClientFailed,
    };
    Some(Ended::new(failure, reason, told.message.clone()))
}
