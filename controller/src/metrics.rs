//! What the controller counts. Every label has a bounded set of values.

use std::{sync::Arc, time::Duration};

use modelway_plan::Kind;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

/// Bounds of the reconcile histogram: planning takes a millisecond, a plan with many calls seconds.
const SECONDS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];

/// Counters and gauges. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    reconciles: IntCounterVec,
    seconds: HistogramVec,
    requests: IntCounterVec,
    forbidden: IntCounterVec,
    watch_failures: IntCounterVec,
    synced: IntGaugeVec,
    definition_problem: IntGaugeVec,
    last_error: IntGaugeVec,
    queued: IntGauge,
    leader: IntGauge,
    routers: IntGauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let inner = Inner {
            reconciles: counter(&registry, "reconciles_total", "Turns of a key.", &["kind", "result"]),
            seconds: histogram(&registry, "reconcile_seconds", "Time of one turn.", &["kind"]),
            requests: counter(&registry, "api_requests_total", "Answers of the API server.", &["verb", "kind", "code"]),
            forbidden: counter(&registry, "api_forbidden_total", "Calls refused with 403.", &["verb", "kind"]),
            watch_failures: counter(&registry, "watch_failures_total", "Lists and watches that failed.", &["kind"]),
            synced: gauges(&registry, "watch_synced", "Whether a kind has been listed.", &["kind"]),
            definition_problem: gauges(
                &registry,
                "definition_problem",
                "Whether a kind's definition is missing or older than the controller expects.",
                &["kind"],
            ),
            last_error: gauges(&registry, "last_error_timestamp_seconds", "Time of the last failed turn.", &["kind"]),
            queued: gauge(&registry, "queue_depth", "Keys that are due and wait."),
            leader: gauge(&registry, "leader", "Whether this process leads."),
            routers: gauge(&registry, "routers_followed", "Routers whose stats are read for autoscaling."),
            registry,
        };
        Self(Arc::new(inner))
    }
}

impl Metrics {
    /// One turn of a key.
    pub fn reconciled(&self, kind: Kind, result: &str, took: Duration, now: i64) {
        self.0.reconciles.with_label_values(&[kind.as_str(), result]).inc();
        self.0.seconds.with_label_values(&[kind.as_str()]).observe(took.as_secs_f64());
        if !matches!(result, "ok" | "conflict") {
            self.0.last_error.with_label_values(&[kind.as_str()]).set(now);
        }
    }

    /// One answer of the API server; `code` is `error` when there was none.
    pub fn requested(&self, verb: &str, kind: &str, code: &str) {
        self.0.requests.with_label_values(&[verb, kind, code]).inc();
        if code == "403" {
            self.0.forbidden.with_label_values(&[verb, kind]).inc();
        }
    }

    /// A list or watch that failed.
    pub fn watch_failed(&self, kind: Kind) {
        self.0.watch_failures.with_label_values(&[kind.as_str()]).inc();
    }

    /// Whether a kind has been listed.
    pub fn synced(&self, kind: Kind, is_synced: bool) {
        self.0.synced.with_label_values(&[kind.as_str()]).set(i64::from(is_synced));
    }

    /// Whether a kind's definition is missing or too old.
    pub fn definition_problem(&self, kind: Kind, is_wrong: bool) {
        self.0.definition_problem.with_label_values(&[kind.as_str()]).set(i64::from(is_wrong));
    }

    /// Whether this process leads.
    pub fn leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// Number of routers whose stats are read.
    pub fn routers_followed(&self, count: usize) {
        self.0.routers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// The Prometheus text format.
    pub fn text(&self, queued: usize) -> prometheus::Result<String> {
        self.0.queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        TextEncoder::new().encode_to_string(&self.0.registry.gather())
    }
}

const NAMES: &str = "names and labels are constants of this file, each used once";

fn options(name: &str, help: &str) -> Opts {
    Opts::new(format!("modelway_controller_{name}"), help)
}

fn counter(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    let counter = IntCounterVec::new(options(name, help), labels).expect(NAMES);
    registry.register(Box::new(counter.clone())).expect(NAMES);
    counter
}

fn gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    let gauges = IntGaugeVec::new(options(name, help), labels).expect(NAMES);
    registry.register(Box::new(gauges.clone())).expect(NAMES);
    gauges
}

fn gauge(registry: &Registry, name: &str, help: &str) -> IntGauge {
    let gauge = IntGauge::with_opts(options(name, help)).expect(NAMES);
    registry.register(Box::new(gauge.clone())).expect(NAMES);
    gauge
}

fn histogram(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
    let options = HistogramOpts::from(options(name, help)).buckets(SECONDS.to_vec());
    let histogram = HistogramVec::new(options, labels).expect(NAMES);
    registry.register(Box::new(histogram.clone())).expect(NAMES);
    histogram
}
