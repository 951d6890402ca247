//! From the command line to the options of a run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use modelway_tuner::load::body::{Payload, Table, Template, TensorOptions};
use modelway_tuner::load::http::RequestPlan;
use modelway_tuner::load::outcome::Expectation;
use modelway_tuner::load::protocols::{Completion, inference_bodies, inference_target, openai};
use modelway_tuner::load::{Constraint, LoadError, Options, Pattern, Source, Target, trace};

use crate::args::{ArrivalArguments, LoadArguments, Protocol, RequestArguments, Spread};

/// How long is measured unless said otherwise.
const DURATION: Duration = Duration::from_secs(10);
/// Different random bodies of the Open Inference Protocol.
const BODIES: u64 = 64;
/// Failures that a search bears when no constraint speaks of them.
const ERRORS: f64 = 0.01;

pub fn options(arguments: &LoadArguments) -> Result<Options, LoadError> {
    let arrivals = &arguments.arrivals;
    let seed = arrivals.seed;
    let table = arguments.request.columns.as_deref().map(Table::read).transpose()?;
    let (target, payload) = requests(&arguments.request, &Target::parse(&arguments.url)?, table.as_ref(), seed)?;
    let method = method(&arguments.request, &payload);
    let headers = headers(&arguments.request)?;
    let plan = Arc::new(RequestPlan::new(&method, &target, &headers, payload, table, seed)?);
    let judgement = &arguments.judgement;
    let expectation = Expectation::default().with_status(&judgement.expect_status).map_err(LoadError::Input)?;
    let expectation = match &judgement.expect_body {
        Some(text) => expectation.with_body(text),
        None => expectation,
    };
    let mut constraints = judgement.constraints.clone();
    if arrivals.search && !constraints.iter().any(|constraint| matches!(constraint, Constraint::Errors { .. })) {
        constraints.push(Constraint::Errors { limit: ERRORS });
    }
    let ends = arrivals.requests.is_some() || arrivals.trace.is_some();
    Ok(Options {
        target,
        plan,
        expectation,
        tokens: arguments.request.protocol == Protocol::Openai,
        source: source(arrivals)?,
        seed,
        warm_up: arrivals.warm_up,
        duration: arrivals.duration.or((!ends).then_some(DURATION)),
        requests: arrivals.requests,
        timeout: arrivals.timeout,
        max_connections: arrivals.max_connections,
        threads: arrivals.threads,
        constraints,
    })
}

fn source(arrivals: &ArrivalArguments) -> Result<Source, LoadError> {
    if let Some(users) = arrivals.users {
        return Ok(Source::Closed { users, think: arrivals.think });
    }
    if let Some(path) = &arrivals.trace {
        return Ok(Source::Open(Pattern::Trace { offsets: trace::read(path)? }));
    }
    let rate = match (arrivals.rate, arrivals.search) {
        (Some(rate), _) => rate,
        (None, true) => 1.0, // replaced by each probe's
        (None, false) => {
            let problem = "say how many requests to send: --rate, --users, --trace or --search";
            return Err(LoadError::Input(problem.to_owned()));
        }
    };
    Ok(Source::Open(match arrivals.arrivals {
        Spread::Poisson => Pattern::Poisson { rate },
        Spread::Constant => Pattern::Constant { rate },
    }))
}

fn requests(
    request: &RequestArguments,
    target: &Target,
    table: Option<&Table>,
    seed: u64,
) -> Result<(Target, Payload), LoadError> {
    let own = own_payload(request, table)?;
    match request.protocol {
        Protocol::Http => Ok((target.clone(), own.unwrap_or(Payload::Empty))),
        Protocol::Openai => {
            let completion = Completion {
                model: request.model.clone(),
                prompt: request.prompt.clone(),
                max_tokens: request.max_tokens,
                stream: !request.no_stream,
            };
            let (target, payload) = openai(target, &completion, table)?;
            Ok((target, own.unwrap_or(payload)))
        }
        Protocol::V2 => {
            let shapes = request.shapes.iter().cloned().collect();
            let options = TensorOptions { batch: request.batch, shapes, bodies: BODIES, seed };
            let payload = own.map_or_else(|| inference_bodies(target, &options), Ok)?;
            Ok((inference_target(target), payload))
        }
    }
}

fn own_payload(request: &RequestArguments, table: Option<&Table>) -> Result<Option<Payload>, LoadError> {
    if let Some(folder) = &request.folder {
        return Payload::folder(folder).map(Some);
    }
    let Some(data) = &request.data else { return Ok(None) };
    let text = match data.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|source| LoadError::file(Path::new(path), &source))?,
        None => data.clone().into_bytes(),
    };
    Ok(Some(Payload::Template(Template::parse(&text, table).map_err(LoadError::Input)?)))
}

fn method(request: &RequestArguments, payload: &Payload) -> String {
    let usual = if matches!(payload, Payload::Empty) { "GET" } else { "POST" };
    request.method.clone().unwrap_or_else(|| usual.to_owned())
}

fn headers(request: &RequestArguments) -> Result<Vec<(String, String)>, LoadError> {
    let split = |header: &String| {
        let (name, value) = header.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let wrong = |header: &str| LoadError::Input(format!("header {header:?}: write it as 'name: value'"));
    let mut headers = Vec::new();
    for header in &request.headers {
        headers.push(split(header).ok_or_else(|| wrong(header))?);
    }
    let typed = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if request.protocol != Protocol::Http && !typed {
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    Ok(headers)
}
