//! Plays a trace: routers that count and report, pods that start and go, and a decision at each tick.

use std::time::Duration;

use modelway_plan::scale::{Decision, Demand, Hints, Memory, Moment, Policy, Sample, decide};

use super::trace::{Fault, Trace};

/// What was seen at a tick, before and after its decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    pub second: u32,
    /// Requests at once on average since the last tick, of the routers that are heard.
    pub heard: Option<f64>,
    pub level: u64,
    pub ready: u32,
    pub decision: Decision,
    /// Whether it is the tick, and not a request that waits for the first pod.
    pub is_regular: bool,
}

struct Router {
    sample: Sample,
    boot: u32,
    told: Option<(Sample, u32)>,
    is_cut: bool,
}

struct Play<'a> {
    trace: &'a Trace,
    longest_silence: u32,
    policy: Policy,
    routers: Vec<Router>,
    demand: Demand,
    memory: Memory,
    /// When each pod is ready, in tenths of a second; the newest last.
    pods: Vec<Option<u32>>,
    ticks: Vec<Tick>,
    /// Request-tenths heard since the last tick.
    heard: u64,
}

/// Every tick of a trace. Routers report when a gauge changes, and when they were silent for so many tenths of a second.
pub fn play(trace: &Trace, policy: &Policy, longest_silence: u32) -> Vec<Tick> {
    let router = || Router { sample: Sample::default(), boot: 0, told: None, is_cut: false };
    let mut play = Play {
        trace,
        longest_silence,
        policy: policy.clone(),
        routers: (0..trace.routers).map(|_| router()).collect(),
        demand: Demand::new(Duration::ZERO),
        memory: Memory::default(),
        pods: (0..trace.pods).map(|_| Some(0)).collect(),
        ticks: Vec::new(),
        heard: 0,
    };
    play.demand.expect(Duration::ZERO, NAMES.into_iter().take(trace.routers));
    for tenth in 0..=trace.seconds * 10 {
        play.pass(tenth);
    }
    play.ticks
}

/// The rules of a trace.
pub fn policy(trace: &Trace) -> Policy {
    Policy::of(&trace.spec, Hints::default()).unwrap()
}

const NAMES: [&str; 2] = ["a", "b"];

impl Play<'_> {
    fn pass(&mut self, tenth: u32) {
        self.count();
        self.fail(tenth);
        let level = (self.trace.level)(f64::from(tenth) / 10.0);
        let ready = self.ready(tenth);
        self.report(tenth, level, ready);
        let wakes = self.pods.is_empty() && level > 0;
        if tenth.is_multiple_of(20) || wakes {
            self.decide(tenth, level, ready);
        }
    }

    /// Counts what was there in the tenth of a second before.
    fn count(&mut self) {
        for router in &mut self.routers {
            let level = router.sample.in_flight + router.sample.held;
            router.sample.busy_us += level * 100_000;
            // Each request takes 100 ms.
            router.sample.requests += router.sample.in_flight;
            if !router.is_cut {
                self.heard += level;
            }
        }
    }

    fn fail(&mut self, tenth: u32) {
        for fault in self.trace.faults {
            match *fault {
                Fault::Restart { router, at } if at * 10 == tenth => {
                    let router = &mut self.routers[router];
                    (router.sample, router.boot, router.told) = (Sample::default(), router.boot + 1, None);
                }
                Fault::Cut { router, from, .. } if from * 10 == tenth => {
                    self.routers[router].is_cut = true;
                    self.demand.lost(now(tenth), NAMES[router]);
                }
                Fault::Cut { router, to, .. } if to * 10 == tenth => {
                    let router = &mut self.routers[router];
                    (router.is_cut, router.told) = (false, None);
                }
                Fault::Restart { .. } | Fault::Cut { .. } => {}
            }
        }
    }

    fn report(&mut self, tenth: u32, level: u64, ready: u32) {
        let count = self.routers.len() as u64;
        for (index, router) in self.routers.iter_mut().enumerate() {
            let share = (level + count - 1 - index as u64) / count;
            let (in_flight, held) = if ready > 0 { (share, 0) } else { (0, share) };
            router.sample = Sample { in_flight, held, admitted: ready, ..router.sample };
            let gauges = |sample: Sample| (sample.in_flight, sample.held, sample.admitted);
            let is_news = router
                .told
                .is_none_or(|(told, at)| gauges(told) != gauges(router.sample) || tenth - at >= self.longest_silence);
            if is_news && !router.is_cut {
                self.demand.observe(now(tenth), NAMES[index], &router.boot.to_string(), router.sample);
                router.told = Some((router.sample, tenth));
            }
        }
    }

    fn decide(&mut self, tenth: u32, level: u64, ready: u32) {
        let asked = u32::try_from(self.pods.len()).unwrap();
        let (decision, memory) = decide(&self.policy, &self.memory, &self.demand, asked, now(tenth));
        self.memory = memory;
        let ready_at = self.trace.startup.map(|seconds| tenth + tenths(seconds));
        self.pods.resize(usize::try_from(decision.replicas).unwrap(), ready_at);
        let is_regular = tenth.is_multiple_of(20);
        let is_heard = self.routers.iter().any(|router| !router.is_cut);
        let heard = is_heard.then_some(self.heard as f64 / 20.0);
        if is_regular {
            self.heard = 0;
        }
        self.ticks.push(Tick { second: tenth / 10, heard, level, ready, decision, is_regular });
    }

    fn ready(&self, tenth: u32) -> u32 {
        let is_ready = |ready_at: &&Option<u32>| ready_at.is_some_and(|ready_at| ready_at <= tenth);
        u32::try_from(self.pods.iter().filter(is_ready).count()).unwrap()
    }
}

fn now(tenth: u32) -> Moment {
    Duration::from_millis(100) * tenth
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
fn tenths(seconds: f64) -> u32 {
    (seconds * 10.0).round() as u32
}
