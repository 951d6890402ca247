//! What a run says at its end: one document for people and programs.

use serde::Serialize;
use serde_json::{Map, Value};

use super::constraint::{Constraint, Metric, Statistic};
use super::engine::{Finished, Options};
use super::outcome::Failure;
use super::schedule::Source;
use super::statistics::{Interval, Summary, lower_bound, upper_bound};
use super::units::seconds;
use super::verdict::{self, Bound, Conduct};

/// How sure a constraint's verdict must be to be called certain (one-sided).
const CONFIDENCE: f64 = 0.95;

/// Times in seconds, rates per second.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub target: String,
    pub seed: u64,
    /// Length of the measured part.
    pub seconds: f64,
    pub stopped: bool,
    pub requests: Requests,
    pub rate: Rates,
    pub latency: Summary,
    /// 95 % interval of the median, p95 and p99, by a bootstrap over seconds.
    pub latency_intervals: Map<String, Value>,
    /// Without the wait for a connection.
    pub service_time: Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Failed requests by class, with one message of each.
    pub errors: Vec<ErrorClass>,
    pub constraints: Vec<Judged>,
    pub generator: Generator,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    pub sent: u64,
    pub ok: u64,
    pub failed: u64,
    /// Planned and never sent, because the generator was too slow.
    pub unsent: u64,
    /// Under way when the run was stopped.
    pub unfinished: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// What the plan asks for; none in the closed loop.
    pub requested: Option<f64>,
    /// Requests sent.
    pub achieved: f64,
    /// Good answers.
    pub ok: f64,
    /// Answers that meet every limit on times.
    pub goodput: f64,
    pub body_bytes: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    pub output: u64,
    pub prompt: u64,
    pub output_per_second: f64,
    pub time_to_first_token: Summary,
    pub inter_token_latency: Summary,
    pub time_per_output_token: Summary,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorClass {
    pub class: Failure,
    pub count: u64,
    pub example: String,
}

/// A constraint and what was seen.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    pub constraint: String,
    /// In seconds, a share, or requests per second; none when nothing was measured.
    pub observed: Option<f64>,
    pub limit: f64,
    pub met: bool,
    /// Whether it is known with 95 % confidence that it is met, or that it is missed.
    pub certain: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Generator {
    /// Whether the server was measured, and not the generator.
    pub valid: bool,
    pub bound: Vec<Bound>,
    /// How much later than planned requests were taken up.
    pub schedule_delay: Summary,
    pub connections: u64,
    /// Sent anew, because the server had closed an idle connection.
    pub sent_again: u64,
    pub most_in_flight: u64,
    pub reads: u64,
    pub writes: u64,
    pub waits: u64,
    pub cpu_seconds: f64,
}

/// Judges a run that has ended.
pub fn report(options: &Options, finished: &Finished) -> Report {
    let Finished { measured, work, .. } = finished;
    let per_second = |count: f64, window: f64| if window > 0.0 { count / window } else { 0.0 };
    let planned = (measured.dispatched + work.unsent) as f64;
    let requested = match &options.source {
        Source::Open(_) => Some(per_second(planned, finished.window)).filter(|_| !finished.stopped),
        Source::Closed { .. } => None,
    };
    let rate = Rates {
        requested,
        achieved: per_second(measured.dispatched as f64, finished.dispatch_window),
        ok: per_second(measured.ok as f64, finished.window),
        goodput: per_second(measured.good as f64, finished.window),
        body_bytes: per_second(measured.body_bytes as f64, finished.window),
    };
    Report {
        target: options.target.to_string(),
        seed: options.seed,
        seconds: finished.window,
        stopped: finished.stopped,
        requests: Requests {
            sent: measured.dispatched,
            ok: measured.ok,
            failed: measured.failures(),
            unsent: work.unsent,
            unfinished: work.unfinished,
        },
        rate,
        latency: measured.metric(Metric::Latency).summary(),
        latency_intervals: intervals(options, finished),
        service_time: measured.service.summary(),
        tokens: options.tokens.then(|| tokens(finished)),
        errors: errors(finished),
        constraints: options
            .constraints
            .iter()
            .enumerate()
            .map(|(index, one)| judge(one, index, finished, &rate))
            .collect(),
        generator: generator(options, finished, &rate),
    }
}

fn generator(options: &Options, finished: &Finished, rate: &Rates) -> Generator {
    let Finished { measured, work, .. } = finished;
    let bound = verdict::judge(&Conduct {
        requested_rate: rate.requested,
        achieved_rate: rate.achieved,
        unsent: work.unsent,
        delay_p99: seconds(measured.delay.quantile(0.99)),
        latency_p50: seconds(measured.metric(Metric::Latency).quantile(0.5)),
        tightest_limit: options
            .constraints
            .iter()
            .filter_map(Constraint::time_limit)
            .map(|(_, limit)| seconds(limit))
            .reduce(f64::min),
        own_failures: measured.failed[Failure::Generator as usize],
    });
    Generator {
        valid: bound.is_empty(),
        bound,
        schedule_delay: measured.delay.summary(),
        connections: work.connections,
        sent_again: work.again,
        most_in_flight: work.most_in_flight,
        reads: work.reads,
        writes: work.writes,
        waits: work.waits,
        cpu_seconds: seconds(work.cpu),
    }
}

fn intervals(options: &Options, finished: &Finished) -> Map<String, Value> {
    let percentiles = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
    let known = percentiles.iter().filter_map(|(name, quantile)| {
        let Interval { low, high, deviation } = finished.blocks.interval(*quantile, options.seed)?;
        Some(((*name).to_owned(), serde_json::json!({"low": low, "high": high, "deviation": deviation})))
    });
    known.collect()
}

fn tokens(finished: &Finished) -> Tokens {
    let measured = &finished.measured;
    Tokens {
        output: measured.tokens,
        prompt: measured.prompt_tokens,
        output_per_second: if finished.window > 0.0 { measured.tokens as f64 / finished.window } else { 0.0 },
        time_to_first_token: measured.metric(Metric::TimeToFirstToken).summary(),
        inter_token_latency: measured.metric(Metric::InterTokenLatency).summary(),
        time_per_output_token: measured.metric(Metric::TimePerOutputToken).summary(),
    }
}

fn errors(finished: &Finished) -> Vec<ErrorClass> {
    let measured = &finished.measured;
    let classes = Failure::ALL.into_iter().zip(measured.failed).filter(|(_, count)| *count > 0);
    classes
        .map(|(class, count)| {
            let example = measured.examples[class as usize].clone().unwrap_or_default();
            ErrorClass { class, count, example }
        })
        .collect()
}

fn judge(constraint: &Constraint, index: usize, finished: &Finished, rate: &Rates) -> Judged {
    let measured = &finished.measured;
    let (observed, limit) = match constraint {
        Constraint::Time { metric, statistic, limit } => {
            let times = measured.metric(*metric);
            let observed = match statistic {
                Statistic::Quantile(quantile) => seconds(times.quantile(*quantile)),
                Statistic::Mean => times.mean() / 1e9,
                Statistic::Max => seconds(times.max()),
            };
            (Some(observed).filter(|_| times.count() > 0), limit.as_secs_f64())
        }
        Constraint::Errors { limit } => {
            let all = measured.ok + measured.failures();
            (Some(measured.failures() as f64 / all as f64).filter(|_| all > 0), *limit)
        }
        Constraint::Rate { minimum } => (Some(rate.ok), *minimum),
    };
    let misses = finished.measured.misses[index];
    let (met, certain) = match (constraint, constraint.allowance()) {
        (Constraint::Rate { minimum }, _) => (rate.ok >= *minimum, false),
        // Failed requests have no latency, and have missed the limit all the same.
        (_, Some(allowance)) if misses.total > 0 => {
            let met = misses.missed as f64 <= allowance * misses.total as f64;
            let certain = if met {
                upper_bound(misses.missed, misses.total, CONFIDENCE) <= allowance
            } else {
                lower_bound(misses.missed, misses.total, CONFIDENCE) > allowance
            };
            (met, certain)
        }
        _ => (observed.is_some_and(|observed| observed <= limit), false),
    };
    Judged { constraint: constraint.to_string(), observed, limit, met, certain }
}
