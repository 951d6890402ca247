//! A `ModelVersion` gets its Model, its builds, and its status.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use modelway_api::{
    Reason,
    conditions::{self, State},
    duration, labels,
    model_version::{ImageBuildPhase, ModelVersion, ModelVersionSpec, ModelVersionStatus},
    names,
};
use serde_json::{Value, json};

use crate::{
    build::{self, Attempt, BuildError, BuildResult},
    context::Context,
    job_source::{Outcome, built_in},
    json as read,
    manifest::{REFUSED_AGAIN_AFTER, ensure_status, owner_reference, patch_metadata},
    plan::{Action, Plan},
    publish::check_storage,
    refusal,
    world::{Key, Kind},
};

const DEFAULT_RETRIES: u32 = 3;
const DEFAULT_DEADLINE: Duration = Duration::from_mins(10);
/// Wait before the second attempt; doubled for each one after, up to [`BACKOFF_MAX`].
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(1);
/// How long after a builder's end its pod may take to show up in the cache with its result.
const RESULT_GRACE: Duration = Duration::from_secs(5);
const RESULT_POLL: Duration = Duration::from_millis(200);
/// Longest piece of a builder's words kept in `status.log`.
const LOG_MAX: usize = 2_048;

/// Plans one version.
pub fn plan(cx: &Context, key: &Key) -> Plan {
    let mut plan = Plan::default();
    let Some(live) = cx.world.object(key).filter(|live| !read::is_deleted(live)) else { return plan };
    let Ok(version) = serde_json::from_value::<ModelVersion>(live.clone()) else { return plan };
    // Nothing new may be made in a namespace that goes.
    if cx.world.get(Kind::Namespace, "", &key.namespace).is_some_and(read::is_deleted) {
        return plan;
    }
    ensure_model(cx, &mut plan, live, &version.spec);
    let hash = spec_hash(&version.spec);
    let mut build = Build { cx, live, spec: &version.spec, hash, status: version.status.unwrap_or_default() };
    build.run(&mut plan);
    let status = serde_json::to_value(&build.status).expect("a status is plain data");
    ensure_status(&mut plan, live, &status);
    tell(cx, &mut plan, live, &version.spec, &build.status);
    plan
}

/// Hash of what makes the image; the rest of the spec may change freely.
pub fn spec_hash(spec: &ModelVersionSpec) -> String {
    read::hash(&json!([spec.model_name, spec.storage, spec.image_repo, spec.image_tag]))
}

/// Creates the Model when it is absent, and lets it own the version.
fn ensure_model(cx: &Context, plan: &mut Plan, live: &Value, spec: &ModelVersionSpec) {
    let namespace = read::text(live, "/metadata/namespace");
    let Some(model) = cx.world.get(Kind::Model, namespace, &spec.model_name) else {
        plan.push(Action::Create(json!({
            "apiVersion": Kind::Model.api_version(),
            "kind": Kind::Model.as_str(),
            "metadata": {
                "name": spec.model_name,
                "namespace": namespace,
                "labels": { labels::MANAGED_BY: modelway_api::MANAGER },
            },
            "spec": {},
        })));
        return;
    };
    if read::is_owned_by(live, read::uid(model)) || read::is_deleted(model) {
        return;
    }
    let mut owners: Vec<Value> = read::items(live, "/metadata/ownerReferences").cloned().collect();
    owners.push(owner_reference(model));
    plan.actions.extend(patch_metadata(live, json!({ "ownerReferences": owners })));
}

struct Build<'a> {
    cx: &'a Context<'a>,
    live: &'a Value,
    spec: &'a ModelVersionSpec,
    hash: String,
    status: ModelVersionStatus,
}

impl<'a> Build<'a> {
    fn run(&mut self, plan: &mut Plan) {
        let is_same = self.status.spec_hash.as_ref() == Some(&self.hash);
        match self.status.image_build_phase {
            Some(ImageBuildPhase::ImageBuildSucceeded) => self.freeze(is_same),
            Some(ImageBuildPhase::ImageBuildFailed) if is_same => {}
            _ => {
                if !is_same {
                    self.begin(plan);
                }
                self.advance(plan);
            }
        }
        self.status.observed_generation = generation(self.live);
    }

    /// A published version stays what it is; an edit is only reported.
    fn freeze(&mut self, is_same: bool) {
        if is_same && conditions::find(&self.status.conditions, conditions::SPEC_CHANGED).is_none() {
            return;
        }
        let (state, reason, message) = if is_same {
            (State::False, Reason::SpecUnchanged, "")
        } else {
            let message = "the spec was edited after the image was published; versions are immutable: make a new \
                           ModelVersion, or undo the edit";
            (State::True, Reason::SpecChanged, message)
        };
        self.set(conditions::SPEC_CHANGED, state, reason, message);
    }

    /// Starts over for a new or edited spec.
    fn begin(&mut self, plan: &mut Plan) {
        for job in self.jobs().filter(|job| read::annotation(job, labels::SPEC_HASH) != Some(&self.hash)) {
            if built_in()[0].outcome(job) == Outcome::Running && !read::is_deleted(job) {
                let key = Key::of(job).expect("an observed object has kind and name");
                plan.push(Action::Delete { key, uid: read::uid(job).to_owned() });
            }
        }
        self.status = ModelVersionStatus {
            image_build_phase: Some(ImageBuildPhase::ImageBuilding),
            spec_hash: Some(self.hash.clone()),
            start_time: Some(conditions::whole_second(self.cx.now).to_string()),
            attempts: 1,
            conditions: std::mem::take(&mut self.status.conditions),
            ..ModelVersionStatus::default()
        };
        conditions::remove(&mut self.status.conditions, conditions::SPEC_CHANGED);
        conditions::remove(&mut self.status.conditions, conditions::STALLED);
    }

    fn advance(&mut self, plan: &mut Plan) {
        let repository = match self.repository() {
            Ok(repository) => repository,
            Err(error) => return self.fail(&error),
        };
        let tag = self.tag(&repository);
        self.status.tag = Some(tag.clone());
        let latest = self.jobs().filter(|job| self.is_ours(job)).max_by_key(|job| attempt_of(job));
        // The status may be ahead of the cache by one creation, never the other way round.
        let latest = latest.filter(|job| attempt_of(job) >= self.status.attempts);
        let Some(job) = latest else {
            self.attempt(plan, &repository, &tag, self.status.attempts.max(1));
            return;
        };
        self.status.attempts = attempt_of(job);
        let message = build::termination_message(self.cx, job);
        match built_in()[0].outcome(job) {
            Outcome::Running => {
                let attempt = self.status.attempts;
                let (reason, message) = match build::obstacle(self.cx, job) {
                    Some(obstacle) => {
                        (obstacle.reason, format!("attempt {attempt} cannot start: {}", obstacle.message))
                    }
                    None => (None, format!("attempt {attempt} is packing and pushing to {repository}:{tag}")),
                };
                self.building(reason.unwrap_or(Reason::ImageBuilding), &message);
            }
            outcome if message.is_none() && self.waits_for_result(job, &outcome) => plan.look_again(RESULT_POLL),
            Outcome::Succeeded { .. } => {
                let missing = || BuildError {
                    reason: Reason::ResultMissing,
                    message: "the builder ended without a result".to_owned(),
                    is_permanent: false,
                };
                match message.ok_or_else(missing).and_then(|message| build::result(message, &repository)) {
                    Ok(result) => self.succeed(result),
                    Err(error) => self.retry(plan, job, &error, &repository, &tag),
                }
            }
            Outcome::Failed { .. } => {
                let error = build::failure(message, job);
                self.retry(plan, job, &error, &repository, &tag);
            }
        }
    }

    fn waits_for_result(&self, job: &Value, outcome: &Outcome) -> bool {
        let is_late = read::condition(job, "Failed").is_some_and(|condition| condition["reason"] == "DeadlineExceeded");
        let grace = if matches!(outcome, Outcome::Succeeded { .. }) { RESULT_GRACE } else { RESULT_GRACE / 5 };
        !is_late && ended(job).is_some_and(|ended| self.cx.left(ended, grace).is_some())
    }

    fn attempt(&mut self, plan: &mut Plan, repository: &str, tag: &str, number: u32) {
        let attempt = Attempt {
            version: self.live,
            spec: self.spec,
            spec_hash: &self.hash,
            repository,
            tag,
            number,
            deadline: self.time_left().unwrap_or(DEFAULT_DEADLINE),
        };
        let job = build::job(self.cx, &attempt);
        let refused = Key::of(&job).and_then(|key| self.cx.world.rejection(&key));
        if let Some(rejection) = refused {
            let reason = refusal::reason(&rejection.message);
            let message = format!("the builder Job was refused: {}{}", rejection.message, refusal::advice(reason));
            if !rejection.may_pass {
                return self.fail(&BuildError { reason, message, is_permanent: true });
            }
            self.status.attempts = number;
            self.building(reason, &message);
            match self.cx.left(rejection.at, REFUSED_AGAIN_AFTER) {
                Some(left) => plan.look_again(left),
                None => plan.push(Action::Create(job)),
            }
            return;
        }
        plan.push(Action::Create(job));
        self.status.attempts = number;
        self.building(Reason::ImageBuilding, &format!("attempt {number} is starting"));
    }

    fn retry(&mut self, plan: &mut Plan, job: &Value, error: &BuildError, repository: &str, tag: &str) {
        self.status.log = Some(conditions::shortened(&error.message, LOG_MAX)).filter(|log| !log.is_empty());
        let number = attempt_of(job);
        if error.is_permanent || number > self.retries() {
            return self.fail(error);
        }
        let wait = BACKOFF.saturating_mul(1 << (number - 1).min(10)).min(BACKOFF_MAX);
        let Some(time_left) = self.time_left().filter(|left| *left > wait) else {
            let message = format!("the build's deadline passed after {number} attempts: {}", error.message);
            return self.fail(&BuildError { reason: Reason::DeadlineExceeded, message, is_permanent: true });
        };
        match ended(job).and_then(|ended| self.cx.left(ended, wait)) {
            None => self.attempt(plan, repository, tag, number + 1),
            Some(left) => {
                plan.look_again(left.min(time_left));
                let message = format!("attempt {number} failed, the next follows: {}", error.message);
                self.building(Reason::BuildRetrying, &message);
            }
        }
    }

    fn building(&mut self, reason: Reason, message: &str) {
        self.status.image_build_phase = Some(ImageBuildPhase::ImageBuilding);
        self.set(conditions::READY, State::False, reason, message);
        self.status.message = Some(conditions::shortened(message, LOG_MAX));
    }

    fn fail(&mut self, error: &BuildError) {
        self.status.image_build_phase = Some(ImageBuildPhase::ImageBuildFailed);
        self.status.finish_time = Some(conditions::whole_second(self.cx.now).to_string());
        self.status.message = Some(conditions::shortened(&error.message, LOG_MAX));
        self.set(conditions::READY, State::False, error.reason, &error.message);
        self.set(conditions::STALLED, State::True, error.reason, &error.message);
    }

    fn succeed(&mut self, result: BuildResult) {
        let metrics = result.metrics.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
        let mut all = self.spec.provenance.as_ref().map(|known| known.metrics.clone()).unwrap_or_default();
        all.extend(metrics.take(64));
        let message = format!("published as {}", result.image);
        self.status = ModelVersionStatus {
            image: Some(result.image),
            image_build_phase: Some(ImageBuildPhase::ImageBuildSucceeded),
            finish_time: Some(conditions::whole_second(self.cx.now).to_string()),
            message: Some(message),
            digest: Some(result.digest),
            size_bytes: Some(result.size_bytes),
            files: Some(result.files),
            format: result.format,
            parameter_count: result.parameter_count,
            upload: result.upload,
            metrics: all,
            log: None,
            ..std::mem::take(&mut self.status)
        };
        conditions::remove(&mut self.status.conditions, conditions::STALLED);
        self.set(conditions::READY, State::True, Reason::ImageBuildSucceeded, "");
    }

    /// Where the image goes, or why nowhere.
    fn repository(&self) -> Result<String, BuildError> {
        let permanent = |reason, message| BuildError { reason, message, is_permanent: true };
        check_storage(self.cx, &self.spec.storage).map_err(|error| permanent(error.reason, error.message))?;
        let namespace = read::text(self.live, "/metadata/namespace");
        let registry = self.cx.settings.default_registry.as_deref();
        let repository = match (&self.spec.image_repo, registry) {
            (Some(repository), _) => repository.trim_end_matches('/').to_owned(),
            (None, Some(registry)) => names::image_repository(registry, namespace, &self.spec.model_name),
            (None, None) => {
                let message = "spec.imageRepo is not set and the controller has no default registry: set \
                               spec.imageRepo, or start the controller with --default-registry";
                return Err(permanent(Reason::RegistryUnknown, message.to_owned()));
            }
        };
        if is_repository(&repository) {
            return Ok(repository);
        }
        let message = format!("spec.imageRepo is \"{repository}\": write host[:port]/path without tag and digest");
        Err(permanent(Reason::InvalidSpec, message))
    }

    /// The tag: as asked for, else as decided before, else the first characters of the UID that are free.
    fn tag(&self, repository: &str) -> String {
        if let Some(tag) = self.spec.image_tag.as_ref().or(self.status.tag.as_ref()) {
            return tag.clone();
        }
        let uid = read::uid(self.live);
        let namespace = read::text(self.live, "/metadata/namespace");
        let is_taken = |tag: &str| {
            self.cx.world.list(Kind::ModelVersion, namespace).any(|other| {
                read::uid(other) != uid
                    && (read::text(other, "/status/tag") == tag || read::text(other, "/spec/imageTag") == tag)
                    && (read::text(other, "/spec/modelName") == self.spec.model_name
                        || read::text(other, "/spec/imageRepo") == repository)
            })
        };
        let lengths = (5..uid.len()).filter_map(|length| uid.get(..length));
        lengths.map(|tag| tag.trim_end_matches('-')).find(|tag| !is_taken(tag)).unwrap_or(uid).to_owned()
    }

    fn jobs(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let (cx, live) = (self.cx, self.live);
        let jobs = cx.world.list(Kind::Job, read::text(live, "/metadata/namespace"));
        jobs.filter(|job| read::is_controlled_by(job, read::uid(live)))
    }

    fn is_ours(&self, job: &Value) -> bool {
        read::annotation(job, labels::SPEC_HASH) == Some(&self.hash)
    }

    fn retries(&self) -> u32 {
        self.spec.build_policy.as_ref().and_then(|policy| policy.retries).unwrap_or(DEFAULT_RETRIES)
    }

    /// Time until the build's deadline; an unreadable deadline is the default one.
    fn time_left(&self) -> Option<Duration> {
        let deadline = self.spec.build_policy.as_ref().and_then(|policy| policy.deadline.as_deref());
        let deadline = deadline.and_then(|text| duration::parse(text).ok()).unwrap_or(DEFAULT_DEADLINE);
        let started = self.status.start_time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
        self.cx.left(started.unwrap_or(self.cx.now), deadline)
    }

    fn set(&mut self, type_: &str, state: State, reason: Reason, message: &str) {
        let generation = generation(self.live);
        conditions::set(&mut self.status.conditions, type_, state, reason, message, generation, self.cx.now);
    }
}

/// Tells about a new phase; of a failed build the training job too, where people look first.
fn tell(cx: &Context, plan: &mut Plan, live: &Value, spec: &ModelVersionSpec, status: &ModelVersionStatus) {
    let Some(ready) = conditions::find(&status.conditions, conditions::READY) else { return };
    let before = read::condition(live, conditions::READY).unwrap_or(&Value::Null);
    if before["reason"] == ready.reason.as_str() && before["status"] == ready.status.as_str() {
        return;
    }
    let reason = Reason::ALL.iter().copied().find(|reason| reason.as_str() == ready.reason);
    let is_warning = !matches!(reason, Some(Reason::ImageBuilding | Reason::ImageBuildSucceeded));
    let message = status.message.clone().unwrap_or_default();
    let reason = reason.unwrap_or(Reason::ImageBuilding);
    plan.tell(live, is_warning, reason, message.as_str());
    if status.image_build_phase == Some(ImageBuildPhase::ImageBuildFailed)
        && let Some(job) = training_job(cx, live, spec)
    {
        let name = read::name(live);
        plan.tell(
            job,
            true,
            reason,
            format!("the output was not published, ModelVersion {name} has no image: {message}"),
        );
    }
}

/// The job whose output the version is, while it exists.
fn training_job<'a>(cx: &Context<'a>, live: &Value, spec: &ModelVersionSpec) -> Option<&'a Value> {
    let job = spec.provenance.as_ref()?.job.as_ref()?;
    let found = cx.world.get(Kind::Job, read::text(live, "/metadata/namespace"), &job.name)?;
    (job.kind == Kind::Job.as_str() && read::uid(found) == job.uid).then_some(found)
}

fn generation(object: &Value) -> Option<i64> {
    object.pointer("/metadata/generation").and_then(Value::as_i64)
}

fn attempt_of(job: &Value) -> u32 {
    read::annotation(job, labels::ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// When a finished Job ended.
fn ended(job: &Value) -> Option<Timestamp> {
    read::time(job, "/status/completionTime").or_else(|| {
        let end = read::condition(job, "Failed").or_else(|| read::condition(job, "Complete"));
        end.and_then(|condition| read::time(condition, "/lastTransitionTime"))
    })
}

/// Whether the text is `host[:port]/path` in lower case, without tag and digest.
fn is_repository(text: &str) -> bool {
    let Some((host, path)) = text.split_once('/') else { return false };
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-/".contains(c);
    !host.is_empty()
        && host.chars().all(is_host)
        && path.chars().all(is_path)
        && path.split('/').all(|part| !part.is_empty())
}
