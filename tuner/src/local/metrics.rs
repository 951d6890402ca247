//! From what the load generator counted to the numbers that candidates are compared by.

use std::collections::BTreeMap;

use modelway_tune::history::Measurement;

use crate::load::constraint::Metric;
use crate::load::statistics::Times;
use crate::load::{Finished, Report};

/// What every trial says, whatever it is asked.
pub const USUAL: [&str; 9] =
    ["rate", "goodput", "errors", "tokens", "latency.mean", "latency.p50", "latency.p95", "latency.p99", "ttft.p95"];

/// The wanted metrics and the usual ones, each with the variance that the run knows of; what was not measured is left out.
pub fn measurements<'a>(
    report: &Report,
    finished: &Finished,
    wanted: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Measurement> {
    let names = wanted.chain(USUAL);
    let each = names.filter_map(|name| Some((name.to_owned(), measurement(report, finished, name)?)));
    each.filter(|(_, found)| found.value.is_finite()).collect()
}

fn measurement(report: &Report, finished: &Finished, name: &str) -> Option<Measurement> {
    let requests = (report.requests.ok + report.requests.failed) as f64;
    match name {
        "rate" => Some(counted(report.rate.ok, finished.window)),
        "goodput" => Some(counted(report.rate.goodput, finished.window)),
        "errors" if requests > 0.0 => {
            let share = report.requests.failed as f64 / requests;
            Some(Measurement { value: share, variance: share * (1.0 - share) / requests })
        }
        "tokens" => report.tokens.filter(|tokens| tokens.output > 0).map(|tokens| {
            let value = tokens.output_per_second;
            Measurement { value, variance: value * value / requests.max(1.0) }
        }),
        _ => timed(report, finished, name),
    }
}

/// Counts in a window vary as independent arrivals do.
fn counted(per_second: f64, window: f64) -> Measurement {
    Measurement { value: per_second, variance: if window > 0.0 { per_second / window } else { 0.0 } }
}

fn timed(report: &Report, finished: &Finished, name: &str) -> Option<Measurement> {
    let (metric, statistic) = name.split_once('.')?;
    let metric = Metric::ALL.into_iter().find(|known| known.name() == metric)?;
    let times = finished.measured.metric(metric);
    if times.count() == 0 {
        return None;
    }
    let seconds = |nanos: f64| nanos / 1e9;
    match statistic {
        "mean" => {
            let deviation = seconds(times.inner().stdev());
            Some(Measurement { value: seconds(times.mean()), variance: deviation * deviation / times.count() as f64 })
        }
        "max" => Some(Measurement { value: seconds(times.max() as f64), variance: 0.0 }),
        percentile => quantile(report, finished, metric, times, percentile),
    }
}

fn quantile(
    report: &Report,
    finished: &Finished,
    metric: Metric,
    times: &Times,
    percentile: &str,
) -> Option<Measurement> {
    let quantile = percentile.strip_prefix('p')?.parse::<f64>().ok()? / 100.0;
    let value = times.quantile(quantile) as f64 / 1e9;
    let known = (metric == Metric::Latency).then(|| finished.blocks.interval(quantile, report.seed)).flatten();
    Some(Measurement { value, variance: known.map_or(0.0, |interval| interval.deviation * interval.deviation) })
}

/// A value with its unit and three digits, for people: `12.3 ms`, `612 /s`, `0.5 %`.
pub fn shown(name: &str, value: f64) -> String {
    match name {
        "errors" => format!("{} %", digits(value * 100.0)),
        "rate" | "goodput" | "tokens" => format!("{}/s", digits(value)),
        _ if value >= 1.0 => format!("{} s", digits(value)),
        _ if value >= 1e-3 => format!("{} ms", digits(value * 1e3)),
        _ => format!("{} us", digits(value * 1e6)),
    }
}

/// Three significant digits, none invented before the point.
pub fn digits(value: f64) -> String {
    let places = match value.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shown =
            [("rate", 612.34), ("latency.p95", 0.01234), ("errors", 0.005), ("ttft.p95", 1.5), ("itl.p95", 2e-5)]
                .map(|(name, value)| shown(name, value));
        assert_eq!(shown, ["612/s", "12.3 ms", "0.50 %", "1.50 s", "20.0 us"]);
    }

    #[test]
    fn counts_know_their_noise() {
        let found = counted(100.0, 4.0);
        assert!((found.variance - 25.0).abs() < 1e-9);
    }
}
