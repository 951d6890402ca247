//! The load generator against servers that behave, and servers that do not.
#![expect(clippy::unwrap_used, reason = "tests")]

mod ask;
mod classes;
mod fake;
mod honest;
mod peers;
mod protocols;
mod report;
mod report_markup;
mod report_states;
mod searching;
mod server;
mod tune_file;
mod tuning;
mod work;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use modelway_tuner::load::body::{Payload, Template};
use modelway_tuner::load::http::RequestPlan;
use modelway_tuner::load::outcome::{Expectation, Failure};
use modelway_tuner::load::{Control, Finished, Options, Pattern, Source, Target, run};

/// A GET, evenly spaced, for as many requests.
fn constant(url: &str, rate: f64, requests: u64) -> Options {
    options(url, Source::Open(Pattern::Constant { rate }), requests, "")
}

fn options(url: &str, source: Source, requests: u64, body: &str) -> Options {
    let target = Target::parse(url).unwrap();
    let (method, payload) = match body {
        "" => ("GET", Payload::Empty),
        text => ("POST", Payload::Template(Template::parse(text.as_bytes(), None).unwrap())),
    };
    let plan = Arc::new(RequestPlan::new(method, &target, &[], payload, None, 1).unwrap());
    Options {
        target,
        plan,
        expectation: Expectation::default(),
        tokens: false,
        source,
        seed: 1,
        warm_up: Duration::ZERO,
        duration: None,
        requests: Some(requests),
        timeout: Duration::from_secs(10),
        max_connections: None,
        threads: NonZeroUsize::MIN,
        constraints: Vec::new(),
    }
}

fn finish(options: &Options) -> Finished {
    run(options, &mut |_| Control::Continue).unwrap()
}

/// Failures of one class, after checking that there are no others.
fn only(finished: &Finished, class: Failure) -> u64 {
    let count = finished.measured.failed[class as usize];
    assert_eq!(finished.measured.failures(), count, "{:?}", finished.measured.examples);
    count
}
