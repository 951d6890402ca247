//! The demand on one predictor: what its routers have told, kept as long as a window can ask for it.

use std::{collections::BTreeMap, time::Duration};

use modelway_api::inference::ScaleMetric;

use super::{Moment, history::History};

/// A router that has not spoken for that long is silent: two heartbeats of 10 s, and time to come.
pub const STALE: Duration = Duration::from_secs(25);
/// A silent router that nobody has listed is taken as gone.
const UNLISTED: Duration = Duration::from_mins(10);
/// Nothing of a router that has been silent for that long lies in a window.
const FORGOTTEN: Duration = Duration::from_hours(1);
/// Most routers remembered of one predictor; the ones not heard of for the longest go first.
const MOST_ROUTERS: usize = 64;

/// What a router said of one arm: totals since its start, and gauges.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sample {
    /// Total: the integral over time of the requests in flight or held, in request-microseconds.
    pub busy_us: u64,
    /// Total: requests assigned to the arm.
    pub requests: u64,
    /// Gauge: requests with a pod now.
    pub in_flight: u64,
    /// Gauge: requests that wait for a pod now.
    pub held: u64,
    /// Gauge: pods that the router has admitted.
    pub admitted: u32,
}

impl Sample {
    fn level(&self) -> f64 {
        self.in_flight as f64 + self.held as f64
    }
}

/// What the routers of one predictor have counted.
#[derive(Clone, Debug)]
pub struct Demand {
    started: Moment,
    /// The first report of any router.
    first: Option<Moment>,
    /// The last moment that was seen with a request.
    busy: Option<Moment>,
    is_listed: bool,
    routers: BTreeMap<String, Router>,
}

/// One router; it speaks, it has become silent, or it has never been heard.
#[derive(Clone, Debug, Default)]
struct Router {
    /// Whether requests are sent to it, as far as that is told.
    is_listed: bool,
    /// When its stream ended, unless it has reported since.
    lost: Option<Moment>,
    heard: Option<Heard>,
}

#[derive(Clone, Debug)]
struct Heard {
    boot: String,
    at: Moment,
    sample: Sample,
    history: History,
}

impl Demand {
    /// Nothing heard yet. `started` is when somebody began to listen: before that nothing is known.
    pub fn new(started: Moment) -> Self {
        Self { started, first: None, busy: None, is_listed: false, routers: BTreeMap::new() }
    }

    /// Says which routers take traffic for the predictor. One that is listed and silent keeps the number of pods from
    /// falling; one that is not listed any more does not.
    pub fn expect<'a>(&mut self, at: Moment, names: impl IntoIterator<Item = &'a str>) {
        self.is_listed = true;
        self.routers.values_mut().for_each(|router| router.is_listed = false);
        for name in names.into_iter().take(MOST_ROUTERS) {
            self.router(name).is_listed = true;
        }
        self.forget(at);
    }

    /// Takes a report of a router. `boot` is another after each start of it.
    pub fn observe(&mut self, at: Moment, router: &str, boot: &str, sample: Sample) {
        let known = self.router(router);
        known.lost = None;
        let was_busy = match &mut known.heard {
            Some(heard) => heard.add(at, boot, sample),
            none => {
                *none = Some(Heard { boot: boot.to_owned(), at, sample, history: History::new(at) });
                sample.level() > 0.0
            }
        };
        self.first.get_or_insert(at);
        if was_busy {
            self.busy = self.busy.max(Some(at));
        }
        if self.routers.len() > MOST_ROUTERS {
            self.forget(at);
        }
    }

    /// Notes that a router's stream ended: what it does is not known until it reports again.
    pub fn lost(&mut self, at: Moment, router: &str) {
        if let Some(router) = self.routers.get_mut(router) {
            router.lost.get_or_insert(at);
        }
    }

    fn router(&mut self, name: &str) -> &mut Router {
        if !self.routers.contains_key(name) {
            self.routers.insert(name.to_owned(), Router::default());
        }
        self.routers.get_mut(name).expect("it is there, or was put there just now")
    }

    /// The demand on average over the window that ends now, over a part of it while there is no more; none while no
    /// router reports.
    ///
    /// Requests at once are the integral of the requests in flight or held, the last level reaching until now;
    /// requests a second are those counted in the window that ends with each router's last report.
    pub fn average(&self, now: Moment, window: Duration, metric: ScaleMetric) -> Option<f64> {
        let first = self.first.filter(|_| self.reports(now))?;
        let from = now.saturating_sub(window).max(first.min(now));
        let length = now.saturating_sub(from).as_secs_f64();
        let heard = self.routers.values().filter_map(|router| Some((router, router.heard.as_ref()?)));
        let sum: f64 = match metric {
            ScaleMetric::Concurrency if length > 0.0 => {
                heard.map(|(router, heard)| heard.busy(router.end(now), from, now)).sum::<f64>() / length
            }
            ScaleMetric::Concurrency => return Some(self.level(now)),
            ScaleMetric::RequestsPerSecond if length > 0.0 => {
                heard.map(|(router, heard)| heard.requests(router.is_fresh(now), from, now)).sum::<f64>() / length
            }
            ScaleMetric::RequestsPerSecond => 0.0,
        };
        Some(sum)
    }

    /// Whether at least one router reports.
    pub fn reports(&self, now: Moment) -> bool {
        self.routers.values().any(|router| router.is_fresh(now))
    }

    /// Whether every router that takes traffic reports.
    pub fn is_complete(&self, now: Moment) -> bool {
        self.reports(now) && !self.routers.values().any(|router| router.is_missed(now, self.is_listed))
    }

    /// Requests that wait for a pod now.
    pub fn held(&self, now: Moment) -> u64 {
        self.fresh(now).fold(0, |sum, heard| sum.saturating_add(heard.sample.held))
    }

    /// Requests that are being answered or wait now.
    pub fn level(&self, now: Moment) -> f64 {
        self.fresh(now).map(|heard| heard.sample.level()).sum()
    }

    /// Pods that take requests: the most that one router has admitted, because one that has just started admits them
    /// one after another.
    pub fn admitted(&self, now: Moment) -> u32 {
        self.fresh(now).map(|heard| heard.sample.admitted).max().unwrap_or(0)
    }

    /// Time without a request, at most since the start: before it nothing is known.
    pub fn quiet(&self, now: Moment) -> Duration {
        if self.level(now) > 0.0 {
            return Duration::ZERO;
        }
        now.saturating_sub(self.busy.map_or(self.started, |busy| busy.max(self.started)))
    }

    fn fresh(&self, now: Moment) -> impl Iterator<Item = &Heard> {
        self.routers.values().filter(move |router| router.is_fresh(now)).filter_map(|router| router.heard.as_ref())
    }

    /// Forgets routers of which nothing lies in any window any more, and the longest silent ones beyond the bound.
    fn forget(&mut self, now: Moment) {
        self.routers
            .retain(|_, router| router.is_listed || router.silent(now).is_some_and(|silent| silent <= FORGOTTEN));
        while self.routers.len() > MOST_ROUTERS {
            let unlisted = self.routers.iter().filter(|(_, router)| !router.is_listed);
            let Some(name) = unlisted.max_by_key(|(_, router)| router.silent(now)).map(|(name, _)| name.clone()) else {
                return;
            };
            self.routers.remove(&name);
        }
    }
}

impl Router {
    /// Time since its last report.
    fn silent(&self, now: Moment) -> Option<Duration> {
        self.heard.as_ref().map(|heard| now.saturating_sub(heard.at))
    }

    fn is_fresh(&self, now: Moment) -> bool {
        self.lost.is_none() && self.silent(now).is_some_and(|silent| silent <= STALE)
    }

    /// Whether it takes traffic, and does not report.
    fn is_missed(&self, now: Moment, is_told: bool) -> bool {
        let counts = if is_told { self.is_listed } else { self.silent(now).is_some_and(|silent| silent <= UNLISTED) };
        counts && !self.is_fresh(now)
    }

    /// Until when the last level is taken to have lasted.
    fn end(&self, now: Moment) -> Moment {
        let Some(heard) = &self.heard else { return now };
        self.lost.unwrap_or(now).max(heard.at).min(heard.at.saturating_add(STALE))
    }
}

impl Heard {
    /// Adds a report; returns whether there was a request since the last one.
    fn add(&mut self, at: Moment, boot: &str, sample: Sample) -> bool {
        let at = at.max(self.at);
        let (busy, requests) = self.grown(at, boot, sample);
        self.history.grow(at, busy, requests);
        let was_busy = busy > 0.0 || requests > 0.0 || sample.level() > 0.0;
        if self.boot != boot {
            boot.clone_into(&mut self.boot);
        }
        (self.at, self.sample) = (at, sample);
        was_busy
    }

    /// Request-seconds and requests since the last report. Totals that start again are another process's: the last
    /// level of the one before is taken to have lasted, or what the new one counted where that is more.
    fn grown(&self, at: Moment, boot: &str, sample: Sample) -> (f64, f64) {
        let last = self.sample;
        let grown = sample.busy_us.checked_sub(last.busy_us).zip(sample.requests.checked_sub(last.requests));
        match grown.filter(|_| self.boot == boot) {
            Some((busy_us, requests)) => (busy_us as f64 / 1e6, requests as f64),
            None if self.boot == boot => (self.lasted(at), 0.0),
            None => (self.lasted(at).max(sample.busy_us as f64 / 1e6), sample.requests as f64),
        }
    }

    /// Request-seconds from the last report on, if nothing has changed since.
    fn lasted(&self, until: Moment) -> f64 {
        self.sample.level() * until.saturating_sub(self.at).min(STALE).as_secs_f64()
    }

    /// Request-seconds from one moment to another; the last level lasts until `end`.
    fn busy(&self, end: Moment, from: Moment, to: Moment) -> f64 {
        self.busy_until(end, to) - self.busy_until(end, from)
    }

    fn busy_until(&self, end: Moment, at: Moment) -> f64 {
        self.history.at(at).busy + self.lasted(at.min(end))
    }

    /// Requests in a window; for a router that reports, the one of the same length that ends with its last report.
    fn requests(&self, is_fresh: bool, from: Moment, to: Moment) -> f64 {
        let shift = if is_fresh { to.saturating_sub(self.at) } else { Duration::ZERO };
        let at = |moment: Moment| self.history.at(moment.saturating_sub(shift)).requests;
        at(to) - at(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn at(second: u64) -> Moment {
        Duration::from_secs(second)
    }

    /// Totals of a router that has had `level` requests in flight for so long, ten a second each.
    fn sample(level: u64, seconds: u64) -> Sample {
        let requests = level * seconds * 10;
        Sample { busy_us: level * seconds * 1_000_000, requests, in_flight: level, held: 0, admitted: 1 }
    }

    fn concurrency(demand: &Demand, now: u64) -> Option<f64> {
        demand.average(at(now), MINUTE, ScaleMetric::Concurrency).map(|average| (average * 1e6).round() / 1e6)
    }

    #[test]
    fn last_level_lasts_until_the_router_is_silent_too_long() {
        let mut demand = Demand::new(at(0));
        assert_eq!(concurrency(&demand, 1), None);
        demand.observe(at(10), "a", "boot", sample(4, 100));
        assert_eq!([10, 15, 35, 36].map(|now| concurrency(&demand, now)), [Some(4.0), Some(4.0), Some(4.0), None]);
    }

    #[test]
    fn short_requests_between_two_reports_are_counted() {
        let mut demand = Demand::new(at(0));
        demand.observe(at(0), "a", "boot", Sample::default());
        demand.observe(at(10), "a", "boot", Sample { busy_us: 30_000_000, requests: 50, ..Sample::default() });
        assert_eq!(concurrency(&demand, 10), Some(3.0));
        let rate = demand.average(at(10), MINUTE, ScaleMetric::RequestsPerSecond);
        assert!(rate.is_some_and(|rate| (rate - 5.0).abs() < 1e-9));
    }

    #[test]
    fn rate_is_steady_between_heartbeats() {
        let mut demand = Demand::new(at(0));
        for beat in 0..=10 {
            demand.observe(at(beat * 10), "a", "boot", sample(2, beat * 10));
        }
        for now in 100..110 {
            let rate = demand.average(at(now), MINUTE, ScaleMetric::RequestsPerSecond);
            assert!(rate.is_some_and(|rate| (rate - 20.0).abs() < 1e-9), "{rate:?} at {now}");
        }
    }

    #[test]
    fn demand_of_routers_adds_up_whoever_restarts() {
        let mut demand = Demand::new(at(0));
        for second in 0..=60 {
            demand.observe(at(second), "a", "boot", sample(3, second));
            let (boot, since) = if second < 30 { ("one", second) } else { ("two", second - 30) };
            demand.observe(at(second), "b", boot, sample(5, since));
        }
        assert_eq!(concurrency(&demand, 60), Some(8.0));
        assert_eq!(demand.admitted(at(60)), 1);
    }

    #[test]
    fn totals_that_shrink_without_a_restart_are_no_negative_demand() {
        let mut demand = Demand::new(at(0));
        demand.observe(at(0), "a", "boot", sample(2, 1_000));
        demand.observe(at(10), "a", "boot", sample(2, 0));
        assert_eq!(concurrency(&demand, 10), Some(2.0));
    }

    #[test]
    fn listed_router_is_missed_until_it_reports_and_a_delisted_one_is_not() {
        let mut demand = Demand::new(at(0));
        demand.expect(at(0), ["a", "b"]);
        demand.observe(at(1), "a", "boot", sample(1, 1));
        assert!(!demand.is_complete(at(1)), "b was never heard");
        demand.observe(at(2), "b", "boot", sample(1, 1));
        assert!(demand.is_complete(at(2)));
        demand.lost(at(3), "b");
        assert!(!demand.is_complete(at(3)));
        demand.expect(at(4), ["a"]);
        assert!(demand.is_complete(at(4)));
    }

    #[test]
    fn quiet_time_begins_when_the_last_request_ends_and_never_before_the_start() {
        let mut demand = Demand::new(at(100));
        demand.observe(at(101), "a", "boot", Sample::default());
        assert_eq!(demand.quiet(at(110)), at(10));
        demand.observe(at(120), "a", "boot", Sample { held: 1, ..Sample::default() });
        assert_eq!(demand.quiet(at(121)), at(0));
        demand.observe(at(130), "a", "boot", Sample { busy_us: 10_000_000, ..Sample::default() });
        assert_eq!(demand.quiet(at(150)), at(20));
    }

    #[test]
    fn routers_that_come_and_go_are_forgotten() {
        let mut demand = Demand::new(at(0));
        for second in 0..1_000 {
            demand.observe(at(second), &second.to_string(), "boot", sample(1, 1));
        }
        assert!(demand.routers.len() <= MOST_ROUTERS);
        demand.expect(at(10_000), []);
        assert!(demand.routers.is_empty());
    }
}
