//! The chain below an experiment or a trial: what it waits for, which trials failed and why, and what to do next.

use modelway_api::{
    Reason, names,
    profiling_conditions::{FAILED, KILLED, SUCCEEDED},
    profiling_experiment::ProfilingExperiment,
    trial::{Trial, TrialFailure, TrialOutcome, TrialState},
};
use serde_json::Value;

use super::{Known, Link, State};
use crate::{
    json as read,
    profiling::attempts,
    world::{Key, Kind},
};

/// Failed trials that are shown of an experiment, the newest.
const FAILED_SHOWN: usize = 5;
/// Running trials that are shown.
const OPEN_SHOWN: usize = 10;

impl<'a> Known<'a> {
    pub(super) fn experiment(self, object: &'a Value) -> Link {
        let mut link = lived(Kind::ProfilingExperiment, object);
        let Ok(experiment) = serde_json::from_value::<ProfilingExperiment>(object.clone()) else { return link };
        let reason = reason_of(object);
        link.next = experiment_step(reason, read::name(object)).filter(|_| !read::is_deleted(object));
        let namespace = read::text(object, "/metadata/namespace");
        if let Some(reference) = experiment.spec.inference_ref.filter(|_| link.state != State::Good) {
            let key = Key::new(Kind::Inference, namespace, reference.name);
            link.causes.extend(self.world.object(&key).map(|inference| self.link(Kind::Inference, inference)));
        }
        self.trials(object, reason, &mut link);
        link
    }

    /// Those at work, and the newest of those that failed.
    fn trials(self, experiment: &'a Value, reason: Reason, link: &mut Link) {
        let mut own: Vec<(Option<TrialOutcome>, &Value)> =
            attempts::own(self.world, experiment).map(|trial| (outcome(trial), trial)).collect();
        own.sort_by_key(|(_, trial)| (read::name(trial).len(), read::name(trial).to_owned()));
        let failed = |outcome: &Option<TrialOutcome>| {
            outcome.as_ref().is_some_and(|outcome| outcome.state != TrialState::Succeeded)
        };
        let bad: Vec<&Value> = own.iter().filter(|(outcome, _)| failed(outcome)).map(|(_, trial)| *trial).collect();
        let (hidden, shown) = bad.split_at(bad.len().saturating_sub(FAILED_SHOWN));
        if !hidden.is_empty() {
            link.text = format!("{}; {} earlier failed trials are not shown", link.text, hidden.len());
        }
        let open = own.iter().filter(|(_, trial)| !is_over(trial) && !bad.contains(trial)).take(OPEN_SHOWN);
        for trial in shown.iter().copied().chain(open.map(|(_, trial)| *trial)) {
            let mut found = self.link(Kind::Trial, trial);
            if found.state == State::Bad && is_an_answer(outcome(trial).as_ref(), reason) {
                found.state = State::Good;
            }
            found.next = None;
            link.causes.push(found);
        }
    }

    pub(super) fn trial(self, object: &'a Value) -> Link {
        let mut link = lived(Kind::Trial, object);
        let known = outcome(object);
        link.next = known.as_ref().and_then(trial_step).map(str::to_owned);
        if let Some(known) = known.filter(|known| known.state == TrialState::Failed) {
            let failure = known.failure.map_or(String::new(), |failure| format!("{failure:?}, "));
            link.text = format!("failed: {failure}{}: {}", known.reason, known.message);
        }
        if is_over(object) {
            return link;
        }
        let (namespace, name) = (read::text(object, "/metadata/namespace"), read::name(object));
        link.causes.extend(self.find(Kind::Deployment, namespace, &names::trial_deployment(name)));
        link.causes.extend(self.find(Kind::Job, namespace, &names::trial_client(name)));
        link
    }
}

fn outcome(trial: &Value) -> Option<TrialOutcome> {
    serde_json::from_value::<Trial>(trial.clone()).ok()?.status?.outcome
}

fn is_over(object: &Value) -> bool {
    [SUCCEEDED, FAILED, KILLED].iter().any(|type_| read::condition_holds(object, type_))
}

/// An object whose last condition is its state.
fn lived(kind: Kind, object: &Value) -> Link {
    let link = |state, text: String| Link::new(kind.as_str(), read::name(object), state, text);
    if read::is_deleted(object) {
        return link(State::Moving, "is being deleted, with all that belongs to it".to_owned());
    }
    let all: Vec<&Value> = read::items(object, "/status/conditions").collect();
    let holds = |condition: &&&Value| condition["status"] == "True";
    let Some(ready) = read::condition(object, "Ready") else {
        let text = "nobody has looked at it yet: is a controller running, and does it watch this namespace?";
        return link(State::Bad, text.to_owned());
    };
    // What keeps it from beginning is in the summary, where it stands while it lives in the last condition.
    let last = all.iter().rev().find(holds).copied().unwrap_or(ready);
    let shown = if kind == Kind::Trial || is_over(object) { last } else { ready };
    let text = format!("{}: {}", read::text(shown, "/reason"), read::text(shown, "/message"));
    let state = match read::text(last, "/type") {
        SUCCEEDED | KILLED => State::Good,
        FAILED => State::Bad,
        _ if matches!(reason_of(object), Reason::UnknownPredictor | Reason::InvalidSpec) => State::Bad,
        _ => State::Moving,
    };
    link(state, text)
}

fn reason_of(object: &Value) -> Reason {
    let name = read::condition(object, "Ready").map_or("", |ready| read::text(ready, "/reason"));
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == name).unwrap_or(Reason::Settled)
}

/// A candidate that cannot run is what an experiment asks about; nobody has to do anything, unless it came to nothing.
fn is_an_answer(outcome: Option<&TrialOutcome>, of: Reason) -> bool {
    match of {
        Reason::Recommended | Reason::NothingFeasible => true,
        Reason::Searching => {
            outcome.is_some_and(|outcome| !matches!(outcome.failure, None | Some(TrialFailure::Infrastructure)))
        }
        _ => false,
    }
}

fn experiment_step(reason: Reason, name: &str) -> Option<String> {
    let again = "delete the experiment and apply it again";
    Some(match reason {
        Reason::Searching => format!("wait; kubectl get trials -l experiment={name}"),
        Reason::WaitingForExperiment => "wait until the other one has ended, or delete it".to_owned(),
        Reason::Recommended => format!(
            "apply status.recommendation.patch; kubectl get configmap {} -o jsonpath='{{.data.report\\.html}}' says why",
            names::experiment_report(name)
        ),
        Reason::NothingFeasible => {
            format!(
                "relax the constraint that was missed, or add candidates; then {again}, under warmStart with its old name"
            )
        }
        Reason::TooManyFailures | Reason::NothingMeasured | Reason::ResultMissing => {
            format!("mend what the failed trials say, or leave such candidates out; then {again}")
        }
        Reason::InvalidSpec => format!("change the field that the message names; then {again}"),
        Reason::UnknownPredictor => "make the Inference, or change spec.inferenceRef".to_owned(),
        _ => return None,
    })
}

fn trial_step(outcome: &TrialOutcome) -> Option<&'static str> {
    Some(match outcome.failure? {
        TrialFailure::OutOfMemory => "give such candidates more memory; the search avoids others like it by itself",
        TrialFailure::Crash => "mend the service, or leave such values out; the search avoids others like it by itself",
        TrialFailure::Unschedulable => {
            "ask for less than a node and the namespace's quota have; the search avoids others like it by itself"
        }
        TrialFailure::StartTimeout => {
            "raise serviceProgressDeadline, or mend its readiness; the search avoids others like it by itself"
        }
        TrialFailure::ObjectiveUnmet => {
            "look at the constraints, and at the client where it is your own; the search avoids others like it by itself"
        }
        TrialFailure::Infrastructure => {
            "mend what the message names; the search tries it again by itself, three times in a row at most"
        }
    })
}
