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
/// The longest document. A longer one goes without the parts in [`SHORTER`].
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
    let now = meter.lane.now();
    let errors = ErrorClass::ALL.iter().filter_map(|(class, name)| {
        let count = meter.errors[*class as usize].load(Relaxed);
        (count > 0).then(|| ((*name).to_owned(), count))
    });
    ArmStats {
        requests: meter.requests.load(Relaxed),
        in_flight: now.in_flight,
        held: now.held,
        busy_us: now.busy_us,
        admitted: u32::try_from(arm.endpoints.len()).unwrap_or(u32::MAX),
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

/// What a document that is too long goes without, one after the other.
const SHORTER: [fn(&mut ArmStats); 3] =
    [|arm| arm.latency_buckets.clear(), |arm| arm.endpoints.clear(), |arm| arm.errors.clear()];

/// One event, shortened where the document would be too long.
fn event(document: &RouterStats) -> Bytes {
    let text = |document: &RouterStats| serde_json::to_string(document).expect("numbers and strings are JSON");
    let mut line = text(document);
    let mut shorter = SHORTER.iter();
    let mut document = std::borrow::Cow::Borrowed(document);
    while line.len() > MOST_BYTES
        && let Some(shorten) = shorter.next()
    {
        document.to_mut().arms.values_mut().for_each(shorten);
        line = text(&document);
    }
    Bytes::from(format!("data: {line}\n\n"))
}

/// The document without what changes by the passing of time alone.
fn settled(document: &RouterStats) -> RouterStats {
    let mut settled = document.clone();
    settled.arms.values_mut().for_each(|arm| arm.busy_us = 0);
    settled
}

/// Whether only time and new requests can change the document.
fn is_idle(document: &RouterStats) -> bool {
    document.arms.values().all(|arm| arm.in_flight == 0 && arm.held == 0)
}

/// Server-sent events: now, then on change, at once when a request starts to wait or other routes are in force.
pub fn events(shared: Arc<Shared>) -> impl Stream<Item = Bytes> + Send {
    let (began, held, routes) = (shared.activity.watcher(), shared.hold.started(), shared.routes.changes());
    stream::unfold(Follow { shared, began, held, routes, idle: false, last: None }, |mut follow| async move {
        let event = follow.next().await;
        Some((event, follow))
    })
}

struct Follow {
    shared: Arc<Shared>,
    began: watch::Receiver<u64>,
    held: watch::Receiver<u64>,
    routes: watch::Receiver<u64>,
    /// Whether the next look waits for something to happen.
    idle: bool,
    last: Option<(RouterStats, Instant)>,
}

impl Follow {
    async fn next(&mut self) -> Bytes {
        loop {
            if let Some(due) = self.last.as_ref().map(|(_, at)| *at + HEARTBEAT) {
                self.wait(due).await;
            }
            self.began.mark_unchanged();
            self.shared.activity.sleep();
            let document = document(&self.shared);
            let settled = settled(&document);
            let unchanged = self.last.as_ref().is_some_and(|(last, _)| *last == settled);
            self.idle = unchanged && is_idle(&document);
            let due = self.last.as_ref().is_none_or(|(_, at)| at.elapsed() >= HEARTBEAT);
            if due || !unchanged {
                self.last = Some((settled, Instant::now()));
                return event(&document);
            }
        }
    }

    async fn wait(&mut self, due: Instant) {
        let pause = if self.idle { due } else { Instant::now() + COALESCE };
        tokio::select! {
            () = tokio::time::sleep_until(pause) => {}
            // The senders live in `shared`, so these never end with an error.
            _ = self.began.changed(), if self.idle => tokio::time::sleep(GATHER).await,
            _ = self.held.changed() => tokio::time::sleep(GATHER).await,
            _ = self.routes.changed() => tokio::time::sleep(GATHER).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(document: &RouterStats) -> RouterStats {
        let event = event(document);
        assert!(event.len() <= MOST_BYTES + "data: \n\n".len(), "{} bytes", event.len());
        let line = event.strip_prefix(b"data: ").and_then(|line| line.strip_suffix(b"\n\n")).unwrap();
        serde_json::from_slice(line).unwrap()
    }

    fn arm(endpoints: u8) -> ArmStats {
        ArmStats {
            requests: 123_456_789,
            in_flight: 1_234,
            held: 999,
            busy_us: 1_234_567_890_123,
            admitted: endpoints.into(),
            errors: ErrorClass::ALL.iter().map(|(_, name)| ((*name).to_owned(), 1_234)).collect(),
            latency_us_sum: 123_456_789_012,
            latency_buckets: vec![123_456; 15],
            endpoints: (0..endpoints).map(|host| format!("10.0.0.{host}:8080")).collect(),
        }
    }

    #[test]
    fn a_long_document_keeps_what_the_autoscaler_needs() {
        let document = |arms: u8, endpoints| {
            let arms = (0..arms).map(|number| (format!("{number:->40}"), arm(endpoints))).collect();
            RouterStats { version: 1, arms, ..RouterStats::default() }
        };
        let many_endpoints = document(1, 255);
        let many_arms = document(16, 2);
        for (sent, whole) in [(sent(&many_endpoints), many_endpoints), (sent(&many_arms), many_arms)] {
            for (name, arm) in &whole.arms {
                let kept = &sent.arms[name];
                let needed = |arm: &ArmStats| (arm.requests, arm.in_flight, arm.held, arm.busy_us, arm.admitted);
                assert_eq!(needed(kept), needed(arm));
                assert_eq!((kept.latency_buckets.len(), kept.endpoints.len()), (0, 0));
            }
        }
        assert_eq!(sent(&document(1, 2)), document(1, 2), "a short one goes whole");
        assert_eq!(sent(&document(9, 2)).arms.values().map(|arm| arm.errors.len()).min(), Some(6));
    }

    #[test]
    fn time_alone_is_no_change() {
        let mut document = RouterStats::default();
        document.arms.insert("v1".into(), arm(1));
        let before = settled(&document);
        document.arms.get_mut("v1").unwrap().busy_us += 1;
        assert_eq!(settled(&document), before);
        document.arms.get_mut("v1").unwrap().held += 1;
        assert_ne!(settled(&document), before);
    }
}
