//! What one router has counted, over time: totals at moments, straight lines in between.

use std::{collections::VecDeque, time::Duration};

use super::Moment;

/// Points of the recent past are at least this far apart; the newest one moves until then, and never further than that.
const RECENT_STEP: Duration = Duration::from_millis(500);
/// How long the recent past is.
const RECENT: Duration = Duration::from_mins(2);
/// Points before that are at least this far apart: 10 s are little in a window of minutes.
const OLD_STEP: Duration = Duration::from_secs(10);
/// The longest window, and a little more.
const KEPT: Duration = Duration::from_secs(3_700);

/// Totals at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at: Moment,
    /// Request-seconds so far.
    pub busy: f64,
    /// Requests so far.
    pub requests: f64,
}

/// Totals that only grow, at most about 900 points.
#[derive(Clone, Debug)]
pub struct History {
    old: VecDeque<Point>,
    recent: VecDeque<Point>,
    last: Point,
}

impl History {
    /// Starts with nothing counted.
    pub fn new(at: Moment) -> Self {
        Self { old: VecDeque::new(), recent: VecDeque::new(), last: Point { at, busy: 0.0, requests: 0.0 } }
    }

    /// Adds what was counted since the last point.
    pub fn grow(&mut self, at: Moment, busy: f64, requests: f64) {
        let last = self.last;
        let is_apart = self.recent.back().is_none_or(|point| last.at.saturating_sub(point.at) >= RECENT_STEP);
        // Left out, it would spread what was counted until it over the time after it.
        let is_end = at.saturating_sub(last.at) >= RECENT_STEP;
        if is_apart || is_end {
            self.recent.push_back(last);
        }
        self.last = Point { at, busy: last.busy + busy, requests: last.requests + requests };
        self.age(at);
    }

    fn age(&mut self, now: Moment) {
        while self.recent.front().is_some_and(|point| now.saturating_sub(point.at) > RECENT) {
            let Some(point) = self.recent.pop_front() else { return };
            if self.old.back().is_none_or(|older| point.at.saturating_sub(older.at) >= OLD_STEP) {
                self.old.push_back(point);
            }
        }
        while self.old.front().is_some_and(|point| now.saturating_sub(point.at) > KEPT) {
            self.old.pop_front();
        }
    }

    /// Totals at a moment up to the last point; before the first one nothing was counted.
    pub fn at(&self, at: Moment) -> Point {
        let (mut before, mut after) = (None, self.last);
        for points in [&self.recent, &self.old] {
            let index = points.partition_point(|point| point.at <= at);
            after = points.get(index).copied().unwrap_or(after);
            before = index.checked_sub(1).and_then(|index| points.get(index)).copied();
            if before.is_some() {
                break;
            }
        }
        if at >= self.last.at {
            return self.last;
        }
        before.map_or(Point { at, ..after }, |before| between(before, after, at))
    }
}

fn between(before: Point, after: Point, at: Moment) -> Point {
    let length = after.at.saturating_sub(before.at).as_secs_f64();
    let share = if length > 0.0 { at.saturating_sub(before.at).as_secs_f64() / length } else { 1.0 };
    let part = |from: f64, to: f64| from + (to - from) * share;
    Point { at, busy: part(before.busy, after.busy), requests: part(before.requests, after.requests) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Moment {
        Duration::from_secs_f64(seconds)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn totals_between_two_points_lie_on_a_line() {
        let mut history = History::new(seconds(10.0));
        history.grow(seconds(20.0), 30.0, 100.0);
        history.grow(seconds(22.0), 0.0, 0.0);
        close(history.at(seconds(15.0)).busy, 15.0);
        close(history.at(seconds(15.0)).requests, 50.0);
        close(history.at(seconds(21.0)).busy, 30.0);
        close(history.at(seconds(5.0)).busy, 0.0);
        close(history.at(seconds(99.0)).busy, 30.0);
    }

    #[test]
    fn a_short_burst_stays_where_it_was_when_nothing_follows() {
        let mut history = History::new(seconds(1.0));
        history.grow(seconds(20.0), 0.0, 0.0);
        history.grow(seconds(20.3), 0.26, 1.0);
        history.grow(seconds(30.0), 0.0, 0.0);
        close(history.at(seconds(21.0)).busy, 0.26);
        close(history.at(seconds(20.3)).requests, 1.0);
    }

    #[test]
    fn stays_small_and_true_over_a_day_of_events() {
        let mut history = History::new(Duration::ZERO);
        for step in 1..=864_000_u32 {
            history.grow(Duration::from_millis(100) * step, 0.2, 1.0);
        }
        assert!(history.recent.len() <= 250 && history.old.len() <= 380, "{}", history.old.len());
        let day = 86_400.0;
        for ago in [0.0, 0.05, 6.0, 60.0, 119.0, 121.0, 130.0, 600.0, 3_599.0] {
            let rate = (history.last.busy - history.at(seconds(day - ago)).busy) / ago.max(1e-9);
            assert!(ago == 0.0 || (rate - 2.0).abs() < 1e-4, "{ago} s ago: {rate}");
        }
    }
}
