//! Laws of the autoscaler over arbitrary routers, loads and moments.

use std::time::Duration;

use modelway_api::inference::{AutoScale, ScaleMetric};
use modelway_plan::scale::{Demand, Hints, Memory, Moment, Policy, Sample, TICK, decide};
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Report { router: u8, level: u16, held: u16, admitted: u8, requests: u16 },
    Restart { router: u8 },
    Lose { router: u8 },
    Expect { routers: u8 },
    Pass { tenths: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..3, 0_u16..300, 0_u16..50, 0_u8..20, 0_u16..100)
            .prop_map(|(router, level, held, admitted, requests)| Step::Report { router, level, held, admitted, requests }),
        1 => (0_u8..3).prop_map(|router| Step::Restart { router }),
        1 => (0_u8..3).prop_map(|router| Step::Lose { router }),
        1 => (0_u8..8).prop_map(|routers| Step::Expect { routers }),
        4 => (1_u16..400).prop_map(|tenths| Step::Pass { tenths }),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (0_i32..5, 0_i32..40, any::<bool>(), 1_u8..50, 6_u32..120, 0_u32..120, 11_u32..1_000).prop_map(
        |(min, more, is_rate, target, window, delay, rate)| {
            let metric = if is_rate { ScaleMetric::RequestsPerSecond } else { ScaleMetric::Concurrency };
            let spec = AutoScale {
                min_replicas: Some(min),
                max_replicas: Some(min + more.max(1)),
                metric: Some(metric),
                target: Some(f64::from(target)),
                window: Some(format!("{window}s")),
                scale_down_delay: Some(format!("{delay}s")),
                max_scale_up_rate: Some(f64::from(rate) / 10.0),
                ..AutoScale::default()
            };
            Policy::of(&spec, Hints::default()).unwrap()
        },
    )
}

/// Routers that count, and what is known of them.
#[derive(Clone)]
struct Routers {
    now: Moment,
    totals: [Sample; 3],
    seen: [Moment; 3],
    boots: [u32; 3],
    demand: Demand,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Routers {
    fn new() -> Self {
        let demand = Demand::new(Duration::ZERO);
        Self { now: Duration::ZERO, totals: [Sample::default(); 3], seen: [Duration::ZERO; 3], boots: [0; 3], demand }
    }

    fn happen(&mut self, step: &Step) {
        match *step {
            Step::Report { router, level, held, admitted, requests } => {
                self.report(usize::from(router), [level, held, requests].map(u64::from), u32::from(admitted));
            }
            Step::Restart { router } => {
                self.totals[usize::from(router)] = Sample::default();
                self.boots[usize::from(router)] += 1;
            }
            Step::Lose { router } => self.demand.lost(self.now, NAMES[usize::from(router)]),
            Step::Expect { routers } => {
                let listed = (0..3).filter(|index| routers & (1 << index) != 0).map(|index| NAMES[index]);
                self.demand.expect(self.now, listed);
            }
            Step::Pass { tenths } => self.now += Duration::from_millis(100) * u32::from(tenths),
        }
    }

    fn report(&mut self, index: usize, [level, held, requests]: [u64; 3], admitted: u32) {
        let before = self.totals[index];
        let passed = u64::try_from(self.now.saturating_sub(self.seen[index]).as_micros()).unwrap();
        self.totals[index] = Sample {
            busy_us: before.busy_us + (before.in_flight + before.held) * passed,
            requests: before.requests + requests,
            in_flight: level,
            held,
            admitted,
        };
        self.seen[index] = self.now;
        self.demand.observe(self.now, NAMES[index], &self.boots[index].to_string(), self.totals[index]);
    }
}

proptest! {
    #[test]
    fn number_is_within_the_bounds_and_the_same_when_asked_again(
        steps in prop::collection::vec(step(), 1..60), policy in policy(), start in 0_u32..40,
    ) {
        let mut routers = Routers::new();
        let (mut current, mut memory) = (start, Memory::default());
        for step in steps {
            routers.happen(&step);
            let (decision, next) = decide(&policy, &memory, &routers.demand, current, routers.now);
            prop_assert!((policy.min..=policy.max).contains(&decision.replicas));
            let (again, after) = decide(&policy, &next, &routers.demand, decision.replicas, routers.now);
            prop_assert_eq!(again.replicas, decision.replicas, "{:?} then {:?}", decision.why, again.why);
            let third = decide(&policy, &after, &routers.demand, again.replicas, routers.now);
            prop_assert_eq!(third, (again, after));
            (current, memory) = (decision.replicas, next);
        }
    }

    #[test]
    fn without_data_nothing_changes(
        steps in prop::collection::vec(step(), 0..40), policy in policy(), current in 0_u32..60,
    ) {
        let mut routers = Routers::new();
        for step in &steps {
            routers.happen(step);
        }
        for name in NAMES {
            routers.demand.lost(routers.now, name);
        }
        let (decision, _) = decide(&policy, &Memory::default(), &routers.demand, current, routers.now);
        prop_assert_eq!(decision.replicas, policy.within(current));
    }

    #[test]
    fn silence_of_a_router_never_shrinks(
        steps in prop::collection::vec(step(), 0..40), policy in policy(), current in 1_u32..30, after in 0_u64..200,
    ) {
        let mut routers = Routers::new();
        routers.demand.expect(Duration::ZERO, NAMES);
        for step in steps.iter().filter(|step| !matches!(step, Step::Expect { .. })) {
            routers.happen(step);
        }
        routers.demand.lost(routers.now, NAMES[1]);
        routers.report(0, [0, 0, 0], 20);
        let now = routers.now + Duration::from_secs(after);
        let (decision, _) = decide(&policy, &Memory::default(), &routers.demand, current, now);
        prop_assert!(decision.replicas >= policy.within(current).min(current));
    }

    #[test]
    fn order_of_routers_at_one_moment_does_not_matter(
        levels in prop::collection::vec((0_u16..300, 0_u16..50, 0_u8..20), 3), policy in policy(), current in 0_u32..30,
        seconds in 1_u64..100,
    ) {
        let outcome = |order: [usize; 3]| {
            let mut routers = Routers::new();
            for round in 0..3_u64 {
                routers.now = Duration::from_secs(round * seconds / 3);
                for index in order {
                    let (level, held, admitted) = levels[index];
                    routers.report(index, [u64::from(level), u64::from(held), round * 10], u32::from(admitted));
                }
            }
            decide(&policy, &Memory::default(), &routers.demand, current, routers.now)
        };
        prop_assert_eq!(outcome([0, 1, 2]), outcome([2, 0, 1]));
        prop_assert_eq!(outcome([0, 1, 2]), outcome([1, 2, 0]));
    }

    #[test]
    fn steady_load_comes_to_rest(policy in policy(), level in 0_u64..400, start in 0_u32..40) {
        let mut routers = Routers::new();
        let (mut current, mut memory) = (start, Memory::default());
        // Each halving waits for the delay: 40 pods take six of them.
        let calm = policy.window + policy.scale_to_zero_grace + 8 * policy.scale_down_delay + Duration::from_mins(5);
        let settled = calm.as_secs().div_ceil(TICK.as_secs());
        for tick in 0..settled + 100 {
            routers.now += TICK;
            routers.report(0, [level, 0, level], current);
            let (decision, next) = decide(&policy, &memory, &routers.demand, current, routers.now);
            prop_assert!(tick < settled || decision.replicas == current, "{} then {:?}", current, decision);
            (current, memory) = (decision.replicas, next);
        }
        let is_rate = policy.metric == ScaleMetric::RequestsPerSecond;
        let demand = level as f64 / if is_rate { TICK.as_secs_f64() } else { 1.0 };
        let needed = (demand / policy.per_pod()).ceil();
        prop_assert!(f64::from(current) + 1e-9 >= needed.min(f64::from(policy.max)));
    }

    #[test]
    fn hostile_totals_do_no_harm(values in prop::collection::vec(any::<(u64, u64, u64, u64, u32)>(), 1..20), policy in policy()) {
        let mut demand = Demand::new(Duration::ZERO);
        let (mut current, mut memory) = (1, Memory::default());
        for (second, (busy_us, requests, in_flight, held, admitted)) in (0_u64..).zip(values) {
            let now = Duration::from_secs(second);
            demand.observe(now, "a", "boot", Sample { busy_us, requests, in_flight, held, admitted });
            let (decision, next) = decide(&policy, &memory, &demand, current, now);
            prop_assert!((policy.min..=policy.max).contains(&decision.replicas));
            (current, memory) = (decision.replicas, next);
        }
    }
}
