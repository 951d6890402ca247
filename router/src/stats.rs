//! The stats document, and the stream of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use modelway_api::stats::{ArmStats, RouterStats};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::meter::{ArmMeter, ErrorClass};
use crate::routes::Arm;
use crate::server::Shared;

/// Two events are at least this far apart, unless a request was held in between.
const COALESCE: Duration = Duration::from_millis(100);
/// Requests that start to wait together make one event.
const GATHER: Duration = Duration::from_millis(5);
/// An event comes at least this often.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The longest document. Addresses, then histograms are left out of a longer one.
const MOST_BYTES: usize = 4 * 1024;

/// The totals at this moment.
pub fn document(shared: &Shared) -> RouterStats {
    let mut document = RouterStats { version: 1, boot_id: shared.boot_id.clone(), ..RouterStats::default() };
    if let Some(routes) = shared.routes.load() {
        document.generation = routes.table.generation;
        document.epoch = routes.table.epoch;
        let arms = routes.table.arms.iter().zip(&routes.arms);
        document.arms = arms.map(|(arm, runtime)| (arm.name.clone(), arm_stats(runtime))).collect();
    }
    document
}

fn arm_stats(arm: &Arm) -> ArmStats {
    let meter = &arm.meter;
    let errors = ErrorClass::ALL.iter().filter_map(|(class, name)| {
        let count = meter.errors[*class as usize].load(Relaxed);
        (count > 0).then(|| ((*name).to_owned(), count))
    });
    ArmStats {
        requests: meter.requests.load(Relaxed),
        in_flight: meter.in_flight.load(Relaxed),
        held: meter.held.load(Relaxed),
        errors: errors.collect(),
        latency_us_sum: meter.latency_us_sum.load(Relaxed),
        latency_buckets: cumulative_buckets(meter),
        endpoints: arm.endpoints.iter().map(|endpoint| endpoint.address.clone()).collect(),
    }
}

fn cumulative_buckets(meter: &ArmMeter) -> Vec<u64> {
    let counts = meter.latency_buckets.iter().map(|bucket| bucket.load(Relaxed));
    counts
        .scan(0, |total, count| {
            *total += count;
            Some(*total)
        })
        .collect()
}

/// One event, shortened where the document would be too long.
fn event(document: &RouterStats) -> Bytes {
    let text = |document: &RouterStats| serde_json::to_string(document).expect("numbers and strings are JSON");
    let mut line = text(document);
    if line.len() > MOST_BYTES {
        let mut shorter = document.clone();
        shorter.arms.values_mut().for_each(|arm| arm.endpoints.clear());
        line = text(&shorter);
        if line.len() > MOST_BYTES {
            shorter.arms.values_mut().for_each(|arm| arm.latency_buckets.clear());
            line = text(&shorter);
        }
    }
    Bytes::from(format!("data: {line}\n\n"))
}

/// Server-sent events: now, then on change, at once when a request starts to wait.
pub fn events(shared: Arc<Shared>) -> impl Stream<Item = Bytes> + Send {
    let held = shared.hold.started();
    stream::unfold(Follow { shared, held, last: None }, |mut follow| async move {
        let event = follow.next().await;
        Some((event, follow))
    })
}

struct Follow {
    shared: Arc<Shared>,
    held: watch::Receiver<u64>,
    last: Option<(RouterStats, Instant)>,
}

impl Follow {
    async fn next(&mut self) -> Bytes {
        loop {
            if self.last.is_some() {
                tokio::select! {
                    () = tokio::time::sleep(COALESCE) => {}
                    // The sender lives in `shared`, so this never ends with an error.
                    _ = self.held.changed() => tokio::time::sleep(GATHER).await,
                }
            }
            let document = document(&self.shared);
            let unchanged = |(last, at): &(RouterStats, Instant)| *last == document && at.elapsed() < HEARTBEAT;
            if !self.last.as_ref().is_some_and(unchanged) {
                let event = event(&document);
                self.last = Some((document, Instant::now()));
                return event;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_document_goes_without_addresses() {
        let mut document = RouterStats { version: 1, ..RouterStats::default() };
        let endpoints = (0..256).map(|host| format!("10.0.0.{host}:8080")).collect();
        document.arms.insert("v1".into(), ArmStats { requests: 7, endpoints, ..ArmStats::default() });
        let event = event(&document);
        assert!(event.len() <= MOST_BYTES);
        let line = event.strip_prefix(b"data: ").and_then(|line| line.strip_suffix(b"\n\n")).unwrap();
        let read: RouterStats = serde_json::from_slice(line).unwrap();
        assert_eq!((read.arms["v1"].requests, read.arms["v1"].endpoints.len()), (7, 0));
    }
}
