//! One experiment: which trials are made, when it is over, and what becomes of what it found.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason, labels, names,
    profiling_conditions::FAILED,
    profiling_experiment::{ProfilingExperiment, ProfilingExperimentSpec, ProfilingExperimentStatus},
};
use modelway_tune::{
    belief::Problem,
    experiment::{Attempt, End, Next, Purpose, Question, expected, next},
    space::Candidate,
    spec::Objective,
};
use serde_json::{Value, json};

use super::{
    attempts::{self, Choice, Tested, Trials},
    error::QuestionError,
    experiment_status as status_of, load, metrics,
    patch::{self, Change},
    question::{Asked, question},
    room, space, target,
};
use crate::{
    context::Context,
    json as read,
    manifest::{annotate, ensure_status, labels as label_map, manifest, patch_metadata},
    plan::{Action, Plan},
    world::{Key, Kind},
};

/// What an experiment's turn comes to.
#[derive(Debug, Default)]
pub struct Turn {
    pub plan: Plan,
    /// It has just ended: its report is to be stored before the plan is carried out.
    pub report: Option<Findings>,
}

/// All that a report is made of.
#[derive(Debug)]
pub struct Findings {
    pub experiment: Value,
    pub spec: ProfilingExperimentSpec,
    /// The pods that are tuned.
    pub pods: Value,
    pub question: Question,
    pub trials: Vec<Tested>,
    pub end: End,
    pub change: Option<Change>,
    /// Which candidates were left out before the first trial.
    pub left_out: Option<String>,
    pub started: Timestamp,
    pub ended: Timestamp,
    /// Seconds of the experiment at its last decision.
    pub elapsed: f64,
}

/// Plans one experiment.
pub fn turn(cx: &Context, key: &Key) -> Turn {
    let Some(live) = cx.world.object(key).filter(|live| !read::is_deleted(live)) else { return Turn::default() };
    if cx.world.get(Kind::Namespace, "", &key.namespace).is_some_and(read::is_deleted) {
        return Turn::default();
    }
    let (spec, before) = match serde_json::from_value::<ProfilingExperiment>(live.clone()) {
        Ok(experiment) => (experiment.spec, experiment.status.unwrap_or_default()),
        Err(error) => return unreadable(cx, live, &error.to_string()),
    };
    if status_of::is_over(&before) {
        return Turn::default();
    }
    let mut status = before.clone();
    status.observed_generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    let mut turn = Turn::default();
    let course = Course { cx, live, spec: &spec };
    course.advance(&mut turn, &mut status);
    write(&mut turn.plan, live, &before, &status);
    turn
}

fn unreadable(cx: &Context, live: &Value, problem: &str) -> Turn {
    if read::condition_holds(live, FAILED) {
        return Turn::default();
    }
    let mut status = ProfilingExperimentStatus::default();
    status_of::begin(&mut status, cx.now);
    status_of::fail(&mut status, Reason::InvalidSpec, problem, cx.now);
    let mut turn = Turn::default();
    write(&mut turn.plan, live, &ProfilingExperimentStatus::default(), &status);
    turn
}

fn write(plan: &mut Plan, live: &Value, before: &ProfilingExperimentStatus, after: &ProfilingExperimentStatus) {
    ensure_status(plan, live, &serde_json::to_value(after).expect("a status is plain data"));
    status_of::tell(plan, live, before, after);
}

struct Course<'a> {
    cx: &'a Context<'a>,
    live: &'a Value,
    spec: &'a ProfilingExperimentSpec,
}

impl Course<'_> {
    fn advance(&self, turn: &mut Turn, status: &mut ProfilingExperimentStatus) {
        let now = self.cx.now;
        status_of::begin(status, now);
        if let Some(first) = target::first_on_same(self.cx, self.live, self.spec) {
            return status_of::wait_for(status, &first, now);
        }
        let pods = match target::pods(self.cx, self.live, self.spec) {
            Ok(pods) => pods,
            Err((reason, problem)) => return status_of::hold(status, reason, &problem, now),
        };
        let sources = attempts::sources(self.cx, read::text(self.live, "/metadata/namespace"), self.spec);
        if status.start_time.is_none() {
            // What comes later changes no candidate: trials keep their places among them.
            let keeps_all = read::annotation(self.live, labels::tuning::ALL_CANDIDATES) == Some("true");
            let nodes = if keeps_all { &[] } else { self.cx.world.nodes() };
            status.node_sizes = room::sizes(self.spec, nodes);
        }
        let Asked { question, left_out } = match question(self.spec, &pods, sources, &status.node_sizes) {
            Ok(asked) => asked,
            Err(error @ QuestionError::NoRoom { .. }) => {
                return status_of::fail(status, Reason::Unschedulable, &error.to_string(), now);
            }
            Err(error) => return status_of::fail(status, Reason::InvalidSpec, &error.to_string(), now),
        };
        if status.start_time.is_none() {
            return status_of::start(status, question.spec.space.len(), left_out, now);
        }
        let trials = attempts::find(self.cx, self.live, self.spec, &question.spec.space);
        let search = Search { course: self, question: &question, pods: &pods, trials };
        search.advance(turn, status);
    }
}

struct Search<'a> {
    course: &'a Course<'a>,
    question: &'a Question,
    pods: &'a Value,
    trials: Trials,
}

impl Search<'_> {
    fn advance(self, turn: &mut Turn, status: &mut ProfilingExperimentStatus) {
        let cx = self.course.cx;
        status_of::summarise(status, &self.trials.tested, &self.question.spec);
        let started: Timestamp = status.start_time.as_ref().and_then(|time| time.parse().ok()).unwrap_or(cx.now);
        let elapsed = cx.since(started).as_secs_f64();
        if let Some(end) = self.start_trials(&mut turn.plan, elapsed) {
            return self.finish(turn, status, end, started);
        }
        self.keep_time(&mut turn.plan, elapsed);
        status_of::searching(status, &self.trials.tested, self.trials.stray, cx.now);
    }

    /// Makes the trials that there is room for; says when it is over.
    fn start_trials(&self, plan: &mut Plan, elapsed: f64) -> Option<End> {
        let mut attempts: Vec<Attempt> = self.trials.tested.iter().map(|tested| tested.attempt.clone()).collect();
        let mut pending: Vec<usize> =
            attempts.iter().filter(|attempt| attempt.is_pending()).map(|attempt| attempt.index).collect();
        let mut free = self.trials.next_index;
        // A model over many candidates takes its time: it is asked only where there is room.
        let problem = (pending.len() < self.question.parallelism).then(|| Problem::new(&self.question.spec))?;
        while pending.len() < self.question.parallelism {
            match next(self.question, &problem, &attempts, elapsed) {
                Next::Wait => return None,
                Next::Finish(end) => return Some(*end),
                Next::Start { index, candidate, purpose, why } => {
                    free = free.max(index);
                    let expected_rate = self.expected_rate(&problem, &attempts, candidate);
                    let beside = pending.clone();
                    let choice = Choice { index: free, purpose, at: elapsed, why, expected_rate, beside };
                    plan.push(Action::Create(self.trial(&choice, candidate)));
                    attempts.push(Attempt::pending(free, candidate, purpose, elapsed));
                    pending.push(free);
                    free += 1;
                }
            }
        }
        None
    }

    /// Where the models expect the highest rate, when that is what a trial looks for.
    fn expected_rate(&self, problem: &Problem, attempts: &[Attempt], candidate: Candidate) -> Option<f64> {
        let spec = self.course.spec;
        let searches = spec.client_template.is_none() && load::searches(&spec.load.clone().unwrap_or_default());
        let Objective::Metric { metric, .. } = &self.question.spec.objective else { return None };
        let is_rate = metrics::own_name(metric, None) == metrics::RATE;
        let expected = (searches && is_rate).then(|| expected(problem, attempts, candidate)).flatten()?;
        // Digits of the fourth place are noise.
        Some(expected.mean.exp()).filter(|rate| rate.is_finite()).map(|rate| (rate * 1e3).round() / 1e3)
    }

    fn trial(&self, choice: &Choice, candidate: Candidate) -> Value {
        let (live, spec) = (self.course.live, self.course.spec);
        let name = read::name(live);
        let mut own = live["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        own.extend(label_map(&[(labels::EXPERIMENT, &names::label_value(name)), (labels::APP_NAME, "modelway")]));
        let mut trial = manifest(Kind::Trial, &names::trial(name, choice.index), live, own);
        annotate(&mut trial, labels::tuning::CHOICE, &serde_json::to_string(choice).expect("a choice is plain data"));
        annotate(&mut trial, labels::tuning::WHY, &choice.why.to_string());
        let mut load = spec.load.clone();
        let window = spec.confirm.as_ref().and_then(|confirm| confirm.window.clone());
        if choice.purpose == Purpose::Confirm && window.is_some() {
            load.get_or_insert_default().window = window;
        }
        trial["spec"] = present(json!({
            "samplingResult": space::assignments(spec, &self.question.spec.space, candidate),
            "objective": spec.objective,
            "requestTemplate": spec.request_template,
            "clientTemplate": spec.client_template,
            "servicePodTemplate": { "template": self.pods },
            "serviceProgressDeadline": spec.service_progress_deadline,
            "load": load,
        }));
        trial
    }

    /// Ends the trials that run when the time is spent.
    fn keep_time(&self, plan: &mut Plan, elapsed: f64) {
        let Some(limit) = self.question.limits.seconds else { return };
        let left = Duration::try_from_secs_f64(limit - elapsed).unwrap_or_default();
        if !left.is_zero() {
            return plan.look_again(left);
        }
        let namespace = read::text(self.course.live, "/metadata/namespace");
        for tested in self.trials.tested.iter().filter(|tested| tested.attempt.is_pending()) {
            let trial = self.course.cx.world.get(Kind::Trial, namespace, &tested.name);
            let open = trial.filter(|trial| read::annotation(trial, labels::tuning::KILL).is_none());
            let annotations = json!({ labels::tuning::KILL: "the experiment's budget.duration is spent" });
            plan.actions.extend(open.and_then(|trial| patch_metadata(trial, json!({ "annotations": annotations }))));
        }
    }

    fn finish(self, turn: &mut Turn, status: &mut ProfilingExperimentStatus, end: End, started: Timestamp) {
        let course = self.course;
        let change = patch::change(course.cx, course.live, course.spec, self.pods, &self.question.spec.space, &end);
        turn.plan.actions.extend(patch::annotate_inference(course.cx, course.live, course.spec, change.as_ref()));
        status_of::finish(
            status,
            course.spec,
            self.question,
            &self.trials.tested,
            &end,
            change.as_ref(),
            course.cx.now,
        );
        let report = names::experiment_report(read::name(course.live));
        let key = Key::new(Kind::ConfigMap, read::text(course.live, "/metadata/namespace"), report);
        if let Some(refused) = course.cx.world.rejection(&key) {
            return status_of::without_report(status, &refused.message, course.cx.now);
        }
        status.report = Some(format!("configmap/{}", key.name));
        turn.report = Some(Findings {
            experiment: course.live.clone(),
            spec: course.spec.clone(),
            pods: self.pods.clone(),
            question: self.question.clone(),
            trials: self.trials.tested,
            end,
            change,
            left_out: status_of::left_out(status),
            started,
            ended: course.cx.now,
            elapsed: course.cx.since(started).as_secs_f64(),
        });
    }
}

/// Without the fields that are null.
fn present(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
