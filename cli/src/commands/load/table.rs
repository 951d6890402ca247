//! The result for people.

use modelway_tuner::load::drive::Found;
use modelway_tuner::load::report::Judged;
use modelway_tuner::load::search::Outcome;
use modelway_tuner::load::statistics::Summary;
use modelway_tuner::load::{Options, Pattern, Report, Source};
use serde_json::{Value, json};

use crate::output;

/// Prints one run.
pub fn print(options: &Options, report: &Report) {
    let stopped = if report.stopped { ", stopped" } else { "" };
    let source = describe(&options.source);
    output::line(&format!("{}  {source}, {:.1} s, seed {}{stopped}", report.target, report.seconds, report.seed));
    let mut rows = vec![row("Requests", &requests(report)), row("Rate", &rates(report))];
    if report.latency.count > 0 {
        rows.push(row("Latency", &distribution(&report.latency)));
        rows.extend(interval(report).map(|text| row("", &text)));
        rows.push(row("Service", &distribution(&report.service_time)));
    }
    if let Some(tokens) = &report.tokens {
        rows.push(row("Tokens", &format!("{} ({:.1}/s)", tokens.output, tokens.output_per_second)));
        let times = [
            ("First token", &tokens.time_to_first_token),
            ("Between", &tokens.inter_token_latency),
            ("Per token", &tokens.time_per_output_token),
        ];
        rows.extend(
            times.iter().filter(|(_, times)| times.count > 0).map(|(name, times)| row(name, &distribution(times))),
        );
    }
    for (number, class) in report.errors.iter().enumerate() {
        let title = if number == 0 { "Errors" } else { "" };
        rows.push(row(title, &format!("{} {}: {}", class.count, class.class.name(), class.example)));
    }
    for (number, judged) in report.constraints.iter().enumerate() {
        rows.push(row(if number == 0 { "Constraints" } else { "" }, &judgement(judged)));
    }
    rows.push(row("Generator", &generator(report)));
    output::table(&[String::new(), String::new()], &rows);
}

/// Prints a search: what was tried, what came of it, and its last run.
pub fn print_search(options: &Options, found: &Found) {
    let header = ["STEP", "RATE", "SECONDS", "P95", "VERDICT"].map(str::to_owned);
    let rows: Vec<Vec<String>> = found
        .tried
        .iter()
        .map(|tried| {
            let rate = tried.rate.map_or_else(|| "one user".to_owned(), |rate| format!("{rate:.1}/s"));
            let verdict = match (&tried.abandoned, tried.good) {
                (Some(why), _) => format!("bad: {why}"),
                (None, _) if tried.generator_bound => "the generator was the limit".to_owned(),
                (None, true) => "good".to_owned(),
                (None, false) => "bad".to_owned(),
            };
            vec![tried.step.to_owned(), rate, format!("{:.1}", tried.seconds), time(tried.p95), verdict]
        })
        .collect();
    output::table(&header, &rows);
    let constraints: Vec<String> = options.constraints.iter().map(ToString::to_string).collect();
    output::line(&format!("\n{}", outcome(&found.outcome, &constraints.join(", "))));
    let certified = matches!(found.outcome, Outcome::Certified { .. });
    if let Some(report) = found.report.as_ref().filter(|_| certified) {
        output::line("");
        print(
            &Options {
                source: Source::Open(Pattern::Poisson { rate: report.rate.requested.unwrap_or_default() }),
                ..options.clone()
            },
            report,
        );
    }
}

/// A search for programs.
pub fn search_document(found: &Found) -> anyhow::Result<Value> {
    let (outcome, rate, missed_at) = match found.outcome {
        Outcome::Certified { rate, missed_at } => ("certified", Some(rate), missed_at),
        Outcome::Infeasible => ("infeasible", None, None),
        Outcome::GeneratorBound { rate } => ("generatorBound", Some(rate), None),
        Outcome::Uncertain { rate } => ("uncertain", rate, None),
    };
    let report = serde_json::to_value(&found.report)?;
    let tried = serde_json::to_value(&found.tried)?;
    Ok(
        json!({"outcome": outcome, "rate": rate, "missedAt": missed_at, "stopped": found.stopped, "tried": tried, "report": report}),
    )
}

fn outcome(outcome: &Outcome, constraints: &str) -> String {
    match outcome {
        Outcome::Certified { rate, missed_at: Some(missed) } => {
            format!("{rate:.1} requests/s meet {constraints} (95 % sure); {missed:.1}/s do not")
        }
        Outcome::Certified { rate, missed_at: None } => format!("{rate:.1} requests/s meet {constraints} (95 % sure)"),
        Outcome::Infeasible => format!("No rate meets {constraints}"),
        Outcome::GeneratorBound { rate } => format!("At least {rate:.1} requests/s; the generator cannot send more"),
        Outcome::Uncertain { rate: Some(rate) } => format!("About {rate:.1} requests/s, which could not be certified"),
        Outcome::Uncertain { rate: None } => "No rate was found".to_owned(),
    }
}

fn describe(source: &Source) -> String {
    match source {
        Source::Open(Pattern::Poisson { rate }) => format!("Poisson {rate:.1}/s"),
        Source::Open(Pattern::Constant { rate }) => format!("constant {rate:.1}/s"),
        Source::Open(Pattern::Trace { offsets }) => format!("trace of {} requests", offsets.len()),
        Source::Closed { users, .. } => format!("{users} users"),
    }
}

fn requests(report: &Report) -> String {
    let counts = &report.requests;
    let all = (counts.ok + counts.failed).max(1) as f64;
    let mut parts = vec![format!("{} good", counts.ok)];
    parts.push(format!("{} failed ({:.2} %)", counts.failed, 100.0 * counts.failed as f64 / all));
    let others = [(counts.unsent, "never sent"), (counts.unfinished, "unfinished")];
    parts.extend(others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    parts.join(", ")
}

fn rates(report: &Report) -> String {
    let rate = &report.rate;
    let planned = rate.requested.map(|planned| format!("{planned:.1}/s planned, ")).unwrap_or_default();
    let goodput =
        if report.constraints.is_empty() { String::new() } else { format!(", goodput {:.1}/s", rate.goodput) };
    format!("{planned}{:.1}/s sent, {:.1}/s good{goodput}", rate.achieved, rate.ok)
}

fn distribution(times: &Summary) -> String {
    let named = [
        ("mean", times.mean),
        ("p50", times.p50),
        ("p90", times.p90),
        ("p95", times.p95),
        ("p99", times.p99),
        ("p99.9", times.p999),
        ("p99.99", times.p9999),
        ("max", times.max),
    ];
    named.map(|(name, seconds)| format!("{name} {}", time(seconds))).join("  ")
}

fn interval(report: &Report) -> Option<String> {
    let shown = report.latency_intervals.iter().filter_map(|(name, interval)| {
        let (low, high) = (interval["low"].as_f64()?, interval["high"].as_f64()?);
        Some(format!("{name} {} to {}", time(low), time(high)))
    });
    let shown: Vec<String> = shown.collect();
    (!shown.is_empty()).then(|| format!("95 of 100 repetitions: {}", shown.join(", ")))
}

fn judgement(judged: &Judged) -> String {
    let verdict = match (judged.met, judged.certain) {
        (true, true) => "met, 95 % sure",
        (true, false) => "met",
        (false, true) => "missed, 95 % sure",
        (false, false) => "missed",
    };
    let observed = match judged.observed {
        None => "nothing measured".to_owned(),
        Some(share) if judged.constraint.starts_with("errors") => format!("{:.2} %", share * 100.0),
        Some(rate) if judged.constraint.starts_with("rate") => format!("{rate:.1}/s"),
        Some(seconds) => time(seconds),
    };
    format!("{}: {verdict} ({observed})", judged.constraint)
}

fn generator(report: &Report) -> String {
    let generator = &report.generator;
    let verdict = if generator.valid { "in time" } else { "WAS THE BOTTLENECK" };
    let (p50, p99) = (time(generator.schedule_delay.p50), time(generator.schedule_delay.p99));
    let again = match generator.sent_again {
        0 => String::new(),
        again => format!(", {again} sent again on a new connection"),
    };
    let (connections, cpu) = (generator.connections, generator.cpu_seconds);
    format!("{verdict} (late by p50 {p50}, p99 {p99}), {connections} connections, {cpu:.2} s of CPU{again}")
}

fn row(title: &str, text: &str) -> Vec<String> {
    vec![title.to_owned(), text.to_owned()]
}

/// Three digits and a unit.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        seconds if seconds >= 1.0 => (seconds, "s"),
        seconds if seconds >= 1e-3 => (seconds * 1e3, "ms"),
        seconds => (seconds * 1e6, "us"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let times = [12.345, 1.5, 0.1234, 0.012_34, 0.001, 0.000_5, 0.0].map(time);
        assert_eq!(times, ["12.3 s", "1.50 s", "123 ms", "12.3 ms", "1.00 ms", "500 us", "0.00 us"]);
    }
}
