//! The causal chain of one object: what it depends on, how each part stands, and what the first cause is.

mod profiling;

use modelway_api::{inference::InferenceSpec, labels, names};
use serde::Serialize;
use serde_json::Value;

use crate::{
    job_source::{Outcome, built_in},
    json as read, pods, refusal,
    resolve::{Resolution, resolve},
    world::{Key, Kind, World},
};

/// Most events told of one object.
const EVENTS: usize = 3;
/// Longest text of one part.
const TEXT_MAX: usize = 1_000;

/// How a part stands.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    Good,
    /// On its way, or waiting for something below it.
    Moving,
    /// Somebody has to do something.
    Bad,
}

/// One object of the chain.
#[derive(Clone, Debug, Serialize)]
pub struct Link {
    pub kind: &'static str,
    pub name: String,
    pub state: State,
    /// One sentence.
    pub text: String,
    /// Newest warnings about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What it depends on.
    #[serde(rename = "because", skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Link>,
    /// What to do next, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Link {
    fn new(kind: &'static str, name: &str, state: State, text: impl Into<String>) -> Self {
        let text = modelway_api::conditions::shortened(&text.into(), TEXT_MAX);
        Self { kind, name: name.to_owned(), state, text, warnings: Vec::new(), causes: Vec::new(), next: None }
    }

    /// The deepest part that is not as it should be: bad before moving, the first of equals.
    pub fn cause(&self) -> Option<&Self> {
        let mut worst: Option<&Self> = None;
        for cause in &self.causes {
            let found = cause.cause();
            if found.map(|link| link.state) > worst.map(|link| link.state) {
                worst = found;
            }
        }
        let own = (self.state != State::Good).then_some(self);
        match (worst, own) {
            // A part that is bad explains this one; one that moves explains only what moves.
            (Some(worst), Some(own)) if own.state > worst.state => Some(own),
            (worst, own) => worst.or(own),
        }
    }
}

/// What is known: the objects of one namespace, and its events.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub world: &'a World,
    /// `v1` Events, in any order.
    pub events: &'a [Value],
}

/// The chain of an object; `None` when it is not there.
pub fn explain(known: Known, key: &Key) -> Option<Link> {
    let object = known.world.object(key)?;
    Some(known.link(key.kind, object))
}

impl<'a> Known<'a> {
    fn link(self, kind: Kind, object: &'a Value) -> Link {
        let mut link = match kind {
            Kind::Inference => self.inference(object),
            Kind::ModelVersion => self.version(object),
            Kind::Model => self.model(object),
            Kind::Job => self.job(object),
            Kind::Deployment => self.deployment(object),
            Kind::ProfilingExperiment => self.experiment(object),
            Kind::Trial => self.trial(object),
            Kind::Pod => pod(object),
            other => Link::new(other.as_str(), read::name(object), State::Good, "is there"),
        };
        link.warnings = self.warnings(object);
        link
    }

    /// The newest warnings about an object, newest first.
    fn warnings(self, object: &Value) -> Vec<String> {
        let uid = read::uid(object);
        let mut about: Vec<&Value> = self
            .events
            .iter()
            .filter(|event| event["type"] == "Warning" && !uid.is_empty() && event["involvedObject"]["uid"] == uid)
            .collect();
        let time = |event: &Value| {
            let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime"];
            times.iter().map(|at| read::text(event, at)).find(|text| !text.is_empty()).unwrap_or_default().to_owned()
        };
        about.sort_by_key(|event| std::cmp::Reverse(time(event)));
        let told = |event: &&Value| {
            let count = read::number(event, "/count").max(read::number(event, "/series/count"));
            let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
            let text = format!("{}: {}{times}", read::text(event, "/reason"), read::text(event, "/message").trim());
            modelway_api::conditions::shortened(&text, TEXT_MAX)
        };
        let mut lines: Vec<String> = Vec::new();
        for line in about.iter().map(told) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.truncate(EVENTS);
        lines
    }

    fn inference(self, object: &'a Value) -> Link {
        let name = read::name(object);
        let mut link = conditioned(Kind::Inference, object, "takes traffic");
        let Ok(spec) = serde_json::from_value::<InferenceSpec>(object["spec"].clone()) else { return link };
        let namespace = read::text(object, "/metadata/namespace");
        for predictor in &spec.predictors {
            match resolve(self.world, namespace, predictor) {
                Resolution::None => {}
                Resolution::Version(model) => {
                    link.causes.extend(self.find(Kind::ModelVersion, namespace, &model.version));
                }
                Resolution::Missing { message, .. } => {
                    link.causes.push(self.missing_model(namespace, predictor, message));
                }
            }
            link.causes.extend(self.find(Kind::Deployment, namespace, &names::predictor(name, &predictor.name)));
        }
        link.causes.extend(self.find(Kind::Deployment, namespace, &names::router(name)));
        link.causes.extend(self.world.get(Kind::RouteTable, namespace, name).map(route_table));
        link
    }

    fn missing_model(
        self,
        namespace: &'a str,
        predictor: &modelway_api::inference::Predictor,
        message: String,
    ) -> Link {
        let job = predictor.model.as_ref().and_then(|model| model.job.as_deref());
        let version = predictor.model_version.as_deref();
        let mut link = Link::new("Predictor", &predictor.name, State::Moving, message);
        let found = version
            .and_then(|version| self.find(Kind::ModelVersion, namespace, version))
            .or_else(|| job.and_then(|job| self.find(Kind::Job, namespace, job)));
        match found {
            Some(found) => link.causes.push(found),
            None => link.state = State::Bad,
        }
        link
    }

    fn model(self, object: &'a Value) -> Link {
        let mut link = conditioned(Kind::Model, object, "has a finished version");
        let namespace = read::text(object, "/metadata/namespace");
        let latest = read::text(object, "/status/latestVersion/modelVersion");
        if !latest.is_empty() {
            link.causes.extend(self.find(Kind::ModelVersion, namespace, latest));
            return link;
        }
        let versions = self.world.list(Kind::ModelVersion, namespace);
        let own = versions.filter(|version| read::text(version, "/spec/modelName") == read::name(object));
        link.causes.extend(own.map(|version| self.link(Kind::ModelVersion, version)));
        link
    }

    fn version(self, object: &'a Value) -> Link {
        let image = read::text(object, "/status/image");
        let mut link = conditioned(Kind::ModelVersion, object, &format!("published as {image}"));
        if link.state == State::Good {
            return link;
        }
        let namespace = read::text(object, "/metadata/namespace");
        let job = read::text(object, "/spec/provenance/job/name");
        if !job.is_empty() && read::text(object, "/spec/provenance/job/kind") == Kind::Job.as_str() {
            link.causes.extend(self.world.get(Kind::Job, namespace, job).map(|job| self.job_alone(job)));
        }
        let builds = self.world.list(Kind::Job, namespace);
        let own = builds.filter(|build| read::is_controlled_by(build, read::uid(object)));
        let latest = own.max_by_key(|build| read::text(build, "/metadata/creationTimestamp").to_owned());
        link.causes.extend(latest.map(|build| self.link(Kind::Job, build)));
        link
    }

    /// A training job, with its version; or any job, with its pods.
    fn job(self, object: &'a Value) -> Link {
        let mut link = self.job_alone(object);
        let namespace = read::text(object, "/metadata/namespace");
        if let Some(version) = read::annotation(object, labels::job::PUBLISHED) {
            match self.find(Kind::ModelVersion, namespace, version) {
                Some(version) if version.state != State::Good => {
                    link.state = link.state.max(version.state);
                    link.causes.push(version);
                }
                Some(_) => {}
                None => link.text = format!("{}; its ModelVersion {version} was deleted", link.text),
            }
        }
        link
    }

    fn job_alone(self, object: &'a Value) -> Link {
        let source = &built_in()[0];
        let (state, text) = match source.outcome(object) {
            Outcome::Succeeded { .. } => (State::Good, "complete".to_owned()),
            Outcome::Running if object["spec"]["suspend"] == true => {
                (State::Bad, "suspended: set spec.suspend to false".to_owned())
            }
            Outcome::Running => (State::Moving, "running".to_owned()),
            Outcome::Failed { message } => (State::Bad, format!("failed: {message}")),
        };
        let mut link = Link::new(Kind::Job.as_str(), read::name(object), state, text);
        if let Some(why) = read::annotation(object, labels::job::NOT_PUBLISHED) {
            link.state = State::Bad;
            link.text = format!("{}, not published: {why}", link.text);
        }
        if link.state != State::Good {
            let pods = self.world.list(Kind::Pod, read::text(object, "/metadata/namespace"));
            let own = pods.filter(|pod| read::is_controlled_by(pod, read::uid(object)));
            let newest = own.max_by_key(|pod| read::text(pod, "/metadata/creationTimestamp").to_owned());
            link.causes.extend(newest.map(|pod| self.link(Kind::Pod, pod)));
        }
        link.warnings = self.warnings(object);
        link
    }

    fn deployment(self, object: &'a Value) -> Link {
        let (wanted, ready) = (read::number(object, "/spec/replicas"), read::number(object, "/status/readyReplicas"));
        let text = format!("{ready} of {wanted} pods are ready");
        let mut link = Link::new(Kind::Deployment.as_str(), read::name(object), State::Good, text);
        let updated = read::number(object, "/status/updatedReplicas");
        if ready >= wanted && updated >= wanted {
            return link;
        }
        link.state = State::Moving;
        let namespace = read::text(object, "/metadata/namespace");
        let selector = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let selected = |pod: &&Value| {
            let mut wanted = selector.into_iter().flatten();
            selector.is_some() && wanted.all(|(key, value)| read::label(pod, key) == value.as_str())
        };
        let pods = self.world.list(Kind::Pod, namespace).filter(selected);
        let waiting = pods.filter(|pod| !read::condition_holds(pod, "Ready") && !read::is_deleted(pod));
        link.causes.extend(waiting.map(|pod| self.link(Kind::Pod, pod)));
        if let Some(problem) = pods::deployment_problem(object) {
            link.state = State::Bad;
            link.text = format!("{}; {}", link.text, problem.message);
        }
        link
    }

    fn find(self, kind: Kind, namespace: &'a str, name: &str) -> Option<Link> {
        self.world.get(kind, namespace, name).map(|object| self.link(kind, object))
    }
}

/// An object that sums itself up in the conditions `Ready` and `Stalled`.
fn conditioned(kind: Kind, object: &Value, good: &str) -> Link {
    let link = |state, text: String| Link::new(kind.as_str(), read::name(object), state, text);
    if read::is_deleted(object) {
        let holders: Vec<&str> = read::items(object, "/metadata/finalizers").filter_map(Value::as_str).collect();
        return link(State::Moving, format!("is being deleted; held by {}", holders.join(", ")));
    }
    let Some(ready) = read::condition(object, "Ready") else {
        let text = "nobody has looked at it yet: is a controller running, and does it watch this namespace?";
        return link(State::Bad, text.to_owned());
    };
    let seen = read::number(object, "/status/observedGeneration");
    let generation = read::number(object, "/metadata/generation");
    if seen < generation && seen > 0 {
        return link(
            State::Moving,
            format!("the controller has not seen its newest spec yet ({seen} of {generation})"),
        );
    }
    if ready["status"] == "True" {
        return link(State::Good, good.to_owned());
    }
    let state = if read::condition_holds(object, "Stalled") { State::Bad } else { State::Moving };
    link(state, format!("{}: {}", read::text(ready, "/reason"), read::text(ready, "/message")))
}

fn pod(object: &Value) -> Link {
    let (name, phase) = (read::name(object), read::text(object, "/status/phase"));
    let link = |state, text: String| Link::new(Kind::Pod.as_str(), name, state, text);
    if read::condition_holds(object, "Ready") || phase == "Succeeded" {
        return link(State::Good, phase.to_lowercase());
    }
    match pods::problem(std::iter::once(object)) {
        Some(problem) => {
            let prefix = format!("pod {name}: ");
            let text = problem.message.strip_prefix(&prefix).unwrap_or(&problem.message).to_owned();
            let named = problem.reason.filter(|reason| !text.starts_with(reason.as_str()));
            let reason = named.map_or_else(String::new, |reason| format!("{reason}: "));
            let advice = problem.reason.map_or("", refusal::advice);
            link(State::Bad, format!("{reason}{text}{advice}"))
        }
        None if phase.is_empty() => link(State::Moving, "not looked at yet".to_owned()),
        None => link(State::Moving, format!("{}, not ready yet", phase.to_lowercase())),
    }
}

fn route_table(object: &Value) -> Link {
    let arm = |arm: &Value| format!("{} {}", read::name_of(arm), read::number(arm, "/weight"));
    let arms: Vec<String> = read::items(object, "/spec/arms").map(arm).collect();
    let text = format!("generation {}: {}", read::number(object, "/spec/generation"), arms.join(", "));
    Link::new(Kind::RouteTable.as_str(), read::name(object), State::Good, text)
}

/// The chain as lines of text; after it the deepest cause, and what to do.
pub fn lines(link: &Link) -> Vec<String> {
    let mut lines = Vec::new();
    write(link, 0, &mut lines);
    let cause = link.cause().filter(|cause| !std::ptr::eq(*cause, link));
    let step = cause.and_then(|cause| cause.next.as_ref()).or(link.next.as_ref());
    if cause.is_some() || step.is_some() {
        lines.push(String::new());
    }
    lines.extend(cause.map(|cause| format!("Cause: {} {}: {}", cause.kind, cause.name, cause.text)));
    lines.extend(step.map(|step| format!("Next: {step}")));
    lines
}

fn write(link: &Link, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let mark = match link.state {
        State::Good => "ok  ",
        State::Moving => "... ",
        State::Bad => "!!  ",
    };
    lines.push(format!("{indent}{mark}{} {}  {}", link.kind, link.name, link.text));
    if link.state != State::Good {
        lines.extend(link.warnings.iter().map(|warning| format!("{indent}      {warning}")));
    }
    for cause in &link.causes {
        write(cause, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn world(objects: &[Value]) -> World {
        let mut world = World::default();
        for object in objects {
            world.insert(object.clone());
        }
        world
    }

    fn meta(name: &str, owner: Option<&str>, labels: &Value) -> Value {
        let owners: Vec<Value> = owner.map(|uid| json!({"uid": uid, "controller": true})).into_iter().collect();
        json!({"name": name, "namespace": "n", "uid": format!("uid-{name}"), "labels": labels, "ownerReferences": owners})
    }

    fn crashing() -> World {
        let pod_labels = json!({"kubedl.io/inference-name": "d", "kubedl.io/predictor-name": "v1"});
        let (inference, deployment) = (meta("d", None, &json!({})), meta("d-v1", Some("uid-d"), &json!({})));
        world(&[
            json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference", "metadata": inference,
                "spec": {"predictors": [{"name": "v1", "template": {}}]},
                "status": {"conditions": [
                    {"type": "Ready", "status": "False", "reason": "OOMKilled", "message": "predictor v1"},
                    {"type": "Stalled", "status": "True"}]}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": deployment,
                "spec": {"replicas": 1, "selector": {"matchLabels": pod_labels}}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("d-v1-x", None, &pod_labels),
                "status": {"phase": "Running", "containerStatuses": [{"name": "s", "restartCount": 2,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}}),
        ])
    }

    #[test]
    fn the_deepest_bad_part_is_the_cause() {
        let world = crashing();
        let events = [json!({"type": "Warning", "reason": "BackOff", "message": "restarting", "count": 4,
            "involvedObject": {"uid": "uid-d-v1-x"}})];
        let known = Known { world: &world, events: &events };
        let link = explain(known, &Key::new(Kind::Inference, "n", "d")).unwrap();
        let cause = link.cause().unwrap();
        assert_eq!((cause.kind, cause.name.as_str()), ("Pod", "d-v1-x"));
        assert!(cause.text.starts_with("OOMKilled: "), "{}", cause.text);
        assert_eq!(cause.warnings, ["BackOff: restarting (4 times)"]);
        let text = lines(&link).join("\n");
        assert!(text.contains("\nCause: Pod d-v1-x: OOMKilled"), "{text}");
    }

    #[test]
    fn a_job_that_was_not_published_explains_the_predictor_that_waits_for_it() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "n", "annotations": {
                "modelway.io/model": "d", "modelway.io/not-published": "SourceUnknown: nothing says where"}},
            "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        let inference = json!({"apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference", "metadata": meta("d", None, &json!({})),
            "spec": {"framework": "ONNX", "predictors": [{"name": "v1", "model": {"name": "d", "job": "train"}}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "WaitingForModelVersion", "message": "m"}]}});
        let world = world(&[job, inference]);
        let link = explain(Known { world: &world, events: &[] }, &Key::new(Kind::Inference, "n", "d")).unwrap();
        let cause = link.cause().unwrap();
        assert_eq!(cause.kind, "Job");
        assert!(cause.text.contains("SourceUnknown"), "{}", cause.text);
    }

    #[test]
    fn an_object_that_nobody_looked_at_says_so() {
        let version = json!({"apiVersion": "model.kubedl.io/v1alpha1", "kind": "ModelVersion",
            "metadata": meta("mv", None, &json!({})), "spec": {}});
        let world = world(&[version]);
        let link = explain(Known { world: &world, events: &[] }, &Key::new(Kind::ModelVersion, "n", "mv")).unwrap();
        assert!(link.text.contains("is a controller running"), "{}", link.text);
        assert!(explain(Known { world: &world, events: &[] }, &Key::new(Kind::Pod, "n", "x")).is_none());
    }
}
