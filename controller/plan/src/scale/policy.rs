//! What a predictor's `autoScale` asks for, checked and with its defaults.

use std::time::Duration;

use modelway_api::{
    duration::{self, DurationError},
    inference::{AutoScale, ScaleMetric},
};

/// Most pods where `maxReplicas` is absent: room to follow a load, and an end to a mistake.
pub const MAX_REPLICAS: u32 = 100;

/// Requests at once that fill a pod of which nothing is known. Inference is computing, not waiting: more than a few
/// requests on one pod wait for each other. Too low a number costs pods, which `maxReplicas` bounds; too high a number
/// never scales at all.
const CONCURRENCY: f64 = 10.0;
/// The same for a pod with GPUs, whose server computes requests in batches.
const GPU_CONCURRENCY: f64 = 32.0;
/// Requests a second for each request at once: an answer is taken to need 100 ms.
const REQUESTS_PER_CONCURRENCY: f64 = 10.0;
/// Share of the target that pods should carry: the rest takes the load while new pods start.
const UTILIZATION: f64 = 0.7;
const WINDOW: Duration = Duration::from_mins(1);
/// Shorter windows hold less than three ticks, longer ones forget nothing that helps.
const WINDOWS: (Duration, Duration) = (Duration::from_secs(6), Duration::from_hours(1));
/// The panic window is this part of the window.
const PANIC_PART: u32 = 10;
const SHORTEST_PANIC_WINDOW: Duration = Duration::from_secs(1);
const PANIC_THRESHOLD: f64 = 2.0;
const LONGEST_DELAY: Duration = Duration::from_hours(1);
const GRACE: Duration = Duration::from_secs(30);
const LONGEST_GRACE: Duration = Duration::from_hours(24);
const SCALE_UP_RATE: f64 = 1_000.0;
/// Pods with GPUs are few and dear: each step at most doubles them.
const GPU_SCALE_UP_RATE: f64 = 2.0;
const SCALE_DOWN_RATE: f64 = 2.0;
/// Demand at the edge of two numbers, as every steady load with a little noise may be, does not start and stop a pod
/// each minute. A tenth is the tolerance of Kubernetes' own autoscaler.
const TOLERANCE: f64 = 1.1;
/// Largest number accepted for a target or a rate: sums stay far from the end of what numbers can tell.
const LARGEST: f64 = 1e9;

/// The rules of one predictor. Made by [`Policy::of`] alone, so `min <= max` and every number is sane.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Policy {
    /// Fewest pods; with 0 the predictor may sleep.
    pub min: u32,
    /// Most pods, at least 1.
    pub max: u32,
    /// What is counted.
    pub metric: ScaleMetric,
    /// How much of it fills one pod.
    pub target: f64,
    /// Whether the spec says so, and it is no default.
    is_target_given: bool,
    /// Share of `target` that a pod should carry.
    pub utilization: f64,
    /// Time over which the demand is averaged.
    pub window: Duration,
    /// Time over which a burst is noticed.
    pub panic_window: Duration,
    /// Pods that the panic window asks for, as a multiple of those admitted, that make a burst.
    pub panic_threshold: f64,
    /// Time that a lower number must have been enough.
    pub scale_down_delay: Duration,
    /// Time without demand after the window before the last pod goes.
    pub scale_to_zero_grace: Duration,
    /// Most pods as a multiple of those admitted.
    pub max_scale_up_rate: f64,
    /// Pods go only when this many times the demand would need fewer, too.
    pub tolerance: f64,
    /// The admitted pods divided by this are the fewest after one decision.
    pub max_scale_down_rate: f64,
}

/// What is known of a predictor beside its `autoScale`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Hints {
    /// Whether its pods ask for GPUs.
    pub has_gpu: bool,
    /// Requests that one pod takes at once, where its server says so.
    pub capacity: Option<u32>,
}

/// Why an `autoScale` cannot be followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The bounds contradict each other.
    #[error(
        "autoScale.minReplicas is {min} and autoScale.maxReplicas is {max}: raise maxReplicas or lower minReplicas"
    )]
    Bounds {
        /// What was given as `minReplicas`.
        min: u32,
        /// What was given as `maxReplicas`.
        max: u32,
    },
    /// A count below zero.
    #[error("autoScale.{field} is {given}: give 0 or more")]
    Negative {
        /// The field under `autoScale`.
        field: &'static str,
        /// What was given.
        given: i32,
    },
    /// A number outside of its range.
    #[error("autoScale.{field} is {given}: give a number {range}, or leave it out for {default}")]
    Number {
        /// The field under `autoScale`.
        field: &'static str,
        /// What was given.
        given: f64,
        /// The range in words.
        range: &'static str,
        /// What holds without the field.
        default: &'static str,
    },
    /// Text that is no duration.
    #[error("autoScale.{field}: {source}")]
    Duration {
        /// The field under `autoScale`.
        field: &'static str,
        /// What is wrong with it.
        source: DurationError,
    },
    /// A duration outside of its range.
    #[error("autoScale.{field} is {given:?}: give a duration from {least:?} to {most:?}")]
    Range {
        /// The field under `autoScale`.
        field: &'static str,
        /// What was given.
        given: Duration,
        /// The shortest accepted.
        least: Duration,
        /// The longest accepted.
        most: Duration,
    },
}

impl Policy {
    /// Reads `autoScale`; the error names the field, what was given and what to do.
    pub fn of(spec: &AutoScale, hints: Hints) -> Result<Self, PolicyError> {
        let (min, max) = bounds(spec)?;
        let metric = spec.metric.unwrap_or_default();
        let target = number("target", spec.target, is_target, "above 0", "a default")?;
        let utilization =
            number("utilization", spec.utilization, is_share, "above 0 and at most 1", "0.7")?.unwrap_or(UTILIZATION);
        let window = length("window", spec.window.as_deref(), WINDOWS)?.unwrap_or(WINDOW);
        let panic = length("panicWindow", spec.panic_window.as_deref(), (SHORTEST_PANIC_WINDOW, window))?;
        let delay = length("scaleDownDelay", spec.scale_down_delay.as_deref(), (Duration::ZERO, LONGEST_DELAY))?;
        let grace = length("scaleToZeroGrace", spec.scale_to_zero_grace.as_deref(), (Duration::ZERO, LONGEST_GRACE))?;
        let rate = number("maxScaleUpRate", spec.max_scale_up_rate, is_rate, "above 1", "1000 (2 for pods with GPUs)")?;
        Ok(Self {
            min,
            max,
            metric,
            target: target.unwrap_or_else(|| default_target(metric, hints)),
            is_target_given: target.is_some(),
            utilization,
            window,
            panic_window: panic.unwrap_or_else(|| (window / PANIC_PART).max(SHORTEST_PANIC_WINDOW)),
            panic_threshold: PANIC_THRESHOLD,
            scale_down_delay: delay.unwrap_or_default(),
            scale_to_zero_grace: grace.unwrap_or(GRACE),
            max_scale_up_rate: rate.unwrap_or(if hints.has_gpu { GPU_SCALE_UP_RATE } else { SCALE_UP_RATE }),
            tolerance: TOLERANCE,
            max_scale_down_rate: SCALE_DOWN_RATE,
        })
    }

    /// What one pod should carry.
    pub fn per_pod(&self) -> f64 {
        self.target * self.utilization
    }

    /// Requests that one pod takes at once, where the spec says so.
    pub fn concurrency(&self) -> Option<u32> {
        let is_said = self.is_target_given && self.metric == ScaleMetric::Concurrency;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
        is_said.then(|| self.target.clamp(1.0, f64::from(u32::MAX)) as u32)
    }

    /// Whether the predictor may sleep.
    pub fn may_sleep(&self) -> bool {
        self.min == 0
    }

    /// The number itself, or the nearest one that the bounds allow.
    pub fn within(&self, replicas: u32) -> u32 {
        replicas.min(self.max).max(self.min)
    }
}

fn bounds(spec: &AutoScale) -> Result<(u32, u32), PolicyError> {
    let count = |field, given: i32| u32::try_from(given).map_err(|_| PolicyError::Negative { field, given });
    let min = spec.min_replicas.map_or(Ok(1), |given| count("minReplicas", given))?;
    let max = spec.max_replicas.map_or(Ok(0), |given| count("maxReplicas", given))?;
    match max {
        0 => Ok((min, MAX_REPLICAS.max(min))),
        _ if min > max => Err(PolicyError::Bounds { min, max }),
        _ => Ok((min, max)),
    }
}

fn default_target(metric: ScaleMetric, hints: Hints) -> f64 {
    let unknown = if hints.has_gpu { GPU_CONCURRENCY } else { CONCURRENCY };
    let concurrency = hints.capacity.filter(|capacity| *capacity > 0).map_or(unknown, f64::from);
    match metric {
        ScaleMetric::Concurrency => concurrency,
        ScaleMetric::RequestsPerSecond => concurrency * REQUESTS_PER_CONCURRENCY,
    }
}

/// Whether this can be a target; the smallest keeps a demand of millions within what a count can hold.
fn is_target(value: f64) -> bool {
    (1e-3..=LARGEST).contains(&value)
}

fn is_share(value: f64) -> bool {
    (1e-3..=1.0).contains(&value)
}

fn is_rate(value: f64) -> bool {
    value > 1.0 && value <= LARGEST
}

fn number(
    field: &'static str,
    given: Option<f64>,
    is_sane: fn(f64) -> bool,
    range: &'static str,
    default: &'static str,
) -> Result<Option<f64>, PolicyError> {
    match given {
        Some(given) if !is_sane(given) => Err(PolicyError::Number { field, given, range, default }),
        sane => Ok(sane),
    }
}

fn length(
    field: &'static str,
    given: Option<&str>,
    (least, most): (Duration, Duration),
) -> Result<Option<Duration>, PolicyError> {
    let Some(text) = given else { return Ok(None) };
    let given = duration::parse(text).map_err(|source| PolicyError::Duration { field, source })?;
    if (least..=most).contains(&given) {
        Ok(Some(given))
    } else {
        Err(PolicyError::Range { field, given, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spec: &AutoScale) -> String {
        Policy::of(spec, Hints::default()).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let policy = Policy::of(&AutoScale::default(), Hints::default()).unwrap();
        assert_eq!((policy.min, policy.max), (1, 100));
        assert!((policy.per_pod() - 7.0).abs() < 1e-9);
        assert_eq!((policy.window, policy.panic_window), (Duration::from_mins(1), Duration::from_secs(6)));
        assert_eq!((policy.scale_down_delay, policy.scale_to_zero_grace), (Duration::ZERO, GRACE));
        assert!(policy.max_scale_up_rate > 999.0);
        let of = |hints| Policy::of(&AutoScale::default(), hints).unwrap();
        let gpu = of(Hints { has_gpu: true, capacity: None });
        assert!((gpu.max_scale_up_rate - 2.0).abs() < 1e-9 && (gpu.target - 32.0).abs() < 1e-9);
        assert!((of(Hints { has_gpu: true, capacity: Some(64) }).target - 64.0).abs() < 1e-9);
    }

    #[test]
    fn rates_have_their_own_default() {
        let spec = AutoScale { metric: Some(ScaleMetric::RequestsPerSecond), ..AutoScale::default() };
        assert!((Policy::of(&spec, Hints::default()).unwrap().target - 100.0).abs() < 1e-9);
    }

    #[test]
    fn capacity_is_told_only_where_the_spec_tells_it() {
        let of = |metric, target| {
            let spec = AutoScale { metric: Some(metric), target, ..AutoScale::default() };
            Policy::of(&spec, Hints::default()).unwrap().concurrency()
        };
        assert_eq!(of(ScaleMetric::Concurrency, Some(4.5)), Some(4));
        assert_eq!(of(ScaleMetric::Concurrency, Some(0.5)), Some(1));
        assert_eq!(of(ScaleMetric::Concurrency, None), None);
        assert_eq!(of(ScaleMetric::RequestsPerSecond, Some(200.0)), None);
    }

    #[test]
    fn absent_or_zero_maximum_is_a_hundred_or_the_minimum() {
        let of = |min, max| {
            let spec = AutoScale { min_replicas: min, max_replicas: max, ..AutoScale::default() };
            Policy::of(&spec, Hints::default()).map(|policy| (policy.min, policy.max))
        };
        assert_eq!(of(Some(0), None), Ok((0, 100)));
        assert_eq!(of(Some(300), Some(0)), Ok((300, 300)));
        assert_eq!(of(None, Some(4)), Ok((1, 4)));
        assert_eq!(of(Some(5), Some(4)), Err(PolicyError::Bounds { min: 5, max: 4 }));
    }

    #[test]
    fn errors_name_the_field_the_value_and_the_remedy() {
        let none = AutoScale::default;
        for (spec, expected) in [
            (
                AutoScale { min_replicas: Some(3), max_replicas: Some(2), ..none() },
                "autoScale.minReplicas is 3 and autoScale.maxReplicas is 2: raise maxReplicas or lower minReplicas",
            ),
            (AutoScale { min_replicas: Some(-1), ..none() }, "autoScale.minReplicas is -1: give 0 or more"),
            (
                AutoScale { target: Some(0.0), ..none() },
                "autoScale.target is 0: give a number above 0, or leave it out for a default",
            ),
            (
                AutoScale { target: Some(f64::NAN), ..none() },
                "autoScale.target is NaN: give a number above 0, or leave it out for a default",
            ),
            (
                AutoScale { target: Some(-2.5), ..none() },
                "autoScale.target is -2.5: give a number above 0, or leave it out for a default",
            ),
            (
                AutoScale { utilization: Some(1.5), ..none() },
                "autoScale.utilization is 1.5: give a number above 0 and at most 1, or leave it out for 0.7",
            ),
            (
                AutoScale { max_scale_up_rate: Some(1.0), ..none() },
                "autoScale.maxScaleUpRate is 1: give a number above 1, or leave it out for 1000 (2 for pods with GPUs)",
            ),
            (
                AutoScale { window: Some("soon".into()), ..none() },
                "autoScale.window: \"soon\" is not a duration: write numbers with units such as 300ms, 10s, 2m30s or 1h",
            ),
            (
                AutoScale { window: Some("2s".into()), ..none() },
                "autoScale.window is 2s: give a duration from 6s to 3600s",
            ),
            (
                AutoScale { panic_window: Some("90s".into()), ..none() },
                "autoScale.panicWindow is 90s: give a duration from 1s to 60s",
            ),
        ] {
            assert_eq!(refused(&spec), expected);
        }
    }
}
