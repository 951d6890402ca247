//! What the users saw, added up. Pure: answers in, figures out.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::document::{Arm, Latency, Traffic};

/// One answered request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub user: u32,
    /// Predictor that answered.
    pub arm: String,
    /// Whether the largest score was at the true digit.
    pub right: bool,
    pub milliseconds: f64,
}

/// Answers and errors of both phases: before and after the weights changed.
#[derive(Debug, Default)]
pub struct Tally {
    first_arm: HashMap<u32, String>,
    later_arm: HashMap<u32, String>,
    answers: BTreeMap<String, ArmTally>,
    errors: u64,
    violations: u64,
    /// Users that the weight change moved into the grown arm.
    moved: u64,
}

#[derive(Debug, Default)]
struct ArmTally {
    right: u64,
    milliseconds: Vec<f64>,
}

impl Tally {
    /// A request without a good answer.
    pub fn error(&mut self) {
        self.errors += 1;
    }

    /// Under the first weights every user stays on one arm.
    pub fn before(&mut self, answer: &Answer) {
        self.record(answer);
        let arm = self.first_arm.entry(answer.user).or_insert_with(|| answer.arm.clone());
        if *arm != answer.arm {
            self.violations += 1;
        }
    }

    /// After the weights changed a user may be on the first arm or on the one that grew, and stays there.
    pub fn after(&mut self, answer: &Answer, grown: &str) {
        self.record(answer);
        if let Some(arm) = self.later_arm.get(&answer.user) {
            if *arm != answer.arm {
                self.violations += 1;
            }
            return;
        }
        if self.first_arm.get(&answer.user).is_some_and(|first| *first != answer.arm) {
            let counter = if answer.arm == grown { &mut self.moved } else { &mut self.violations };
            *counter += 1;
        }
        self.later_arm.insert(answer.user, answer.arm.clone());
    }

    /// While the weights change, in both directions of time: only a move out of the grown arm is wrong.
    pub fn during(&mut self, answer: &Answer, grown: &str) {
        self.record(answer);
        let left = self.first_arm.get(&answer.user).is_some_and(|first| first == grown) && answer.arm != grown;
        self.violations += u64::from(left);
    }

    fn record(&mut self, answer: &Answer) {
        let arm = self.answers.entry(answer.arm.clone()).or_default();
        arm.right += u64::from(answer.right);
        arm.milliseconds.push(answer.milliseconds);
    }

    /// Users that were on this arm under the first weights.
    pub fn users_on(&self, arm: &str) -> HashSet<u32> {
        self.first_arm.iter().filter(|(_, first)| *first == arm).map(|(user, _)| *user).collect()
    }

    /// Users that were on that arm under the last weights.
    pub fn last_users_on(&self, arm: &str) -> Vec<u32> {
        let mut users: Vec<u32> =
            self.later_arm.iter().filter(|(_, last)| *last == arm).map(|(user, _)| *user).collect();
        users.sort_unstable();
        users
    }

    /// Figures of all users together.
    pub fn traffic(&self) -> Traffic {
        let requests_by_arm: BTreeMap<String, u64> =
            self.answers.iter().map(|(arm, tally)| (arm.clone(), tally.milliseconds.len() as u64)).collect();
        let mut users = BTreeMap::new();
        for arm in self.first_arm.values() {
            *users.entry(arm.clone()).or_insert(0) += 1;
        }
        Traffic {
            requests: requests_by_arm.values().sum::<u64>() + self.errors,
            errors: self.errors,
            users,
            requests_by_arm,
            sticky_violations: self.violations,
            moved_on_reweight: self.moved,
        }
    }

    /// Figures by arm, in name order.
    pub fn arms(&self) -> Vec<Arm> {
        self.answers.iter().map(|(name, tally)| tally.summary(name)).collect()
    }
}

impl ArmTally {
    fn summary(&self, name: &str) -> Arm {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_by(f64::total_cmp);
        let accuracy = self.right as f64 / sorted.len().max(1) as f64;
        Arm {
            name: name.to_owned(),
            accuracy,
            latency_ms: Latency { p50: quantile(&sorted, 50), p95: quantile(&sorted, 95) },
        }
    }
}

/// Nearest-rank percentile of a sorted list.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(user: u32, arm: &str) -> Answer {
        Answer { user, arm: arm.to_owned(), right: true, milliseconds: 1.0 }
    }

    #[test]
    fn a_user_on_two_arms_is_a_violation() {
        let mut tally = Tally::default();
        tally.before(&answer(1, "v1"));
        tally.before(&answer(1, "v1"));
        assert_eq!(tally.traffic().sticky_violations, 0);
        tally.before(&answer(1, "v2"));
        assert_eq!(tally.traffic().sticky_violations, 1);
    }

    #[test]
    fn moving_into_the_grown_arm_is_no_violation_and_counted() {
        let mut tally = Tally::default();
        for user in 0..3 {
            tally.before(&answer(user, if user == 2 { "v2" } else { "v1" }));
        }
        tally.after(&answer(0, "v2"), "v2");
        tally.after(&answer(1, "v1"), "v2");
        tally.after(&answer(2, "v2"), "v2");
        let traffic = tally.traffic();
        assert_eq!((traffic.sticky_violations, traffic.moved_on_reweight), (0, 1));
        assert_eq!(traffic.users, BTreeMap::from([("v1".to_owned(), 2), ("v2".to_owned(), 1)]));
    }

    #[test]
    fn leaving_the_grown_arm_is_a_violation() {
        let mut tally = Tally::default();
        tally.before(&answer(0, "v2"));
        tally.during(&answer(0, "v1"), "v2");
        tally.after(&answer(0, "v1"), "v2");
        let traffic = tally.traffic();
        assert_eq!((traffic.sticky_violations, traffic.moved_on_reweight), (2, 0));
    }

    #[test]
    fn errors_count_as_requests() {
        let mut tally = Tally::default();
        tally.before(&answer(0, "v1"));
        tally.error();
        let traffic = tally.traffic();
        assert_eq!((traffic.requests, traffic.errors), (2, 1));
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((quantile(&sorted, 50), quantile(&sorted, 95), quantile(&[], 50)), (50.0, 95.0, 0.0));
    }
}
