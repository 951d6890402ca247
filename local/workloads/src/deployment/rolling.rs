//! How far a rolling update may go in one step.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::intent::{Intent, Strategy};
use super::sets::{available, replicas};

/// A set and the replicas it should have.
pub(crate) type Resize<'a> = (&'a ReplicaSet, i32);

/// Replicas of the new set: as many as the surge leaves room for.
pub(crate) fn new_replicas(intent: &Intent, current: i32, old: &[&ReplicaSet]) -> i32 {
    if intent.strategy == Strategy::Recreate || current > intent.replicas {
        return intent.replicas;
    }
    let total = old.iter().map(|set| replicas(set)).fold(current, i32::saturating_add);
    let room = intent.max_total().saturating_sub(total);
    if room <= 0 { current } else { current + room.min(intent.replicas - current) }
}

/// Old sets that may shrink now: first pods that are not available anyway, then as many as availability allows.
pub(crate) fn shrink_old<'a>(intent: &Intent, new: &ReplicaSet, old: &[&'a ReplicaSet]) -> Vec<Resize<'a>> {
    let mut sizes: Vec<Resize<'a>> = old.iter().map(|set| (*set, replicas(set))).collect();
    let total = sizes.iter().map(|(_, size)| *size).fold(replicas(new), i32::saturating_add);
    let new_unavailable = replicas(new) - available(new);
    let limit = total - intent.min_available() - new_unavailable;
    if limit <= 0 {
        return Vec::new();
    }
    let cleaned = drop_unavailable(&mut sizes, limit);
    drop_available(intent, new, &mut sizes, limit - cleaned);
    sizes.retain(|(set, size)| *size != replicas(set));
    sizes
}

fn drop_unavailable(sizes: &mut [Resize<'_>], limit: i32) -> i32 {
    let mut dropped = 0;
    for (set, size) in sizes {
        let count = (*size - available(set)).min(limit - dropped).max(0);
        *size -= count;
        dropped += count;
    }
    dropped
}

fn drop_available(intent: &Intent, new: &ReplicaSet, sizes: &mut [Resize<'_>], limit: i32) {
    let still = |(set, size): &Resize<'_>| available(set).min(*size);
    let available_now = sizes.iter().map(still).fold(available(new), i32::saturating_add);
    let mut rest = (available_now - intent.min_available()).min(limit);
    for (_, size) in sizes {
        let count = (*size).min(rest).max(0);
        *size -= count;
        rest -= count;
    }
}
