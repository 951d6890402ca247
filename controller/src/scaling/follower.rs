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
            is_urgent |= arm.held > 0 && followed.current == 0;
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
            let (decision, memory) =
                decide(&followed.policy, &followed.memory, &followed.demand, followed.current, now);
            followed.memory = memory;
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
        let (demand, memory) = match known {
            Some(known) if known.template == template => (known.demand, known.memory),
            Some(known) => (known.demand, known.memory.unproved()),
            None => (Demand::new(now), Memory::default()),
        };
        let memory = if is_proved { memory.proved() } else { memory };
        Self { policy, demand, memory, current, template }
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
