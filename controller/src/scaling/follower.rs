//! One Inference that follows its load: its routers, its predictors, and what they come to.

use std::collections::BTreeMap;

use modelway_api::{inference::Predictor, labels, names, stats::RouterStats};
use modelway_plan::{
    Key, Kind, World, json as read,
    replicas::{self, Load, Wanted},
    scale::{Demand, Memory, Moment, Policy, Sample, decide},
};
use serde_json::Value;

/// What is known of one Inference. Every time is a [`Moment`] of the scaler's clock.
#[derive(Debug, Default)]
pub struct Follower {
    /// By pod UID.
    pub routers: BTreeMap<String, Router>,
    predictors: BTreeMap<String, Followed>,
    /// What was told last.
    pub told: Option<Load>,
}

/// One router pod.
#[derive(Debug)]
pub struct Router {
    /// `ip:port` of its admin port.
    pub address: String,
    /// Whether requests are sent to it. One that is on its way out still has some.
    pub takes_requests: bool,
    /// Route table generation that it follows; `None` before its first word and after its last.
    generation: Option<i64>,
}

/// One predictor that follows its load.
#[derive(Debug)]
struct Followed {
    policy: Policy,
    demand: Demand,
    memory: Memory,
    /// Pods that its Deployment asks for.
    current: u32,
    /// The last decision was zero. Its Deployment follows a moment later; until then a request that comes finds no pod
    /// either.
    is_sent_to_sleep: bool,
    /// Hash of the template that they are made from.
    template: String,
}

impl Follower {
    /// Takes in what the objects say: the spec's predictors, their Deployments, the router pods.
    pub fn look(&mut self, world: &World, inference: &Value, routers: &[&Value], now: Moment) {
        let predictors = read::items(inference, "/spec/predictors").filter(|predictor| follows(predictor));
        let predictors = predictors.filter_map(|value| serde_json::from_value::<Predictor>(value.clone()).ok());
        let mut before = std::mem::take(&mut self.predictors);
        for spec in predictors {
            let Some(Ok(policy)) = replicas::policy(&spec) else { continue };
            let namespace = read::text(inference, "/metadata/namespace");
            let deployment =
                world.get(Kind::Deployment, namespace, &names::predictor(read::name(inference), &spec.name));
            let Some(deployment) = deployment else { continue };
            let known = before.remove(&spec.name);
            self.predictors.insert(spec.name, Followed::new(known, policy, deployment, now));
        }
        self.look_at_routers(routers, now);
        let expected = self.routers.iter().filter(|(_, router)| router.takes_requests).map(|(uid, _)| uid.as_str());
        let expected: Vec<&str> = expected.collect();
        for followed in self.predictors.values_mut() {
            followed.demand.expect(now, expected.iter().copied());
        }
    }

    fn look_at_routers(&mut self, pods: &[&Value], now: Moment) {
        let mut before = std::mem::take(&mut self.routers);
        for pod in pods {
            let Some(address) = admin_address(pod) else { continue };
            let takes_requests = !read::is_deleted(pod) && read::condition_holds(pod, "Ready");
            let known = before.remove(read::uid(pod)).filter(|router| router.address == address);
            let generation = known.and_then(|router| router.generation);
            self.routers.insert(read::uid(pod).to_owned(), Router { address, takes_requests, generation });
        }
        for uid in before.keys() {
            self.lose(uid, now);
        }
    }

    /// Takes in what a router tells. Returns whether it should be acted on before the next tick: somebody waits for a
    /// predictor without pods, or the router follows another table.
    pub fn hear(&mut self, uid: &str, stats: &RouterStats, now: Moment) -> bool {
        let Some(router) = self.routers.get_mut(uid) else { return false };
        let mut is_urgent = router.generation.replace(stats.generation) != Some(stats.generation);
        for (name, followed) in &mut self.predictors {
            let Some(arm) = stats.arms.get(name) else { continue };
            let sample = Sample {
                busy_us: arm.busy_us,
                requests: arm.requests,
                in_flight: arm.in_flight,
                held: arm.held,
                admitted: arm.admitted,
            };
            followed.demand.observe(now, uid, &stats.boot_id, sample);
            is_urgent |= arm.held > 0 && followed.pods() == 0;
        }
        is_urgent
    }

    /// Nothing is known of that router any more.
    pub fn lose(&mut self, uid: &str, now: Moment) {
        if let Some(router) = self.routers.get_mut(uid) {
            router.generation = None;
        }
        for followed in self.predictors.values_mut() {
            followed.demand.lost(now, uid);
        }
    }

    /// How many pods the load asks for now.
    pub fn decide(&mut self, now: Moment) -> Load {
        let mut wanted = BTreeMap::new();
        for (name, followed) in &mut self.predictors {
            let (decision, memory) = decide(&followed.policy, &followed.memory, &followed.demand, followed.pods(), now);
            followed.memory = memory;
            followed.is_sent_to_sleep = decision.replicas == 0;
            let replicas = i32::try_from(decision.replicas).unwrap_or(i32::MAX);
            wanted.insert(name.clone(), Wanted { replicas, why: decision.why.to_string() });
        }
        Load { followed: self.followed(), wanted }
    }

    /// Newest generation that every router that takes requests follows.
    fn followed(&self) -> Option<i64> {
        let mut generations =
            self.routers.values().filter(|router| router.takes_requests).map(|router| router.generation);
        let first = generations.next()??;
        generations.try_fold(first, |least, generation| Some(least.min(generation?)))
    }
}

impl Followed {
    /// What is known stays; a change of the spec changes the rules alone. Whether pods can become ready has to show
    /// again with another template.
    fn new(known: Option<Self>, policy: Policy, deployment: &Value, now: Moment) -> Self {
        let current = u32::try_from(read::number(deployment, "/spec/replicas")).unwrap_or(0);
        let template = read::annotation(deployment, labels::TEMPLATE_HASH).unwrap_or_default().to_owned();
        let is_proved = read::number(deployment, "/status/readyReplicas") > 0;
        let is_sent_to_sleep = known.as_ref().is_some_and(|known| known.is_sent_to_sleep);
        let (demand, memory) = match known {
            Some(known) if known.template == template => (known.demand, known.memory),
            Some(known) => (known.demand, known.memory.unproved()),
            None => (Demand::new(now), Memory::default()),
        };
        let memory = if is_proved { memory.proved() } else { memory };
        Self { policy, demand, memory, current, is_sent_to_sleep, template }
    }

    /// Pods to count on.
    fn pods(&self) -> u32 {
        if self.is_sent_to_sleep { 0 } else { self.current }
    }
}

/// Whether the predictor's number of pods is ours to choose.
fn follows(predictor: &Value) -> bool {
    predictor["autoScale"].is_object() && predictor["autoScale"]["autoScaler"].is_null()
}

/// Whether any predictor of the Inference follows its load.
pub fn is_followed(inference: &Value) -> bool {
    !read::is_deleted(inference)
        && inference["spec"]["paused"] != true
        && read::items(inference, "/spec/predictors").any(follows)
}

/// Router pods of a namespace by the Inference that they belong to.
pub fn routers<'a>(world: &'a World, namespace: &'a str) -> BTreeMap<&'a str, Vec<&'a Value>> {
    let mut routers = BTreeMap::<&str, Vec<&Value>>::new();
    for pod in world.list(Kind::Pod, namespace) {
        let is_router = read::label(pod, labels::APP_COMPONENT) == Some(labels::component::ROUTER);
        if let Some(name) = read::label(pod, labels::INFERENCE_NAME).filter(|_| is_router) {
            routers.entry(name).or_default().push(pod);
        }
    }
    routers
}

fn admin_address(pod: &Value) -> Option<String> {
    let (ip, phase) = (read::text(pod, "/status/podIP"), read::text(pod, "/status/phase"));
    let port = modelway_plan::router::ADMIN_PORT;
    let is_there = !ip.is_empty() && phase == "Running";
    is_there.then(|| format!("{}:{port}", modelway_plan::router::bracketed(ip)))
}

/// Keys of the Inferences of a world that follow their load.
pub fn followed(world: &World) -> Vec<Key> {
    let keys = world.keys(Kind::Inference);
    keys.filter(|key| world.object(key).is_some_and(is_followed)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use modelway_api::stats::ArmStats;
    use modelway_plan::scale::TICK;
    use serde_json::json;

    use super::*;

    const ROUTER: &str = "router-1";

    fn world(pods: u32) -> World {
        let mut world = World::default();
        world.insert(inference());
        world.insert(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "digits-a", "namespace": "team"},
            "spec": {"replicas": pods}, "status": {"readyReplicas": pods},
        }));
        world
    }

    fn inference() -> Value {
        json!({
            "apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference",
            "metadata": {"name": "digits", "namespace": "team"},
            "spec": {"framework": "Custom", "predictors": [{
                "name": "a", "template": {"spec": {}},
                "autoScale": {"minReplicas": 0, "maxReplicas": 5, "target": 1, "window": "6s", "scaleToZeroGrace": "0s"},
            }]},
        })
    }

    fn router() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "r", "namespace": "team", "uid": ROUTER},
            "status": {"podIP": "10.0.0.1", "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    fn word(held: u64, admitted: u32) -> RouterStats {
        let arm = ArmStats { held, requests: held, admitted, ..ArmStats::default() };
        let arms = BTreeMap::from([("a".to_owned(), arm)]);
        RouterStats { version: 1, boot_id: "b".to_owned(), generation: 3, arms, ..RouterStats::default() }
    }

    fn replicas(load: &Load) -> i32 {
        load.wanted["a"].replicas
    }

    #[test]
    fn who_sleeps_again_after_one_request_stays_asleep() {
        let mut follower = Follower::default();
        let (asleep, awake, router) = (world(0), world(1), router());
        follower.look(&asleep, &inference(), &[&router], Moment::ZERO);
        follower.hear(ROUTER, &word(0, 0), Moment::from_secs(1));
        let at = |milliseconds: u64| Moment::from_secs(20) + Moment::from_millis(milliseconds);
        follower.decide(at(0));
        assert!(follower.hear(ROUTER, &word(1, 0), at(10)));
        assert_eq!(replicas(&follower.decide(at(10))), 2);
        follower.look(&awake, &inference(), &[&router], at(200));
        let mut answered = word(0, 1);
        let arm = answered.arms.get_mut("a").unwrap();
        (arm.requests, arm.busy_us) = (1, 260_000);
        follower.hear(ROUTER, &answered, at(270));
        let mut seen = Vec::new();
        for second in 1..20 {
            if second == 10 {
                follower.hear(ROUTER, &answered, at(10_000));
            }
            let load = follower.decide(at(second * 1_000));
            seen.push((second, replicas(&load), load.wanted["a"].why.clone()));
        }
        let changes = seen.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        assert_eq!(changes, 1, "{seen:#?}");
    }

    #[test]
    fn a_request_that_waits_right_after_the_decision_to_sleep_does_not_wait_for_a_tick() {
        let mut follower = Follower::default();
        let (awake, router) = (world(1), router());
        follower.look(&awake, &inference(), &[&router], Moment::ZERO);
        let mut now = Moment::ZERO;
        let mut load = follower.decide(now);
        while replicas(&load) > 0 {
            now += TICK;
            assert!(now < Moment::from_mins(1), "never sleeps");
            follower.hear(ROUTER, &word(0, 1), now);
            load = follower.decide(now);
        }
        // The Deployment's own change has not been seen yet: it still asks for a pod.
        now += Moment::from_millis(20);
        assert!(follower.hear(ROUTER, &word(3, 0), now), "three requests wait");
        let load = follower.decide(now);
        assert_eq!((replicas(&load), load.wanted["a"].why.as_str()), (5, "woken by a waiting request"));
        follower.look(&awake, &inference(), &[&router], now);
        assert!(replicas(&follower.decide(now)) > 0, "sleeps again under waiting requests");
    }
}
