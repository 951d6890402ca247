//! Weighted rendezvous: which arm a unit belongs to, and which one comes next.
//!
//! Arm `k` scores `-w_k / ln(u_k)` with `u_k` uniform in (0, 1) from a keyed hash of salt, unit and arm name; the highest
//! score wins. An arm then wins with probability `w_k / sum(w)`, and a change of one weight moves units only into or out
//! of that arm (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005).

use std::cmp::Ordering;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::key::{RouteKey, write_framed};

/// Arms of a table are at most this many, so that an order of them fits on the stack.
pub const MAX_ARMS: usize = 16;

/// The largest raw weight of a route table.
pub const MAX_WEIGHT: u32 = 1_000_000;

/// Position of an arm in its table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ArmIndex(u8);

impl ArmIndex {
    /// `position` must be below [`MAX_ARMS`]; the compiler of tables checks it.
    pub(crate) fn new(position: usize) -> Self {
        Self(u8::try_from(position).expect("a table has at most 16 arms"))
    }

    /// The position as an index into per-arm lists.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// Arms by falling score: the first is the assigned one, the others are where a request fails over to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Order {
    arms: [ArmIndex; MAX_ARMS],
    length: usize,
}

impl Order {
    /// An order of one arm, for requests that a rule sends there.
    pub fn only(arm: ArmIndex) -> Self {
        let mut arms = [ArmIndex(0); MAX_ARMS];
        arms[0] = arm;
        Self { arms, length: 1 }
    }

    /// The same arms with this one in front: a request that waits keeps its arm while the table changes.
    #[must_use]
    pub fn starting_with(&self, first: ArmIndex) -> Self {
        let others = self.arms().iter().copied().filter(|arm| *arm != first);
        let mut order = Self::only(first);
        for arm in others.take(MAX_ARMS - 1) {
            order.arms[order.length] = arm;
            order.length += 1;
        }
        order
    }

    /// The arms, best first.
    pub fn arms(&self) -> &[ArmIndex] {
        &self.arms[..self.length]
    }

    /// The assigned arm; none when every weight is 0.
    pub fn first(&self) -> Option<ArmIndex> {
        self.arms().first().copied()
    }
}

/// The keyed and salted hash of one table.
#[derive(Clone, Debug)]
pub struct Splitter {
    salted: SipHasher24,
}

impl Splitter {
    /// Units are assigned independently under different salts.
    pub fn new(key: &RouteKey, salt: &str) -> Self {
        let mut salted = key.hasher("modelway arm");
        write_framed(&mut salted, salt.as_bytes());
        Self { salted }
    }

    /// Ranks `(name, weight)` arms for a unit; arms of weight 0 are left out.
    pub fn order<'a>(&self, unit: &[u8], arms: impl Iterator<Item = (&'a str, u32)>) -> Order {
        let mut hashed = self.salted;
        write_framed(&mut hashed, unit);
        let mut ranked = [(0.0, "", ArmIndex(0)); MAX_ARMS];
        let mut length = 0;
        for (position, (name, weight)) in arms.enumerate().filter(|(_, (_, weight))| *weight > 0) {
            let mut hasher = hashed;
            write_framed(&mut hasher, name.as_bytes());
            ranked[length] = (score(weight, hasher.finish()), name, ArmIndex::new(position));
            length += 1;
        }
        // Equal scores fall back to the name, so that the order of arms in the document never matters.
        ranked[..length].sort_unstable_by(|left, right| match right.0.total_cmp(&left.0) {
            Ordering::Equal => left.1.cmp(right.1),
            decided => decided,
        });
        let mut order = Order { arms: [ArmIndex(0); MAX_ARMS], length };
        for (slot, (_, _, arm)) in order.arms.iter_mut().zip(&ranked[..length]) {
            *slot = *arm;
        }
        order
    }
}

fn score(weight: u32, hash: u64) -> f64 {
    -f64::from(weight) / unit_interval(hash).ln()
}

/// Maps a hash into the open interval (0, 1): 52 bits and a half fit a double exactly, so neither end is reached.
fn unit_interval(hash: u64) -> f64 {
    const SCALE: f64 = 1.0 / (1_u64 << 52) as f64;
    ((hash >> 12) as f64 + 0.5) * SCALE
}

/// Raw weight that gives a candidate the share `share` of all units next to arms whose weights sum to `rest`.
///
/// Only the candidate's weight changes in a ramp, so units move only into it. None when the share is not in [0, 1) or
/// the weight would exceed [`MAX_WEIGHT`].
pub fn candidate_raw_weight(rest: u64, share: f64) -> Option<u32> {
    if !(0.0..1.0).contains(&share) {
        return None;
    }
    let weight = (share / (1.0 - share) * rest as f64).round();
    if weight > f64::from(MAX_WEIGHT) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to lie in 0..=MAX_WEIGHT")]
    Some(weight as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNITS: u32 = 4_000;

    fn winner(splitter: &Splitter, unit: u32, arms: &[(&str, u32)]) -> Option<String> {
        let order = splitter.order(&unit.to_le_bytes(), arms.iter().copied());
        order.first().map(|arm| arms[arm.get()].0.to_owned())
    }

    fn winners(splitter: &Splitter, arms: &[(&str, u32)]) -> Vec<String> {
        (0..UNITS).map(|unit| winner(splitter, unit, arms).expect("a weight is above 0")).collect()
    }

    fn share(winners: &[String], name: &str) -> f64 {
        winners.iter().filter(|winner| *winner == name).count() as f64 / winners.len() as f64
    }

    #[test]
    fn ends_of_the_hash_stay_inside_the_open_interval() {
        for hash in [0, 1, u64::MAX - 1, u64::MAX] {
            let value = unit_interval(hash);
            assert!(value > 0.0 && value < 1.0, "{hash} -> {value}");
            assert!(score(1, hash).is_finite() && score(1, hash) > 0.0);
        }
    }

    #[test]
    fn weight_zero_never_wins_and_all_zero_is_none() {
        let splitter = Splitter::new(&RouteKey::new([1; 16]), "salt");
        assert!(winners(&splitter, &[("a", 0), ("b", 1)]).iter().all(|winner| winner == "b"));
        assert_eq!(winner(&splitter, 1, &[("a", 0), ("b", 0)]), None);
        assert_eq!(winner(&splitter, 1, &[]), None);
    }

    #[test]
    fn an_arm_can_be_put_in_front() {
        let splitter = Splitter::new(&RouteKey::new([1; 16]), "salt");
        let order = splitter.order(b"unit", [("a", 1), ("b", 1), ("c", 0)].into_iter());
        let last = order.arms()[1];
        assert_eq!(order.starting_with(last).arms(), [last, order.arms()[0]]);
        let outside = ArmIndex::new(2);
        assert_eq!(order.starting_with(outside).arms(), [outside, order.arms()[0], last]);
    }

    #[test]
    fn candidate_weight_is_the_odds_times_the_rest() {
        assert_eq!(candidate_raw_weight(90, 0.1), Some(10));
        assert_eq!(candidate_raw_weight(90, 0.5), Some(90));
        assert_eq!(candidate_raw_weight(90, 0.0), Some(0));
        assert_eq!(candidate_raw_weight(90, 1.0), None);
        assert_eq!(candidate_raw_weight(90, f64::NAN), None);
        assert_eq!(candidate_raw_weight(1_000_000, 0.9), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn shares_lie_within_binomial_bounds(key: [u8; 16], heavy in 1_u32..1_000, light in 1_u32..1_000) {
            let splitter = Splitter::new(&RouteKey::new(key), "uid");
            let winners = winners(&splitter, &[("heavy", heavy), ("light", light)]);
            let expected = f64::from(heavy) / f64::from(heavy + light);
            // Five standard deviations: one false alarm in 1.7 million cases.
            let bound = 5.0 * (expected * (1.0 - expected) / f64::from(UNITS)).sqrt() + 1.0 / f64::from(UNITS);
            prop_assert!((share(&winners, "heavy") - expected).abs() <= bound);
        }

        #[test]
        fn growing_one_arm_moves_units_only_into_it(key: [u8; 16], weights: [u16; 3], grown in 1_u32..100_000) {
            let splitter = Splitter::new(&RouteKey::new(key), "uid");
            let before = [("a", u32::from(weights[0]) + 1), ("b", weights[1].into()), ("c", weights[2].into())];
            let mut after = before;
            after[1].1 += grown;
            for (old, new) in winners(&splitter, &before).iter().zip(&winners(&splitter, &after)) {
                prop_assert!(old == new || new == "b", "{old} -> {new}");
            }
        }

        #[test]
        fn removing_an_arm_moves_only_its_units(key: [u8; 16], weights: [u16; 3]) {
            let splitter = Splitter::new(&RouteKey::new(key), "uid");
            let weight = |index: usize| u32::from(weights[index]) + 1;
            let before = winners(&splitter, &[("a", weight(0)), ("b", weight(1)), ("c", weight(2))]);
            let after = winners(&splitter, &[("a", weight(0)), ("c", weight(2))]);
            for (old, new) in before.iter().zip(&after) {
                prop_assert!(old == new || old == "b", "{old} -> {new}");
            }
        }

        #[test]
        fn order_of_arms_does_not_matter(key: [u8; 16], unit: u32, weights: [u16; 3]) {
            let splitter = Splitter::new(&RouteKey::new(key), "uid");
            let names = ["a", "b", "c"];
            let arms: Vec<_> = names.into_iter().zip(weights.map(u32::from)).collect();
            let reversed: Vec<_> = arms.iter().rev().copied().collect();
            let ranked = |arms: &[(&str, u32)]| -> Vec<String> {
                let order = splitter.order(&unit.to_le_bytes(), arms.iter().copied());
                order.arms().iter().map(|arm| arms[arm.get()].0.to_owned()).collect()
            };
            prop_assert_eq!(ranked(&arms), ranked(&reversed));
        }

        #[test]
        fn different_salts_are_independent(key: [u8; 16]) {
            let key = RouteKey::new(key);
            let arms = [("a", 50), ("b", 50)];
            let first = winners(&Splitter::new(&key, "uid"), &arms);
            let second = winners(&Splitter::new(&key, "uid/1"), &arms);
            let agree = first.iter().zip(&second).filter(|(old, new)| old == new).count();
            // Independent halves agree half of the time; five standard deviations around it.
            let bound = 5.0 * (0.25 * f64::from(UNITS)).sqrt();
            prop_assert!((agree as f64 - f64::from(UNITS) / 2.0).abs() <= bound);
        }
    }
}
