//! What a router tells the controller: `GET /stats/stream` on its admin port, server-sent events.
//!
//! Versioned and additive like the route table. Counters are totals since the router's start (`boot_id`), so that a
//! reader that missed an event loses nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One event of the stream; `data:` is this document as one line of JSON.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterStats {
    /// Document version, 1 today.
    pub version: u32,
    /// Random at each start of the router.
    pub boot_id: String,
    /// Route table generation in force, 0 = none yet.
    pub generation: i64,
    /// Epoch of that table.
    pub epoch: i64,
    /// By arm name.
    pub arms: BTreeMap<String, ArmStats>,
}

/// Totals of one arm since the router's start; gauges are marked.
///
/// A document that would be too long goes without `latency_buckets`, then also without `endpoints`, then also without
/// `errors`; everything else is in every event.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArmStats {
    /// Requests assigned to the arm, whatever came of them (intention to treat).
    pub requests: u64,
    /// Gauge: requests with an endpoint of the arm now, whichever arm they were assigned to.
    pub in_flight: u64,
    /// Gauge: requests held for the arm now; none of them is in flight.
    pub held: u64,
    /// Integral over time of `in_flight + held`, in request-microseconds: the difference of two events divided by the
    /// time between them is the average concurrency, exact however short the requests were.
    pub busy_us: u64,
    /// Gauge: how many endpoints the router has admitted.
    pub admitted: u32,
    /// By class: `connect`, `timeout`, `status_5xx`, `no_endpoint`, `reset`, `failover`.
    pub errors: BTreeMap<String, u64>,
    /// Sum of latencies in microseconds, whole responses.
    pub latency_us_sum: u64,
    /// Cumulative counts at the bounds of [`LATENCY_BOUNDS_MS`], then the total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency_buckets: Vec<u64>,
    /// Gauge: `ip:port` that the router has admitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
}

/// Upper bounds in milliseconds of `latency_buckets`; one more bucket holds the rest.
pub const LATENCY_BOUNDS_MS: [u64; 14] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000];
