//! Objectives that a service must meet: `p95<=50ms`, `ttft.p95<=1s`, `errors<=1%`, `rate>=100`.

use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use super::units::nanos;

/// A time that is measured of each request.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Metric {
    /// From when the request was due to the end of its answer.
    Latency,
    /// From when the request was due to the first token.
    TimeToFirstToken,
    /// Between tokens.
    InterTokenLatency,
    /// Mean time of each token after the first.
    TimePerOutputToken,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 4] =
        [Self::Latency, Self::TimeToFirstToken, Self::InterTokenLatency, Self::TimePerOutputToken];

    /// Short name, as constraints write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::TimeToFirstToken => "ttft",
            Self::InterTokenLatency => "itl",
            Self::TimePerOutputToken => "tpot",
        }
    }
}

/// What of a metric's distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// In (0, 1).
    Quantile(f64),
    Mean,
    Max,
}

/// One objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constraint {
    /// A statistic of a time must not be above the limit.
    Time { metric: Metric, statistic: Statistic, limit: Duration },
    /// The share of failed requests must not be above this, in [0, 1).
    Errors { limit: f64 },
    /// Good answers per second.
    Rate { minimum: f64 },
}

impl Constraint {
    /// Share of requests that may miss the limit; none when the constraint says nothing of single requests.
    pub fn allowance(&self) -> Option<f64> {
        match self {
            Self::Time { statistic: Statistic::Quantile(quantile), .. } => Some(1.0 - quantile),
            Self::Time { statistic: Statistic::Max, .. } => Some(0.0),
            Self::Errors { limit } => Some(*limit),
            Self::Time { statistic: Statistic::Mean, .. } | Self::Rate { .. } => None,
        }
    }

    /// The limit on a time, in nanoseconds, that each single request is held against.
    pub fn time_limit(&self) -> Option<(Metric, u64)> {
        match self {
            Self::Time { metric, limit, .. } => Some((*metric, nanos(*limit))),
            Self::Errors { .. } | Self::Rate { .. } => None,
        }
    }
}

impl FromStr for Constraint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |problem: &str| {
            format!("{text:?} is no constraint: {problem}; such as p95<=50ms, ttft.p99<=1s, errors<=1% or rate>=100")
        };
        let at = text.find(['<', '>']).ok_or_else(|| bad("it needs <= or >="))?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let limit = rest.trim_start_matches(['<', '>', '=', ' ']).trim();
        let upper = rest.starts_with('<');
        match name {
            "errors" if upper => {
                let fraction = fraction(limit).filter(|fraction| (0.0..1.0).contains(fraction));
                fraction
                    .map(|limit| Self::Errors { limit })
                    .ok_or_else(|| bad("errors need a share such as 1% or 0.01"))
            }
            "rate" if !upper => {
                let minimum =
                    limit.trim_end_matches("/s").parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
                minimum.map(|minimum| Self::Rate { minimum }).ok_or_else(|| bad("the rate needs requests per second"))
            }
            "errors" => Err(bad("errors need <=")),
            "rate" => Err(bad("the rate needs >=")),
            _ if !upper => Err(bad("a time needs <=")),
            _ => {
                let (metric, statistic) = measured(name).ok_or_else(|| {
                    bad("the left side is one of latency, ttft, itl, tpot, then a dot and p50, p99.9, mean or max")
                })?;
                let limit = duration(limit).ok_or_else(|| bad("a time needs a unit of us, ms or s"))?;
                Ok(Self::Time { metric, statistic, limit })
            }
        }
    }
}

fn measured(name: &str) -> Option<(Metric, Statistic)> {
    let (metric, statistic) = match Metric::ALL
        .iter()
        .find(|metric| name.strip_prefix(metric.name()).is_some_and(|rest| rest.starts_with('.')))
    {
        Some(metric) => (*metric, &name[metric.name().len() + 1..]),
        None => (Metric::Latency, name),
    };
    let statistic = match statistic {
        "mean" => Statistic::Mean,
        "max" => Statistic::Max,
        percentile => {
            let percent: f64 = percentile.strip_prefix('p')?.parse().ok()?;
            Statistic::Quantile(Some(percent / 100.0).filter(|quantile| *quantile > 0.0 && *quantile < 1.0)?)
        }
    };
    Some((metric, statistic))
}

fn fraction(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let limit = Duration::try_from_secs_f64(number.trim().parse::<f64>().ok()? * scale).ok()?;
    (!limit.is_zero()).then_some(limit)
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errors { limit } => write!(formatter, "errors<={}%", rounded(limit * 100.0)),
            Self::Rate { minimum } => write!(formatter, "rate>={minimum}"),
            Self::Time { metric, statistic, limit } => {
                let milliseconds = rounded(limit.as_secs_f64() * 1e3);
                match statistic {
                    Statistic::Quantile(quantile) => {
                        write!(formatter, "{}.p{}<={milliseconds}ms", metric.name(), rounded(quantile * 100.0))
                    }
                    Statistic::Mean => write!(formatter, "{}.mean<={milliseconds}ms", metric.name()),
                    Statistic::Max => write!(formatter, "{}.max<={milliseconds}ms", metric.name()),
                }
            }
        }
    }
}

/// Without the digits that binary fractions add.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_read_and_write_the_same() {
        for (text, shown) in [
            ("p95<=50ms", "latency.p95<=50ms"),
            ("latency.p99.9 < 2s", "latency.p99.9<=2000ms"),
            ("ttft.p95<=1s", "ttft.p95<=1000ms"),
            ("itl.mean<=500us", "itl.mean<=0.5ms"),
            ("tpot.max<=60ms", "tpot.max<=60ms"),
            ("errors<=1%", "errors<=1%"),
            ("errors<0.001", "errors<=0.1%"),
            ("rate>=100/s", "rate>=100"),
        ] {
            let constraint: Constraint = text.parse().unwrap();
            assert_eq!(constraint.to_string(), shown);
            assert_eq!(shown.parse::<Constraint>().unwrap(), constraint);
        }
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in [
            "",
            "p95",
            "p95<=50",
            "p0<=1s",
            "p100<=1s",
            "p95>=1s",
            "errors<=200%",
            "rate<=5",
            "rate>=-1",
            "pp<=1s",
            "p95<=0ms",
            "p95<=NaNs",
            "ttft<=1s",
        ] {
            assert!(text.parse::<Constraint>().unwrap_err().contains("p95<=50ms"), "{text}");
        }
    }
}
