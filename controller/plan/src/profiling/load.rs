//! The command line of Modelway's load generator for one trial.

use std::time::Duration;

use modelway_api::{
    duration,
    load::{Arrival, Load, LoadTarget},
    objective::{Objective, ObjectiveConstraint},
};

use super::{
    error::QuestionError,
    metrics::{self, ERRORS, RATE},
    values,
};

/// Load before anything is measured.
const WARM_UP: Duration = Duration::from_secs(15);
/// What is measured.
const WINDOW: Duration = Duration::from_mins(1);
const WINDOW_MAX: Duration = Duration::from_hours(6);
/// A short probe is this part of the window.
const PROBE_SHARE: u32 = 4;
const PROBE_LEAST: Duration = Duration::from_millis(500);
/// A search takes about ten probes and a few certificates; more than this and it hangs.
const PROBES: u32 = 40;
const CERTIFICATES: u32 = 8;
/// For connecting, answers that are late, and pulling the image.
const SLACK: Duration = Duration::from_mins(3);
/// Highest rate that can be asked for, in requests per second.
const RATE_MAX: f64 = 1e6;
/// Every trial sends the same requests at the same moments.
const SEED: &str = "1";
/// Where bodies of a `ConfigMap` are.
pub const PAYLOADS: &str = "/payloads";

/// A load that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// Everything after `modelway load`, but for where to and where the result goes.
    pub arguments: Vec<String>,
    /// Path of the requests.
    pub path: String,
    /// Longest time that it may take.
    pub limit: Duration,
    /// `ConfigMap` with the bodies.
    pub payloads: Option<String>,
    /// The load is as much as the service bears.
    pub searches: bool,
}

/// Plans the load of a trial.
pub fn plan(load: Option<&Load>, objective: Option<&Objective>, body: Option<&str>) -> Result<LoadPlan, QuestionError> {
    let load = load.cloned().unwrap_or_default();
    let (warm_up, window) =
        (time("load.warmup", load.warmup.as_ref(), WARM_UP)?, time("load.window", load.window.as_ref(), WINDOW)?);
    if window.is_zero() {
        return Err(QuestionError::field("load.window", "0", "measure for a while, such as 60s"));
    }
    let searches = searches(&load);
    let mut arguments = vec!["--seed".to_owned(), SEED.to_owned(), "--warm-up".to_owned(), seconds(warm_up)];
    let limit = if searches {
        let probe = (window / PROBE_SHARE).max(PROBE_LEAST);
        arguments.extend([
            "--search".to_owned(),
            "--probe".to_owned(),
            seconds(probe),
            "--certify".to_owned(),
            seconds(window),
        ]);
        (warm_up + probe) * PROBES + (warm_up + window) * CERTIFICATES
    } else {
        arguments.extend(["--duration".to_owned(), seconds(window)]);
        arguments.extend(arrivals(&load)?);
        warm_up + window * 2
    };
    arguments.extend(constraints(&load, objective, searches)?);
    arguments.extend(requests(&load, body));
    let path = load.path.clone().unwrap_or_else(|| default_path(load.target).to_owned());
    let payloads = load.payloads.map(|payloads| payloads.config_map);
    Ok(LoadPlan { arguments, path, limit: limit + SLACK, payloads, searches })
}

impl LoadPlan {
    /// A search begins where the rate is expected, and finds the limit with fewer probes.
    pub fn expect(&mut self, rate: Option<f64>) {
        if let Some(rate) = rate.filter(|rate| self.searches && *rate > 0.0 && *rate <= RATE_MAX) {
            self.arguments.extend(["--expected-rate".to_owned(), rate.to_string()]);
        }
    }
}

/// Whether the load is as much as the service bears: where nobody says how much it is.
pub fn searches(load: &Load) -> bool {
    load.rate_search.unwrap_or(load.rate.is_none() && load.users.is_none())
}

fn time(field: &str, text: Option<&String>, default: Duration) -> Result<Duration, QuestionError> {
    let Some(text) = text else { return Ok(default) };
    let time = duration::parse(text).ok().filter(|time| *time <= WINDOW_MAX);
    time.ok_or_else(|| QuestionError::field(field, text, "write a time of at most 6h, such as 30s"))
}

fn seconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

fn arrivals(load: &Load) -> Result<Vec<String>, QuestionError> {
    if let Some(users) = load.users {
        let mut arguments = vec!["--users".to_owned(), users.to_string()];
        if let Some(think) = &load.think {
            let think = time("load.think", Some(think), Duration::ZERO)?;
            arguments.extend(["--think".to_owned(), format!("{}us", think.as_micros())]);
        }
        return Ok(arguments);
    }
    let Some(rate) = load.rate else {
        return Err(QuestionError::Missing {
            field: "load.rate",
            wanted: "say how many requests a second, or rateSearch: true",
        });
    };
    if !(rate > 0.0 && rate <= RATE_MAX) {
        return Err(QuestionError::field("load.rate", &rate.to_string(), "use a number above 0, at most 1000000"));
    }
    let spread = match load.arrival.unwrap_or_default() {
        Arrival::Poisson | Arrival::Closed => "poisson",
        Arrival::Constant => "constant",
    };
    Ok(vec!["--rate".to_owned(), rate.to_string(), "--arrivals".to_owned(), spread.to_owned()])
}

/// Limits that the generator judges each request by.
fn constraints(load: &Load, objective: Option<&Objective>, searches: bool) -> Result<Vec<String>, QuestionError> {
    let mut arguments = Vec::new();
    let mut is_bounded = false;
    for constraint in objective.into_iter().flat_map(|objective| &objective.constraints) {
        let name = metrics::own_name(&constraint.metric, load.percentile.as_deref());
        let (is_upper, limit) = limit(constraint)?;
        // A search keeps what each request shows; a mean is learned.
        let is_shown = metrics::is_time(&name) && !(searches && metrics::is_mean(&name));
        if !is_upper || !(is_shown || name == ERRORS) {
            continue;
        }
        is_bounded |= is_shown;
        let unit = if name == ERRORS { "" } else { "s" };
        arguments.extend(["--constraint".to_owned(), format!("{name}<={limit}{unit}")]);
    }
    if searches && !is_bounded {
        return Err(QuestionError::Missing {
            field: "objective.constraints",
            wanted: "the highest rate is found by a limit on a time, such as {metric: latency.p95, max: 50ms}; or give load.rate or load.users",
        });
    }
    Ok(arguments)
}

/// Whether it is an upper limit, and the limit.
pub fn limit(constraint: &ObjectiveConstraint) -> Result<(bool, f64), QuestionError> {
    let field = || format!("objective.constraints: {}", constraint.metric);
    let (is_upper, text) = match (&constraint.max, &constraint.min) {
        (Some(max), None) => (true, max),
        (None, Some(min)) => (false, min),
        _ => return Err(QuestionError::field(field(), "", "a constraint has either max or min")),
    };
    let limit = values::limit(text).ok_or_else(|| {
        QuestionError::field(field(), text, "write a number, a share such as 1%, or a time such as 50ms")
    })?;
    if is_upper && metrics::own_name(&constraint.metric, None) == ERRORS && !(0.0..1.0).contains(&limit) {
        return Err(QuestionError::field(field(), text, "a share of failed requests is below 1"));
    }
    if is_upper && metrics::is_time(&metrics::own_name(&constraint.metric, None)) && limit <= 0.0 {
        return Err(QuestionError::field(field(), text, "no answer comes in no time"));
    }
    Ok((is_upper, limit))
}

/// Whether a search sees to it that the constraint holds, so that nothing is left to learn of it.
pub fn is_kept_by_search(constraint: &ObjectiveConstraint) -> bool {
    let name = metrics::own_name(&constraint.metric, None);
    constraint.max.is_some() && !metrics::is_mean(&name) && (metrics::is_time(&name) || name == ERRORS)
}

fn requests(load: &Load, body: Option<&str>) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    match load.target.unwrap_or_default() {
        LoadTarget::Http => {}
        LoadTarget::Openai => {
            add(&["--protocol", "openai"]);
            load.model.iter().for_each(|model| add(&["--model", model]));
            load.max_tokens.iter().for_each(|tokens| add(&["--max-tokens", &tokens.to_string()]));
        }
        LoadTarget::InferenceProtocol => {
            add(&["--protocol", "v2"]);
            load.batch.iter().for_each(|batch| add(&["--batch", &batch.to_string()]));
        }
    }
    if load.payloads.is_some() {
        add(&["--folder", PAYLOADS]);
    } else if let Some(body) = body.filter(|body| !body.is_empty()) {
        if load.target == Some(LoadTarget::Openai) {
            add(&[&format!("--prompt={body}")]);
        } else {
            add(&[&format!("--data={body}")]);
            if body.trim_start().starts_with(['{', '[']) && load.target.unwrap_or_default() == LoadTarget::Http {
                add(&["--header", "content-type: application/json"]);
            }
        }
    }
    arguments
}

fn default_path(target: Option<LoadTarget>) -> &'static str {
    match target.unwrap_or_default() {
        LoadTarget::Http => "/",
        LoadTarget::Openai => "/v1",
        LoadTarget::InferenceProtocol => "/v2",
    }
}

/// Objective by which the lowest cost is looked for; no client reports it.
pub const COST: &str = "cost";

/// The metric by which trials without an objective of their own are compared.
pub fn objective_metric(objective: Option<&Objective>) -> &str {
    objective.and_then(|objective| objective.objective_metric_name.as_deref()).unwrap_or(RATE)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn planned(load: Value, objective: Value) -> Result<LoadPlan, QuestionError> {
        let (load, objective): (Load, Objective) =
            (serde_json::from_value(load).unwrap(), serde_json::from_value(objective).unwrap());
        plan(Some(&load), Some(&objective), Some("{\"a\": 1}"))
    }

    #[test]
    fn a_search_begins_where_the_rate_is_expected() {
        let limit = json!({"constraints": [{"metric": "latency", "max": "50ms"}]});
        let arguments = |load: Value, rate: Option<f64>| {
            let mut plan = planned(load, limit.clone()).unwrap();
            plan.expect(rate);
            plan.arguments.join(" ")
        };
        assert!(arguments(json!({}), Some(1250.5)).ends_with(" --expected-rate 1250.5"));
        for (load, rate) in [
            (json!({}), None),
            (json!({}), Some(-1.0)),
            (json!({}), Some(1e30)),
            (json!({"rate": 20.0}), Some(1250.5)),
            (json!({"users": 2}), Some(1250.5)),
        ] {
            assert!(!arguments(load, rate).contains("--expected-rate"));
        }
    }

    #[test]
    fn a_search_keeps_the_limits_on_times_and_errors() {
        let plan = planned(
            json!({"path": "/x", "window": "8s", "warmup": "1s", "percentile": "p99"}),
            json!({"constraints": [{"metric": "latency", "max": "50ms"}, {"metric": "errors", "max": "1%"}, {"metric": "accuracy", "min": "0.9"}]}),
        )
        .unwrap();
        let text = plan.arguments.join(" ");
        assert!(
            text.contains(
                "--search --probe 2000ms --certify 8000ms --constraint latency.p99<=0.05s --constraint errors<=0.01"
            ),
            "{text}"
        );
        assert!(text.contains("content-type: application/json") && !text.contains("accuracy"), "{text}");
        assert!(plan.searches && plan.limit > Duration::from_mins(1));
    }

    #[test]
    fn a_given_load_needs_no_constraint() {
        let plan = planned(json!({"rate": 20.5, "arrival": "Constant"}), json!({})).unwrap();
        assert!(plan.arguments.join(" ").contains("--rate 20.5 --arrivals constant"));
        let plan =
            planned(json!({"users": 4, "arrival": "Closed", "target": "openai", "model": "m"}), json!({})).unwrap();
        assert!(plan.arguments.join(" ").contains("--users 4 --protocol openai --model m --prompt="));
        let thinking = planned(json!({"users": 4, "think": "1.5ms"}), json!({})).unwrap();
        assert!(thinking.arguments.join(" ").contains("--users 4 --think 1500us"));
        assert!(planned(json!({"users": 4, "think": "soon"}), json!({})).is_err());
        assert_eq!(plan.path, "/v1");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (load, objective, expected) in [
            (json!({}), json!({}), "objective.constraints is missing"),
            (
                json!({}),
                json!({"constraints": [{"metric": "latency.mean", "max": "50ms"}]}),
                "objective.constraints is missing",
            ),
            (json!({"rate": -1.0}), json!({}), "load.rate is \"-1\""),
            (json!({"rateSearch": false}), json!({}), "load.rate is missing"),
            (json!({"window": "soon", "rate": 1.0}), json!({}), "load.window is \"soon\""),
            (json!({"window": "0", "rate": 1.0}), json!({}), "load.window"),
            (json!({}), json!({"constraints": [{"metric": "latency.p95", "max": "fast"}]}), "\"fast\""),
            (json!({}), json!({"constraints": [{"metric": "errors", "max": "200%"}]}), "below 1"),
            (json!({}), json!({"constraints": [{"metric": "p95", "max": "0"}]}), "no time"),
        ] {
            let message = planned(load, objective).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}
