//! What is counted, with every handle found when the configuration is built and none on the way of a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use modelway_api::stats::LATENCY_BOUNDS_MS;
use parking_lot::Mutex;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::lane::Lane;

/// Error classes of the stats document.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorClass {
    /// No connection to an endpoint.
    Connect,
    /// A limit on time was reached.
    Timeout,
    /// The endpoint answered 5xx.
    Status5xx,
    /// No endpoint in time.
    NoEndpoint,
    /// The endpoint ended the connection.
    Reset,
    /// Another arm had to answer.
    Failover,
}

impl ErrorClass {
    /// All classes, in the order of the counters.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Connect, "connect"),
        (Self::Timeout, "timeout"),
        (Self::Status5xx, "status_5xx"),
        (Self::NoEndpoint, "no_endpoint"),
        (Self::Reset, "reset"),
        (Self::Failover, "failover"),
    ];
}

/// What became of a request that had to wait for an arm.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HoldOutcome {
    /// It went to its arm.
    Released,
    /// Its time was over, or the router's.
    Expired,
    /// There was no place for it.
    Full,
    /// The client left.
    ClientGone,
    /// It went to another arm.
    FailedOver,
    /// Its arm cannot answer, nor can another.
    Refused,
}

impl HoldOutcome {
    /// All outcomes with their names, in the order of the counters.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Released, "released"),
        (Self::Expired, "expired"),
        (Self::Full, "full"),
        (Self::ClientGone, "client_gone"),
        (Self::FailedOver, "failed_over"),
        (Self::Refused, "refused"),
    ];
}

/// Values of the label `code_class`; the last one stands for clients that left before a status.
const CODE_CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "canceled"];

/// Counters of one arm; they outlive configurations.
pub struct ArmMeter {
    /// Requests assigned to the arm.
    pub requests: AtomicU64,
    /// Requests in flight and held now.
    pub lane: Lane,
    /// By [`ErrorClass`].
    pub errors: [AtomicU64; ErrorClass::ALL.len()],
    /// Sum of latencies in microseconds.
    pub latency_us_sum: AtomicU64,
    /// Counts per bound, not cumulative, the last without bound.
    pub latency_buckets: [AtomicU64; LATENCY_BOUNDS_MS.len() + 1],
    by_code_class: [IntCounter; CODE_CLASSES.len()],
    duration: Histogram,
    in_flight_gauge: IntGauge,
    held_gauge: IntGauge,
    hold_outcomes: [IntCounter; HoldOutcome::ALL.len()],
}

impl ArmMeter {
    /// Counts an error of the arm.
    pub fn error(&self, class: ErrorClass) {
        self.errors[class as usize].fetch_add(1, Relaxed);
    }

    /// Counts what became of a request that had to wait.
    pub fn hold_ended(&self, outcome: HoldOutcome) {
        self.hold_outcomes[outcome as usize].inc();
    }

    /// Counts the end of a request; no status = the client left before one.
    pub fn finished(&self, status: Option<StatusCode>, latency: Duration) {
        let class = status.map_or(CODE_CLASSES.len() - 1, |status| usize::from(status.as_u16() / 100).clamp(1, 5) - 1);
        self.by_code_class[class].inc();
        self.duration.observe(latency.as_secs_f64());
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_us_sum.fetch_add(microseconds, Relaxed);
        let bucket = LATENCY_BOUNDS_MS.iter().position(|bound| microseconds <= bound * 1_000);
        self.latency_buckets[bucket.unwrap_or(LATENCY_BOUNDS_MS.len())].fetch_add(1, Relaxed);
    }
}

/// Why an attempt was made again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryReason {
    /// No connection.
    Connect,
    /// Never written.
    NotWritten,
    /// Connection ended before a response.
    Reset,
}

/// All metrics of one router.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGaugeVec,
    held: IntGaugeVec,
    hold_outcomes: IntCounterVec,
    retries: [IntCounter; 3],
    /// Endpoints left out for a while.
    pub ejections: IntCounter,
    /// Requests that no arm was found for.
    pub unrouted: IntCounter,
    /// Requests refused for their framing.
    pub rejected: IntCounter,
    /// Generation in force.
    pub generation: IntGauge,
    /// Open connections of clients.
    pub connections: IntGauge,
    arms: Mutex<HashMap<String, Arc<ArmMeter>>>,
    retried: AtomicU64,
}

impl Metrics {
    /// Registers everything that is known before the first table.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let retries = IntCounterVec::new(
            Opts::new("modelway_router_retries_total", "Attempts made again, by reason"),
            &["reason"],
        )?;
        registry.register(Box::new(retries.clone()))?;
        build_info(&registry)?;
        let arm = &["inference", "arm"];
        Ok(Self {
            requests: register(
                &registry,
                IntCounterVec::new(
                    Opts::new("modelway_router_requests_total", "Requests by assigned arm and class of status"),
                    &["inference", "arm", "code_class"],
                )?,
            )?,
            duration: register(
                &registry,
                HistogramVec::new(
                    HistogramOpts::new("modelway_router_request_duration_seconds", "From request head to response end")
                        .buckets(LATENCY_BOUNDS_MS.iter().map(|bound| *bound as f64 / 1_000.0).collect()),
                    arm,
                )?,
            )?,
            in_flight: register(
                &registry,
                IntGaugeVec::new(Opts::new("modelway_router_in_flight", "Requests with an endpoint now"), arm)?,
            )?,
            held: register(
                &registry,
                IntGaugeVec::new(Opts::new("modelway_router_held", "Requests held for an endpoint now"), arm)?,
            )?,
            hold_outcomes: register(
                &registry,
                IntCounterVec::new(
                    Opts::new(
                        "modelway_router_hold_outcomes_total",
                        "Requests that had to wait, by what became of them",
                    ),
                    &["inference", "arm", "outcome"],
                )?,
            )?,
            retries: ["connect", "not_written", "reset"].map(|reason| retries.with_label_values(&[reason])),
            ejections: register(
                &registry,
                IntCounter::new("modelway_router_ejections_total", "Endpoints left out after failures in a row")?,
            )?,
            unrouted: register(
                &registry,
                IntCounter::new("modelway_router_unrouted_total", "Requests that no arm was found for")?,
            )?,
            rejected: register(
                &registry,
                IntCounter::new("modelway_router_rejected_total", "Requests refused for their framing")?,
            )?,
            generation: register(
                &registry,
                IntGauge::new("modelway_router_config_generation", "Generation of the route table in force")?,
            )?,
            connections: register(
                &registry,
                IntGauge::new("modelway_router_connections", "Open connections of clients")?,
            )?,
            arms: Mutex::new(HashMap::new()),
            retried: AtomicU64::new(0),
            registry,
        })
    }

    /// The counters of an arm, the same ones for the same name.
    pub fn arm(&self, inference: &str, arm: &str) -> Arc<ArmMeter> {
        let labels = [inference, arm];
        let make = || {
            Arc::new(ArmMeter {
                requests: AtomicU64::new(0),
                lane: Lane::default(),
                errors: Default::default(),
                latency_us_sum: AtomicU64::new(0),
                latency_buckets: Default::default(),
                by_code_class: CODE_CLASSES.map(|class| self.requests.with_label_values(&[inference, arm, class])),
                duration: self.duration.with_label_values(&labels),
                in_flight_gauge: self.in_flight.with_label_values(&labels),
                held_gauge: self.held.with_label_values(&labels),
                hold_outcomes: HoldOutcome::ALL
                    .map(|(_, outcome)| self.hold_outcomes.with_label_values(&[inference, arm, outcome])),
            })
        };
        self.arms.lock().entry(arm.to_owned()).or_insert_with(make).clone()
    }

    /// The counters of every arm so far, by name.
    pub fn arms(&self) -> BTreeMap<String, Arc<ArmMeter>> {
        self.arms.lock().iter().map(|(name, meter)| (name.clone(), meter.clone())).collect()
    }

    /// Counts an attempt made again.
    pub fn retry(&self, reason: RetryReason) {
        self.retries[reason as usize].inc();
        self.retried.fetch_add(1, Relaxed);
    }

    /// Everything in the text format of Prometheus.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        for meter in self.arms.lock().values() {
            let now = meter.lane.now();
            meter.in_flight_gauge.set(now.in_flight.try_into().unwrap_or(i64::MAX));
            meter.held_gauge.set(now.held.try_into().unwrap_or(i64::MAX));
        }
        prometheus::TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

fn register<C: prometheus::core::Collector + Clone + 'static>(
    registry: &Registry,
    metric: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

fn build_info(registry: &Registry) -> Result<(), prometheus::Error> {
    let options = Opts::new("modelway_build_info", "Always 1; the label names the release");
    let info = register(registry, IntGaugeVec::new(options, &["version"])?)?;
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_asking_for_the_arm_again() {
        let metrics = Metrics::new().unwrap();
        metrics.arm("digits", "v1").finished(Some(StatusCode::OK), Duration::from_micros(1_500));
        metrics.arm("digits", "v1").finished(None, Duration::from_mins(2));
        let meter = metrics.arm("digits", "v1");
        assert_eq!(meter.latency_buckets[1].load(Relaxed), 1);
        assert_eq!(meter.latency_buckets[LATENCY_BOUNDS_MS.len()].load(Relaxed), 1);
        let text = metrics.text().unwrap();
        let line = r#"modelway_router_requests_total{arm="v1",code_class="2xx",inference="digits"} 1"#;
        assert!(text.contains(line), "{text}");
        assert!(text.contains(r#"code_class="canceled",inference="digits"} 1"#), "{text}");
    }
}
