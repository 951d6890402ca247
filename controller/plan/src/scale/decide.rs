//! One decision: how many pods, and why.

use std::time::Duration;

use super::{
    Moment, Why,
    demand::Demand,
    memory::{Memory, Panic},
    policy::Policy,
};

/// Most pods that are started before one of the predictor's pods has been seen ready: a model that never becomes ready
/// must not fill the cluster, and one pod more than one lets a bad node be.
pub const FIRST_PODS: u32 = 2;

/// How many pods there should be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// Pods to ask for.
    pub replicas: u32,
    /// The rule that led to the number.
    pub why: Why,
}

/// What a decision looks at.
struct Load {
    stable: f64,
    burst: f64,
    admitted: u32,
    is_waiting: bool,
    is_complete: bool,
    quiet: Duration,
}

impl Load {
    fn of(policy: &Policy, demand: &Demand, woken: Option<Moment>, now: Moment) -> Option<Self> {
        let awake = woken.map_or(Duration::MAX, |woken| now.saturating_sub(woken));
        let average = |window: Duration| demand.average(now, window.min(awake), policy.metric);
        Some(Self {
            stable: average(policy.window)?,
            burst: average(policy.panic_window)?,
            admitted: demand.admitted(now),
            is_waiting: demand.level(now) > 0.0,
            is_complete: demand.is_complete(now),
            quiet: demand.quiet(now),
        })
    }
}

/// Decides from what was last asked for (`current`), and returns what the next decision has to know.
///
/// Without data the number stays. Decided again at the same moment with its own result, the result is the same.
pub fn decide(policy: &Policy, memory: &Memory, demand: &Demand, current: u32, now: Moment) -> (Decision, Memory) {
    let mut next = memory.clone();
    next.woken = woken(policy, memory, demand, current, now);
    let Some(load) = Load::of(policy, demand, next.woken, now) else {
        next.follows = false;
        next.panic = None;
        return (bounded(policy, Decision { replicas: current, why: Why::NoData }), next);
    };
    begin(policy, &mut next, &load, current, now);
    let limits = Limits::of(policy, &next, load.admitted, current);
    let steady = limits.apply(steady_pods(policy, &load, current));
    let burst = limits.apply(pods(load.burst, policy.per_pod()));
    panic(policy, &mut next, &load, now);
    let choice = held_up_by_panic(&mut next, steady, burst, current);
    let choice = delayed(policy, &mut next, choice, now);
    let choice = never_fewer_when_silent(&load, choice, current);
    let choice = bounded(policy, awake(policy, &load, choice, current));
    (choice, next)
}

/// Since when the predictor is awake, within the window.
fn woken(policy: &Policy, memory: &Memory, demand: &Demand, current: u32, now: Moment) -> Option<Moment> {
    let is_old = |woken: &Moment| now.saturating_sub(*woken) >= policy.window;
    match current {
        0 if demand.level(now) > 0.0 => memory.woken.or(Some(now)),
        0 => None,
        _ => memory.woken.filter(|woken| !is_old(woken)),
    }
}

/// Pods for a demand. Rounded to a millionth before, so that 14.0000000001 needs the pods of 14.
fn pods(demand: f64, per_pod: f64) -> u32 {
    let demand = (demand * 1e6).round() / 1e6;
    let pods = (demand / per_pod).ceil().clamp(0.0, f64::from(u32::MAX));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    let pods = pods as u32;
    pods
}

/// Pods for the average: fewer than now only where a little more demand would need fewer, too.
fn steady_pods(policy: &Policy, load: &Load, current: u32) -> u32 {
    let wanted = pods(load.stable, policy.per_pod());
    wanted.max(pods(load.stable * policy.tolerance, policy.per_pod()).min(current))
}

/// The first decision with data: more than one pod is kept for a window, whatever the young data say.
fn begin(policy: &Policy, next: &mut Memory, load: &Load, current: u32, now: Moment) {
    next.proved |= load.admitted > 0;
    if next.follows {
        return;
    }
    next.follows = true;
    next.panic = (current > 1).then_some(Panic { since: now, most: current, is_start: true });
    next.peaks.record(now, current, policy.scale_down_delay);
}

/// How far one decision may go from the admitted pods.
struct Limits {
    least: u32,
    most: u32,
    beyond: Why,
}

impl Limits {
    fn of(policy: &Policy, memory: &Memory, admitted: u32, current: u32) -> Self {
        let most = pods(policy.max_scale_up_rate * f64::from(admitted.max(1)), 1.0);
        let is_first = admitted == 0 && !memory.proved;
        let most = if is_first { most.min(FIRST_PODS) } else { most };
        Self {
            // Pods that are about to go are still admitted for a moment: the limit never asks for more than before.
            least: floor(f64::from(admitted) / policy.max_scale_down_rate).min(current),
            // Pods that start are not admitted yet: the limit never asks for fewer than before.
            most: most.max(current),
            beyond: if is_first { Why::FirstPods } else { Why::ScaleUpRate },
        }
    }

    fn apply(&self, wanted: u32) -> Decision {
        match wanted {
            _ if wanted > self.most => Decision { replicas: self.most, why: self.beyond },
            _ if wanted < self.least => Decision { replicas: self.least, why: Why::ScaleDownRate },
            replicas => Decision { replicas, why: Why::Demand },
        }
    }
}

fn floor(value: f64) -> u32 {
    pods(value.floor(), 1.0)
}

/// Begins, goes on with, or ends a panic.
fn panic(policy: &Policy, next: &mut Memory, load: &Load, now: Moment) {
    let asked = f64::from(pods(load.burst, policy.per_pod()));
    if asked / f64::from(load.admitted.max(1)) >= policy.panic_threshold {
        let most = next.panic.map_or(0, |panic| panic.most);
        next.panic = Some(Panic { since: now, most, is_start: false });
    } else if next.panic.is_some_and(|panic| panic.since + policy.window < now) {
        next.panic = None;
    }
}

/// In a panic the larger of both windows counts, and nothing shrinks.
fn held_up_by_panic(next: &mut Memory, steady: Decision, burst: Decision, current: u32) -> Decision {
    let Some(panic) = &mut next.panic else { return steady };
    let larger = if burst.replicas >= steady.replicas { burst } else { steady };
    panic.most = panic.most.max(current).max(larger.replicas);
    let why = match larger.why {
        limited @ (Why::ScaleUpRate | Why::FirstPods) if larger.replicas == panic.most => limited,
        _ if panic.is_start => Why::Started,
        _ => Why::Burst,
    };
    Decision { replicas: panic.most, why }
}

fn delayed(policy: &Policy, next: &mut Memory, choice: Decision, now: Moment) -> Decision {
    let peak = next.peaks.record(now, choice.replicas, policy.scale_down_delay);
    if peak > choice.replicas { Decision { replicas: peak, why: Why::Delayed } } else { choice }
}

fn never_fewer_when_silent(load: &Load, choice: Decision, current: u32) -> Decision {
    if !load.is_complete && choice.replicas < current {
        return Decision { replicas: current, why: Why::RoutersSilent };
    }
    choice
}

/// The last pod goes when there was no request for window and grace, and comes when there is one.
fn awake(policy: &Policy, load: &Load, choice: Decision, current: u32) -> Decision {
    if current == 0 && load.is_waiting {
        return Decision { replicas: choice.replicas.max(1), why: Why::Woken };
    }
    let may_go = !load.is_waiting && load.quiet >= policy.window + policy.scale_to_zero_grace;
    // Older counts are kept coarsely: what is left of them in the window wakes nobody.
    let is_asleep = current == 0 && may_go;
    if !policy.may_sleep() || (choice.replicas > 0 && !is_asleep) {
        return choice;
    }
    match current {
        0 => Decision { replicas: 0, why: Why::Asleep },
        _ if may_go => Decision { replicas: 0, why: Why::Asleep },
        _ => Decision { replicas: 1, why: Why::Idle },
    }
}

fn bounded(policy: &Policy, choice: Decision) -> Decision {
    let replicas = policy.within(choice.replicas);
    let why = match choice.why {
        _ if choice.replicas > policy.max => Why::Maximum,
        _ if choice.replicas < policy.min => Why::Minimum,
        Why::Demand if replicas == policy.min && policy.min > 0 => Why::Minimum,
        why => why,
    };
    Decision { replicas, why }
}
