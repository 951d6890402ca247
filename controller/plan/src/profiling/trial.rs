//! One trial: a service, a client, what came of it, and nothing left of either.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason, labels, names,
    profiling_conditions::FAILED,
    trial::{Metric, Trial, TrialFailure, TrialResult, TrialSpec, TrialState, TrialStatus},
};
use serde_json::Value;

use super::{
    attempts,
    child::create_once,
    client::{self, Address},
    client_state::{self, Client},
    ended::{Ended, Trouble},
    load, metrics,
    result::Told,
    service, trial_status as status_of,
    under_test::{self, Service},
};
use crate::{
    context::Context,
    json as read,
    manifest::ensure_status,
    plan::{Action, Plan},
    world::{Key, Kind},
};

/// Time until a service must be ready, in seconds.
const START_SECONDS: i32 = 600;
/// Pods that do not go within this time are left behind, and told about.
const CLEAN_UP: Duration = Duration::from_mins(5);
/// How often is looked at what tells nothing by itself.
const LOOK: Duration = Duration::from_secs(5);

/// Plans one trial.
pub fn plan(cx: &Context, key: &Key) -> Plan {
    let mut plan = Plan::default();
    let Some(live) = cx.world.object(key).filter(|live| !read::is_deleted(live)) else { return plan };
    if cx.world.get(Kind::Namespace, "", &key.namespace).is_some_and(read::is_deleted) {
        return plan;
    }
    let (spec, before) = match serde_json::from_value::<Trial>(live.clone()) {
        Ok(trial) => (trial.spec, trial.status.unwrap_or_default()),
        Err(_) if read::condition_holds(live, FAILED) => return plan,
        Err(error) => (TrialSpec::default(), status_of::unreadable(&error.to_string(), cx.now)),
    };
    if status_of::is_over(&before) {
        return plan;
    }
    let mut status = before.clone();
    status.observed_generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
    let course = Course { cx, live, spec: &spec };
    course.advance(&mut plan, &mut status);
    // What is known is written before anything is taken away.
    let mut told = Plan::default();
    ensure_status(&mut told, live, &serde_json::to_value(&status).expect("a status is plain data"));
    status_of::tell(&mut told, live, &before, &status);
    told.actions.append(&mut plan.actions);
    told.again_after = plan.again_after;
    told
}

struct Course<'a> {
    cx: &'a Context<'a>,
    live: &'a Value,
    spec: &'a TrialSpec,
}

impl Course<'_> {
    fn advance(&self, plan: &mut Plan, status: &mut TrialStatus) {
        let now = self.cx.now;
        if status.outcome.is_some() {
            return self.clean_up(plan, status);
        }
        if status.start_time.is_none() {
            status_of::begin(status, now);
            if let Err(problem) = self.check() {
                self.end(status, &Ended::new(TrialFailure::Infrastructure, Reason::InvalidSpec, problem));
            }
            return;
        }
        if let Some(why) = read::annotation(self.live, labels::tuning::KILL) {
            status_of::outcome(status, TrialState::Killed, None, Reason::Killed, why, now);
            return;
        }
        if let Err(ended) = self.work(plan, status) {
            plan.actions.clear();
            self.end(status, &ended);
        }
    }

    fn check(&self) -> Result<(), String> {
        let pods =
            self.spec.service_pod_template.as_ref().and_then(|template| template.pointer("/template/spec/containers"));
        if pods.and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return Err("servicePodTemplate.template.spec.containers is empty: describe the service".to_owned());
        }
        if self.spec.client_template.is_some() {
            return Ok(());
        }
        let (objective, body) = (self.spec.objective.as_ref(), self.spec.request_template.as_deref());
        load::plan(self.spec.load.as_ref(), objective, body).map(|_| ()).map_err(|error| error.to_string())
    }

    fn end(&self, status: &mut TrialStatus, ended: &Ended) {
        status_of::outcome(status, TrialState::Failed, Some(ended.failure), ended.reason, &ended.message, self.cx.now);
    }

    /// What is to be done while nothing is known.
    fn work(&self, plan: &mut Plan, status: &mut TrialStatus) -> Result<(), Ended> {
        match status.service_pod.clone() {
            None => self.start(plan, status),
            Some(pod) => self.measure(plan, status, &pod),
        }
    }

    fn start(&self, plan: &mut Plan, status: &mut TrialStatus) -> Result<(), Ended> {
        let deadline = self.spec.service_progress_deadline.unwrap_or(START_SECONDS);
        let refused =
            create_once(plan, self.cx, self.live, service::deployment(self.live, self.spec, deadline.into()))?;
        let refused = create_once(plan, self.cx, self.live, service::service(self.live, self.spec))?.or(refused);
        let began = time(status.start_time.as_ref()).unwrap_or(self.cx.now);
        let trouble = match under_test::starting(self.cx, self.live, self.child(Kind::Deployment)) {
            Service::Broken(ended) => return Err(ended),
            Service::Ready(pod) => {
                status_of::ready(status, &pod, self.cx.now);
                return Ok(());
            }
            Service::Starting(trouble) => refused.or(trouble),
        };
        self.bear(plan, trouble.as_ref(), began)?;
        status_of::starting(status, trouble.as_ref().map(|trouble| &trouble.ended), self.cx.now);
        let limit = Duration::from_secs(deadline.unsigned_abs().into());
        let Some(left) = self.cx.left(began, limit) else { return Err(late(deadline, trouble)) };
        plan.look_again(left);
        Ok(())
    }

    /// Ends the trial when a trouble has lasted for too long.
    fn bear(&self, plan: &mut Plan, trouble: Option<&Trouble>, since: Timestamp) -> Result<(), Ended> {
        let Some((trouble, patience)) = trouble.and_then(|trouble| Some((trouble, trouble.patience?))) else {
            return Ok(());
        };
        match self.cx.left(since, patience) {
            Some(left) => plan.look_again(left),
            None => return Err(trouble.ended.clone()),
        }
        Ok(())
    }

    fn measure(&self, plan: &mut Plan, status: &mut TrialStatus, pod: &str) -> Result<(), Ended> {
        if let Some(ended) = under_test::under_load(self.cx, self.live, pod) {
            return Err(ended);
        }
        let Some(job) = self.child(Kind::Job) else { return self.begin_load(plan, status, pod) };
        status_of::measuring(status, self.cx.now);
        let reported = read::annotation(self.live, labels::tuning::RESULTS);
        match client_state::observe(self.cx, job, reported) {
            Client::Running(trouble) => {
                let since = time(status.ready_time.as_ref()).unwrap_or(self.cx.now);
                self.bear(plan, trouble.as_ref(), since)
            }
            Client::Late(left) => {
                plan.look_again(left);
                Ok(())
            }
            Client::Told(told) => self.take(status, &told),
            // Ours does not fail for a service's sake without saying so.
            Client::Ended(ended) if self.spec.client_template.is_none() => {
                Err(Ended { failure: TrialFailure::Infrastructure, ..ended })
            }
            Client::Ended(ended) => Err(ended),
        }
    }

    /// The client's Job is made once: when it has been seen, and is gone, so is the measurement.
    fn begin_load(&self, plan: &mut Plan, status: &TrialStatus, pod: &str) -> Result<(), Ended> {
        if status_of::is_measuring(status) {
            let message = "the client's Job went away before it had reported";
            return Err(Ended::new(TrialFailure::Infrastructure, Reason::ClientLost, message));
        }
        let namespace = read::text(self.live, "/metadata/namespace");
        let address = self.cx.world.get(Kind::Pod, namespace, pod).map_or("", |pod| read::text(pod, "/status/podIP"));
        let service = self.child(Kind::Service).map_or("", |service| read::text(service, "/spec/clusterIP"));
        // Where Services have addresses of the loopback there is no name for them.
        let address = Address { pod: address, service: Some(service).filter(|service| service.starts_with("127.")) };
        let job = self.client(address)?;
        let refused = create_once(plan, self.cx, self.live, job)?;
        self.bear(plan, refused.as_ref(), time(status.ready_time.as_ref()).unwrap_or(self.cx.now))
    }

    fn client(&self, address: Address) -> Result<Value, Ended> {
        if let Some(client) = &self.spec.client_template {
            return Ok(client::own(self.cx, self.live, self.spec, client, address));
        }
        let (objective, body) = (self.spec.objective.as_ref(), self.spec.request_template.as_deref());
        let mut load = load::plan(self.spec.load.as_ref(), objective, body)
            .map_err(|error| Ended::new(TrialFailure::Infrastructure, Reason::InvalidSpec, error.to_string()))?;
        load.expect(attempts::choice(self.live).and_then(|choice| choice.expected_rate));
        Ok(client::built_in(self.cx, self.live, self.spec, &load, address))
    }

    /// Takes in what the client told.
    fn take(&self, status: &mut TrialStatus, told: &Told) -> Result<(), Ended> {
        let percentile = self.spec.load.as_ref().and_then(|load| load.percentile.as_deref());
        let wanted = load::objective_metric(self.spec.objective.as_ref());
        let own = metrics::own_name(wanted, percentile);
        let objective = told.metrics.get(wanted).or_else(|| told.metrics.get(&own)).copied();
        let mut observed: Vec<Metric> =
            told.metrics.iter().filter(|(name, _)| *name != wanted).map(|(name, value)| metric(name, *value)).collect();
        observed.extend(objective.map(|value| metric(wanted, value)));
        status.trial_result = Some(TrialResult {
            tunable_parameters: self.spec.sampling_result.clone(),
            objective_metrics_observed: observed,
        });
        if let Some(ended) = client_state::ended(told) {
            return Err(ended);
        }
        if wanted == load::COST && objective.is_none() && !told.metrics.is_empty() {
            status_of::outcome(status, TrialState::Succeeded, None, Reason::Measured, &told.message, self.cx.now);
            return Ok(());
        }
        let Some((value, _)) = objective else {
            let names: Vec<&str> = told.metrics.keys().map(String::as_str).collect();
            let message = format!("the client did not report {wanted}; it reported {}", names.join(", "));
            status_of::outcome(status, TrialState::Failed, None, Reason::ResultMissing, &message, self.cx.now);
            return Ok(());
        };
        let said = if told.message.is_empty() { String::new() } else { format!("; {}", told.message) };
        let reason = if told.is_generator_bound { Reason::GeneratorBound } else { Reason::Measured };
        let message = format!("{wanted} {value}{said}");
        status_of::outcome(status, TrialState::Succeeded, None, reason, &message, self.cx.now);
        Ok(())
    }

    fn child(&self, kind: Kind) -> Option<&Value> {
        let name = read::name(self.live);
        let child = match kind {
            Kind::Deployment => names::trial_deployment(name),
            Kind::Service => names::trial_service(name),
            _ => names::trial_client(name),
        };
        let found = self.cx.world.get(kind, read::text(self.live, "/metadata/namespace"), &child);
        found.filter(|found| read::is_controlled_by(found, read::uid(self.live)))
    }

    /// Takes away what was made; the trial is over when nothing is left.
    fn clean_up(&self, plan: &mut Plan, status: &mut TrialStatus) {
        let mut left = Vec::new();
        for kind in [Kind::Job, Kind::Deployment, Kind::Service] {
            let Some(child) = self.child(kind) else { continue };
            let key = Key::new(kind, read::text(child, "/metadata/namespace"), read::name(child));
            left.push(key.to_string());
            if !read::is_deleted(child) {
                plan.push(Action::Delete { key, uid: read::uid(child).to_owned() });
            }
        }
        left.extend(client_state::leftover_pods(self.cx, self.live).map(|pod| format!("Pod {}", read::name(pod))));
        let since = status_of::known_since(status).unwrap_or(self.cx.now);
        let patience = self.cx.left(since, CLEAN_UP);
        if !left.is_empty() && patience.is_some() {
            status_of::cleaning(status, self.cx.now);
            plan.look_again(LOOK);
            return;
        }
        status_of::finish(status, &left, self.cx.now);
    }
}

fn late(seconds: i32, trouble: Option<Trouble>) -> Ended {
    let because = trouble.as_ref().map_or(String::new(), |trouble| format!(": {}", trouble.ended.message));
    let message = format!("the service was not ready within {seconds} s{because}");
    let ended = Ended::new(TrialFailure::StartTimeout, Reason::DeadlineExceeded, message);
    // A cause that is known says more than the clock.
    match trouble.map(|trouble| trouble.ended) {
        Some(known) if known.reason != Reason::DeadlineExceeded => {
            Ended { failure: known.failure, reason: known.reason, ..ended }
        }
        _ => ended,
    }
}

fn metric(name: &str, (value, variance): (f64, f64)) -> Metric {
    let variance = (variance > 0.0).then(|| variance.to_string());
    Metric { name: name.to_owned(), value: value.to_string(), variance }
}

fn time(text: Option<&String>) -> Option<Timestamp> {
    text?.parse().ok()
}
