//! Names of metrics, and the scale on which each changes evenly.

use modelway_tune::spec::Transform;

/// What Modelway's own load generator calls good answers per second.
pub const RATE: &str = "rate";
/// Share of failed requests.
pub const ERRORS: &str = "errors";
/// Percentile that is meant when a time is named alone.
pub const PERCENTILE: &str = "p95";

/// Other names of [`RATE`].
const RATES: [&str; 5] = ["qps", "rps", "requestsPerSecond", "throughput", "requestRate"];
const TIMES: [&str; 4] = ["latency", "ttft", "itl", "tpot"];
/// Below this share, errors are as good as none.
const ERRORS_FLOOR: f64 = 1e-4;

/// The name by which the load generator tells the metric; others stay as they are.
pub fn own_name(name: &str, percentile: Option<&str>) -> String {
    if RATES.iter().any(|rate| rate.eq_ignore_ascii_case(name)) {
        return RATE.to_owned();
    }
    if TIMES.contains(&name) {
        return format!("{name}.{}", percentile.unwrap_or(PERCENTILE));
    }
    if is_statistic(name) { format!("latency.{name}") } else { name.to_owned() }
}

/// Whether the load generator can be told to keep this limit on a time.
pub fn is_time(name: &str) -> bool {
    name.split_once('.').is_some_and(|(time, statistic)| TIMES.contains(&time) && is_statistic(statistic))
}

/// Whether it is a mean, of which a single request shows nothing.
pub fn is_mean(name: &str) -> bool {
    name.rsplit('.').next() == Some("mean")
}

fn is_statistic(text: &str) -> bool {
    let percent = |text: &str| text.parse::<f64>().is_ok_and(|percent| percent > 0.0 && percent < 100.0);
    matches!(text, "mean" | "max") || text.strip_prefix('p').is_some_and(percent)
}

/// The scale of a metric.
pub fn transform(name: &str) -> Transform {
    if name.to_lowercase().contains("error") {
        return Transform::Logit { floor: ERRORS_FLOOR };
    }
    // Nothing is faster than a microsecond.
    if is_time(name) { Transform::Log { floor: 1e-6 } } else { Transform::LOG }
}

/// Unit of a metric of the load generator, for reports.
pub fn unit(name: &str) -> Option<&'static str> {
    match name {
        RATE | "goodput" | "tokens" => Some("1/s"),
        ERRORS => Some("share"),
        _ if is_time(name) => Some("s"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_mean_the_same() {
        for (name, own) in [
            ("qps", "rate"),
            ("QPS", "rate"),
            ("latency", "latency.p95"),
            ("p99", "latency.p99"),
            ("ttft.p99.9", "ttft.p99.9"),
            ("errors", "errors"),
            ("accuracy", "accuracy"),
            ("p0", "p0"),
        ] {
            assert_eq!(own_name(name, None), own);
        }
        assert_eq!(own_name("ttft", Some("p99")), "ttft.p99");
        assert!(is_time("latency.mean") && !is_time("rate") && !is_time("latency.pp"));
    }
}
