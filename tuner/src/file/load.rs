//! From the file's load to the options of a run.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{ArrivalKind, FileError, LoadFile, TargetKind};
use crate::load::body::{Payload, Table, Template, TensorOptions};
use crate::load::http::RequestPlan;
use crate::load::outcome::Expectation;
use crate::load::protocols::{Completion, inference_bodies, inference_target, openai};
use crate::load::search::Settings;
use crate::load::{Constraint, LoadError, Options, Pattern, Source, Target, drive};

/// Long enough for caches, compilers and pools of most servers.
const WARM_UP: Duration = Duration::from_secs(15);
/// Long enough for a p95 at a few requests a second.
const WINDOW: Duration = Duration::from_mins(1);
const PROBE: Duration = Duration::from_secs(15);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Different random bodies of the Open Inference Protocol.
const BODIES: u64 = 64;
/// Failures that a search bears when no constraint speaks of them.
const ERRORS: f64 = 0.01;
/// Gaps above this rate are less than a nanosecond.
const MAX_RATE: f64 = 1e9;

/// How load is sent in every trial.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    file: LoadFile,
    folder: PathBuf,
    seed: u64,
    constraints: Vec<Constraint>,
    source: Option<Source>,
}

impl LoadPlan {
    /// Checks the fields; paths are relative to `folder`.
    pub fn new(file: LoadFile, folder: &Path, constraints: Vec<Constraint>, seed: u64) -> Result<Self, FileError> {
        let source = source(&file)?;
        let mut constraints = constraints;
        let errors = |constraint: &Constraint| matches!(constraint, Constraint::Errors { .. });
        if source.is_none() && !constraints.iter().any(errors) {
            constraints.push(Constraint::Errors { limit: ERRORS });
        }
        if source.is_none() && !drive::is_bounded(&constraints) {
            let problem = "a search for the highest rate needs a constraint on a percentile, such as p95<=50ms";
            return Err(FileError::field("load.rateSearch", problem));
        }
        let plan = Self { file, folder: folder.to_owned(), seed, constraints, source };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), FileError> {
        let zero = |name: &str, span: Option<super::Span>| match span {
            Some(span) if span.0.is_zero() => Err(FileError::field(format!("load.{name}"), "must be above 0")),
            _ => Ok(()),
        };
        zero("window", self.file.window)?;
        zero("probe", self.file.probe)?;
        zero("timeout", self.file.timeout)?;
        // Bodies of the Open Inference Protocol are made from what the server says; all else can be tried now.
        if self.file.target != TargetKind::InferenceProtocol {
            self.options("http://127.0.0.1:1/")?;
        }
        Ok(())
    }

    /// What the load generator holds each trial against.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Whether each trial looks for its highest rate.
    pub fn is_search(&self) -> bool {
        self.source.is_none()
    }

    /// Sent before measuring.
    pub fn warm_up(&self) -> Duration {
        self.file.warmup.map_or(WARM_UP, |span| span.0)
    }

    /// Measured in a trial of the search.
    pub fn window(&self) -> Duration {
        self.file.window.map_or(WINDOW, |span| span.0)
    }

    /// How a search goes about it; `prediction` is `ln` of the rate expected, with its deviation.
    pub fn settings(&self, window: Duration, prediction: Option<(f64, f64)>) -> Settings {
        let usual = Settings::new(drive::certify_requests(&self.constraints));
        Settings {
            prediction,
            probe: self.file.probe.map_or(PROBE, |span| span.0),
            certify: window,
            highest: self.file.highest_rate.unwrap_or(usual.highest),
            ..usual
        }
    }

    /// Options of a run against this URL; the window is that of a trial of the search.
    pub fn options(&self, url: &str) -> Result<Options, LoadError> {
        let file = &self.file;
        let table = file.columns.as_deref().map(|path| Table::read(&self.folder.join(path))).transpose()?;
        let target = self.target(url)?;
        let (target, payload) = self.requests(&target, table.as_ref())?;
        let usual = if matches!(payload, Payload::Empty) { "GET" } else { "POST" };
        let method = file.method.as_deref().unwrap_or(usual);
        let plan = Arc::new(RequestPlan::new(method, &target, &self.headers(), payload, table, self.seed)?);
        let expectation = match &file.expect_status {
            Some(text) => Expectation::default().with_status(text).map_err(LoadError::Input)?,
            None => Expectation::default(),
        };
        let expectation = match &file.expect_body {
            Some(text) => expectation.with_body(text),
            None => expectation,
        };
        Ok(Options {
            target,
            plan,
            expectation,
            tokens: file.target == TargetKind::Openai,
            // Replaced by each probe's in a search.
            source: self.source.clone().unwrap_or(Source::Open(Pattern::Poisson { rate: 1.0 })),
            seed: self.seed,
            warm_up: self.warm_up(),
            duration: Some(self.window()),
            requests: None,
            timeout: file.timeout.map_or(TIMEOUT, |span| span.0),
            max_connections: file.connections.and_then(NonZeroUsize::new),
            threads: file.threads.and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN),
            constraints: self.constraints.clone(),
        })
    }

    fn target(&self, url: &str) -> Result<Target, LoadError> {
        let target = Target::parse(url)?;
        Ok(match &self.file.path {
            Some(path) if path.starts_with('/') => target.with_path(path),
            Some(path) => target.with_path(&format!("/{path}")),
            None => target,
        })
    }

    fn requests(&self, target: &Target, table: Option<&Table>) -> Result<(Target, Payload), LoadError> {
        let file = &self.file;
        let own = self.own_payload(table)?;
        match file.target {
            TargetKind::Http => Ok((target.clone(), own.unwrap_or(Payload::Empty))),
            TargetKind::Openai => {
                let completion = Completion {
                    model: file.model.clone().unwrap_or_else(|| "default".to_owned()),
                    prompt: file.prompt.clone().unwrap_or_else(|| "Tell me about {{random:1000000}}.".to_owned()),
                    max_tokens: file.max_tokens.unwrap_or(128),
                    stream: file.stream.unwrap_or(true),
                };
                let (target, payload) = openai(target, &completion, table)?;
                Ok((target, own.unwrap_or(payload)))
            }
            TargetKind::InferenceProtocol => {
                let shapes = file.shapes.clone().into_iter().collect();
                let batch = file.batch.unwrap_or(1);
                let options = TensorOptions { batch, shapes, bodies: BODIES, seed: self.seed };
                let payload = own.map_or_else(|| inference_bodies(target, &options), Ok)?;
                Ok((inference_target(target), payload))
            }
        }
    }

    fn own_payload(&self, table: Option<&Table>) -> Result<Option<Payload>, LoadError> {
        let file = &self.file;
        if let Some(folder) = &file.folder {
            return Payload::folder(&self.folder.join(folder)).map(Some);
        }
        let text = match (&file.body, &file.body_file) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(path)) => {
                let path = self.folder.join(path);
                std::fs::read(&path).map_err(|source| LoadError::file(&path, &source))?
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Payload::Template(Template::parse(&text, table).map_err(LoadError::Input)?)))
    }

    fn headers(&self) -> Vec<(String, String)> {
        let mut headers: Vec<(String, String)> =
            self.file.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if self.file.target != TargetKind::Http && !typed {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        headers
    }

    /// For the record. Values of headers may be secrets and stay out.
    pub fn describe(&self) -> Value {
        let file = &self.file;
        let target = match file.target {
            TargetKind::Http => "http",
            TargetKind::Openai => "openai",
            TargetKind::InferenceProtocol => "inference-protocol",
        };
        let arrival = match &self.source {
            None => json!({"rateSearch": true, "highestRate": file.highest_rate}),
            Some(Source::Open(Pattern::Poisson { rate })) => json!({"arrival": "Poisson", "rate": rate}),
            Some(Source::Open(Pattern::Constant { rate })) => json!({"arrival": "Constant", "rate": rate}),
            Some(Source::Open(Pattern::Trace { offsets })) => json!({"arrival": "Trace", "requests": offsets.len()}),
            Some(Source::Closed { users, think }) => {
                json!({"arrival": "Closed", "users": users, "think": think.as_secs_f64()})
            }
        };
        let constraints: Vec<String> = self.constraints.iter().map(ToString::to_string).collect();
        let mut described = json!({
            "target": target,
            "path": file.path,
            "method": file.method,
            "headers": file.headers.keys().collect::<Vec<_>>(),
            "warmupSeconds": self.warm_up().as_secs_f64(),
            "windowSeconds": self.window().as_secs_f64(),
            "constraints": constraints,
            "seed": self.seed,
        });
        if let (Some(all), Value::Object(arrival)) = (described.as_object_mut(), arrival) {
            all.extend(arrival);
            all.retain(|_, value| !value.is_null());
        }
        described
    }
}

/// When requests come; none in a search for the highest rate.
fn source(file: &LoadFile) -> Result<Option<Source>, FileError> {
    let wrong = |field: &str, problem: &str| Err(FileError::field(format!("load.{field}"), problem));
    for (name, rate) in [("rate", file.rate), ("highestRate", file.highest_rate)] {
        if rate.is_some_and(|rate| !(rate > 0.0 && rate <= MAX_RATE)) {
            return wrong(name, "must be above 0, and at most 1e9 requests per second");
        }
    }
    if file.rate_search {
        if file.rate.is_some() || file.users.is_some() || file.arrival != ArrivalKind::Poisson {
            return wrong("rateSearch", "finds its own rate of Poisson arrivals: leave out rate, users and arrival");
        }
        return Ok(None);
    }
    let closed = file.arrival == ArrivalKind::Closed || (file.users.is_some() && file.rate.is_none());
    match (closed, file.users.and_then(NonZeroU64::new), file.rate) {
        (true, Some(users), None) => {
            Ok(Some(Source::Closed { users, think: file.think.map_or(Duration::ZERO, |span| span.0) }))
        }
        (true, Some(_), Some(_)) => wrong("rate", "users in a closed loop have no rate: leave one of both out"),
        (true, None, _) => wrong("users", "arrival Closed needs users, at least one"),
        (false, _, Some(rate)) if file.arrival == ArrivalKind::Constant => {
            Ok(Some(Source::Open(Pattern::Constant { rate })))
        }
        (false, None, Some(rate)) => Ok(Some(Source::Open(Pattern::Poisson { rate }))),
        (false, Some(_), Some(_)) => wrong("users", "a rate has no users: leave one of both out"),
        (false, _, None) => wrong("rate", "say how much load is sent: rate, users, or rateSearch: true"),
    }
}
