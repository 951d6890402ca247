//! The summary that a newcomer reads at the end.

use std::fmt::Write;

use super::document::{Document, Tuning};
use super::scaling::plot;
use super::tuned;

/// How to look around and clean up afterwards.
pub struct Hints<'a> {
    /// How the user calls this program: a name or a path.
    pub program: &'a str,
    pub data_dir: &'a str,
    /// Whether the platform goes on after the summary.
    pub stays: bool,
    /// Whether it goes on in this process, until Ctrl-C.
    pub foreground: bool,
    /// Flags that name the cluster that it ran on; `None` on this machine.
    pub cluster: Option<&'a str>,
}

/// Plain text, at most 100 columns.
pub fn render(document: &Document, hints: &Hints<'_>) -> String {
    let mut text = String::from("\n");
    versions(document, &mut text);
    traffic(document, &mut text);
    scaling(document, &mut text);
    tuning(document, hints, &mut text);
    next_steps(document, hints, &mut text);
    text
}

fn versions(document: &Document, text: &mut String) {
    push(text, "Published");
    for version in &document.versions {
        let megabytes = version.size_bytes as f64 / 1e6;
        let seconds =
            version.seconds_from_job_end.map_or_else(String::new, |s| format!(", {s:.1} s after the job's end"));
        push(text, &format!("  {}  {megabytes:.1} MB{seconds}", version.name));
        push(text, &format!("    {}", version.image));
    }
}

fn traffic(document: &Document, text: &mut String) {
    let Some(traffic) = &document.traffic else { return };
    let users: u64 = traffic.users.values().sum();
    push(text, "");
    push(
        text,
        &format!("Traffic    {} requests of {users} users, held-out images drawn with replacement", traffic.requests),
    );
    push(text, "  arm    users        requests   accuracy   latency p50 / p95");
    for arm in &document.arms {
        let on_arm = traffic.users.get(&arm.name).copied().unwrap_or(0);
        let share = 100.0 * on_arm as f64 / users.max(1) as f64;
        let requests = traffic.requests_by_arm.get(&arm.name).copied().unwrap_or(0);
        let latency = format!("{:.1} / {:.1} ms", arm.latency_ms.p50, arm.latency_ms.p95);
        let accuracy = 100.0 * arm.accuracy;
        push(
            text,
            &format!(
                "  {:<6} {on_arm:<5}{:<8}{requests:<11}{:<11}{latency}",
                arm.name,
                format!("{share:.1} %"),
                format!("{accuracy:.1} %")
            ),
        );
    }
    push(text, &format!("  failed requests {}, users on two arms {}", traffic.errors, traffic.sticky_violations));
    push(text, &format!("  weights 90/10 -> 50/50: {} users moved into the arm that grew", traffic.moved_on_reweight));
}

fn scaling(document: &Document, text: &mut String) {
    let Some(scaling) = &document.scaling else { return };
    push(text, "");
    push(text, &format!("Scaling    v2 at zero, then {} requests of its users at once", scaling.requests));
    for line in plot(&scaling.replicas) {
        push(text, &format!("  {line}"));
    }
    let held = scaling.held_max.map_or_else(String::new, |held| format!(", at most {held} requests waited"));
    push(
        text,
        &format!("  first answer after {:.0} ms{held}, failed requests {}", scaling.cold_start_ms, scaling.errors),
    );
}

fn tuning(document: &Document, hints: &Hints<'_>, text: &mut String) {
    let Some(tuning) = &document.tuning else { return };
    push(text, "");
    let stored = if tuning.stored { ", found by an earlier run" } else { "" };
    push(text, &format!("Tuning     {} trials of {} candidates for v2{stored}", tuning.trials, tuning.candidates));
    let now = ("now", &tuning.baseline, tuning.baseline_rate);
    let better = ("better", &tuning.recommended, tuning.recommended_rate);
    let rows = if tuning.is_best() { vec![("best", better.1, better.2)] } else { vec![now, better] };
    for (word, values, rate) in rows {
        let rate = rate.map_or_else(String::new, |rate| format!("{rate:>8.0} requests/s"));
        push(text, &format!("  {word:<9} {:<58}{rate}", tuned::settings(values)));
    }
    if let Some(gain) = tuning.gain {
        push(text, &format!("  gain      {}", tuned::percent(gain)));
    }
    match hints.cluster {
        Some(cluster) => {
            push(text, "  report");
            let map = format!("kubectl{cluster} get {}", tuning.report);
            push(text, &format!("    {map} -o jsonpath='{{.data.report\\.html}}' > report.html"));
        }
        None => push(text, &format!("  report    {}", tuning.report)),
    }
}

/// How the recommendation is taken: it is an annotation of the Inference, and a patch of it.
fn take_it(document: &Document, kubectl: &str, text: &mut String) {
    if document.tuning.as_ref().is_none_or(Tuning::is_best) {
        return;
    }
    push(text, "Take the better settings");
    push(text, &format!("  {kubectl} get inference digits \\"));
    push(text, "    -o jsonpath='{.metadata.annotations.modelway\\.io/recommendation}' > better.json");
    push(text, &format!("  {kubectl} patch inference digits \\"));
    push(text, "    --type json --patch-file better.json");
}

fn next_steps(document: &Document, hints: &Hints<'_>, text: &mut String) {
    let program = hints.program;
    let total = document.seconds.get("total").copied().unwrap_or(0.0);
    push(text, "");
    let peak = document
        .peak_rss_bytes
        .map_or_else(String::new, |bytes| format!(", peak memory {} MB in all processes", bytes / 1_000_000));
    push(text, &format!("Done in {total:.1} s{peak}."));
    if let Some(cluster) = hints.cluster {
        push(text, "");
        push(text, "Look around");
        push(text, &format!("  kubectl{cluster} get inference,modelversion,pods"));
        push(text, &format!("  {program} explain inference digits{cluster}"));
        take_it(document, &format!("kubectl{cluster}"), text);
        push(text, &format!("Clean up    kubectl{cluster} delete pe,inference,job,pvc -l modelway.io/example=digits"));
        push(text, &format!("            kubectl{cluster} delete model digits"));
        return;
    }
    let flag = if hints.data_dir == ".modelway" { String::new() } else { format!(" --data-dir {}", hints.data_dir) };
    if hints.stays {
        push(text, "");
        push(text, "Look around");
        push(text, &format!("  {program} get inference{flag}"));
        push(text, &format!("  kubectl --kubeconfig {}/kubeconfig get inference", hints.data_dir));
        if !document.endpoint.is_empty() {
            push(text, &format!("  curl {}/v2/models/digits", document.endpoint));
        }
        take_it(document, &format!("kubectl --kubeconfig {}/kubeconfig", hints.data_dir), text);
        let how = if hints.foreground { "Ctrl-C here".to_owned() } else { format!("{program} down{flag}") };
        push(text, &format!("Stop        {how}"));
    } else {
        push(text, "Everything it started has ended; its state is kept, and a second run goes on from there.");
    }
    push(text, &format!("Clean up    {program} down --purge{flag}"));
}

fn push(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _infallible = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::super::document::{Arm, Gain, Latency, Traffic, Version};
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_summary_names_split_accuracy_and_next_steps() {
        let document = Document {
            versions: vec![Version {
                name: "mv-a".into(),
                image: "r@sha256:1".into(),
                size_bytes: 1_500_000,
                seconds_from_job_end: Some(0.4),
            }],
            traffic: Some(Traffic {
                requests: 10,
                users: [("v1".to_owned(), 9), ("v2".to_owned(), 1)].into(),
                moved_on_reweight: 3,
                ..Traffic::default()
            }),
            arms: vec![Arm { name: "v1".into(), accuracy: 0.9, latency_ms: Latency { p50: 1.0, p95: 2.0 } }],
            endpoint: "http://127.9.128.1:8080".into(),
            tuning: Some(Tuning {
                candidates: 72,
                trials: 10,
                baseline: settings(&[("--max-batch-delay", "0ms"), ("--max-batch-size", "1"), ("--threads", "1")]),
                recommended: settings(&[("--max-batch-delay", "4ms"), ("--max-batch-size", "32"), ("--threads", "4")]),
                gain: Some(Gain { estimate: 3.5, low: 3.0, high: 4.25 }),
                baseline_rate: Some(450.4),
                recommended_rate: Some(2026.0),
                report: ".modelway/tuning-report.html".into(),
                stored: false,
            }),
            ..Document::default()
        };
        let text = render(
            &document,
            &Hints {
                program: "target/release/modelway",
                data_dir: ".modelway",
                stays: true,
                foreground: true,
                cluster: None,
            },
        );
        for part in [
            "mv-a  1.5 MB, 0.4 s",
            "90.0 %",
            "3 users moved",
            "kubectl --kubeconfig .modelway/kubeconfig",
            "Tuning     10 trials of 72 candidates for v2\n",
            "max-batch-delay 4ms, max-batch-size 32, threads 4 ",
            "gain      +350 % requests/s (95 %: +300 % to +425 %)",
            "report    .modelway/tuning-report.html",
            "{.metadata.annotations.modelway\\.io/recommendation}",
            "Ctrl-C here",
            "target/release/modelway down --purge\n",
        ] {
            assert!(text.contains(part), "{text}\nlacks {part:?}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
}
