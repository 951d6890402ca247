//! Changing the size of a Deployment, also in the middle of a rollout: each set keeps its share.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::intent::{Intent, Strategy};
use super::rolling::Resize;
use super::sets::{available, recorded_max, replicas};

/// The sizes of the sets for the Deployment's size.
pub(crate) fn scale<'a>(intent: &Intent, new: Option<&'a ReplicaSet>, old: &[&'a ReplicaSet]) -> Vec<Resize<'a>> {
    let active: Vec<&ReplicaSet> = old.iter().copied().chain(new).filter(|set| replicas(set) > 0).collect();
    match active.as_slice() {
        [] => return new.or(old.last().copied()).map(|set| (set, intent.replicas)).into_iter().collect(),
        [one] => return vec![(one, intent.replicas)],
        _ => {}
    }
    if new.is_some_and(|new| replicas(new) == intent.replicas && available(new) == intent.replicas) {
        return old.iter().map(|set| (*set, 0)).chain(new.map(|new| (new, intent.replicas))).collect();
    }
    match intent.strategy {
        Strategy::RollingUpdate => proportional(intent, active),
        Strategy::Recreate => Vec::new(),
    }
}

/// Shares growth and shrinking in proportion to the sets' sizes; the largest set takes what rounding leaves.
fn proportional<'a>(intent: &Intent, mut active: Vec<&'a ReplicaSet>) -> Vec<Resize<'a>> {
    let total = active.iter().map(|set| replicas(set)).fold(0, i32::saturating_add);
    let allowed = if intent.replicas > 0 { intent.max_total() } else { 0 };
    let change = allowed - total;
    // Largest first; among equals the newest gains first and the oldest loses first.
    if change > 0 {
        active.reverse();
    }
    active.sort_by_key(|set| std::cmp::Reverse(replicas(set)));
    let mut done = 0;
    let mut sizes: Vec<Resize<'a>> = Vec::new();
    for set in active {
        let share = share(intent, set, change, done);
        done += share;
        sizes.push((set, replicas(set) + share));
    }
    if let Some((_, size)) = sizes.first_mut() {
        *size = (*size + change - done).max(0);
    }
    sizes
}

fn share(intent: &Intent, set: &ReplicaSet, change: i32, done: i32) -> i32 {
    let size = replicas(set);
    if change == 0 || size == 0 {
        return 0;
    }
    let left = change - done;
    let ideal = if intent.replicas == 0 {
        -size
    } else {
        let before = i64::from(recorded_max(set).filter(|max| *max > 0).unwrap_or_else(|| intent.max_total().max(1)));
        let grown = i64::from(size) * i64::from(intent.max_total());
        i32::try_from((2 * grown + before) / (2 * before)).unwrap_or(i32::MAX) - size
    };
    if change > 0 { ideal.clamp(0, left.max(0)) } else { ideal.clamp(left.min(0), 0) }
}
