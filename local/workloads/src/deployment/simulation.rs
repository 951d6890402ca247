//! Rollouts with random pods, random order of controllers, and templates that change in the middle.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{from_value, json};

use super::decide::decide;
use super::intent::Intent;
use super::sets::{replicas, revision};

struct SimPod {
    set: String,
    ready: bool,
}

struct World {
    deployment: Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    pods: Vec<SimPod>,
    now: Timestamp,
    rng: StdRng,
}

impl World {
    fn new(seed: u64, replicas: i32, surge: i32, unavailable: i32) -> Self {
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1},
            "spec": {
                "replicas": replicas,
                "revisionHistoryLimit": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "main", "image": "v0"}]}}
            }
        });
        Self {
            deployment: from_value(deployment).unwrap(),
            sets: Vec::new(),
            pods: Vec::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            rng: StdRng::seed_from_u64(seed),
        }
    }

    fn intent(&self) -> Intent {
        Intent::of(self.deployment.spec.as_ref().unwrap())
    }

    fn total(&self) -> i32 {
        self.sets.iter().map(|set| replicas(set)).sum()
    }

    fn available(&self) -> i32 {
        i32::try_from(self.pods.iter().filter(|pod| pod.ready).count()).unwrap()
    }

    fn set_image(&mut self, version: u32) {
        let spec = self.deployment.spec.as_mut().unwrap();
        spec.template.spec.as_mut().unwrap().containers[0].image = Some(format!("v{version}"));
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    fn deployment_turn(&mut self) {
        let none: [Arc<Pod>; 0] = [];
        let plan = decide(&self.deployment, &self.sets, &none, self.now);
        if let Some(set) = plan.create {
            let mut set = *set;
            set.metadata.uid.clone_from(&set.metadata.name);
            set.metadata.generation = Some(1);
            set.metadata.creation_timestamp = Some(Time(self.now));
            self.sets.push(Arc::new(set));
        }
        for edit in plan.edits {
            let set = self.sets.iter_mut().find(|set| set.name_any() == edit.name).unwrap();
            let set = Arc::make_mut(set);
            set.metadata.annotations.get_or_insert_default().extend(edit.annotations);
            if let Some(replicas) = edit.replicas {
                set.spec.as_mut().unwrap().replicas = Some(replicas);
                *set.metadata.generation.as_mut().unwrap() += 1;
            }
        }
        self.sets.retain(|set| !plan.delete.contains(&set.name_any()));
        if let Some(status) = plan.status {
            self.deployment.status = Some(status);
        }
        if let Some(revision) = plan.revision {
            let annotations = self.deployment.metadata.annotations.get_or_insert_default();
            annotations.insert(super::sets::REVISION.into(), revision);
        }
    }

    fn set_turn(&mut self) {
        if self.sets.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.sets.len());
        let (name, wanted) = (self.sets[at].name_any(), usize::try_from(replicas(&self.sets[at])).unwrap());
        let mut mine: Vec<SimPod> = Vec::new();
        let mut others = Vec::new();
        for pod in self.pods.drain(..) {
            if pod.set == name { mine.push(pod) } else { others.push(pod) }
        }
        mine.sort_by_key(|pod| !pod.ready);
        mine.truncate(wanted);
        while mine.len() < wanted {
            mine.push(SimPod { set: name.clone(), ready: false });
        }
        let ready = i32::try_from(mine.iter().filter(|pod| pod.ready).count()).unwrap();
        let set = Arc::make_mut(&mut self.sets[at]);
        set.status = Some(ReplicaSetStatus {
            replicas: i32::try_from(mine.len()).unwrap(),
            ready_replicas: Some(ready),
            available_replicas: Some(ready),
            observed_generation: set.metadata.generation,
            ..ReplicaSetStatus::default()
        });
        self.pods = others;
        self.pods.extend(mine);
    }

    fn node_turn(&mut self, may_lose: bool) {
        if !self.pods.is_empty() {
            let at = self.rng.random_range(0..self.pods.len());
            let ready = !(may_lose && self.rng.random_bool(0.2));
            self.pods[at].ready = ready;
        }
    }

    fn is_settled(&self) -> bool {
        let status = self.deployment.status.clone().unwrap_or_default();
        let done = |c: &k8s_openapi::api::apps::v1::DeploymentCondition| {
            c.type_ == "Progressing" && c.reason.as_deref() == Some("NewReplicaSetAvailable")
        };
        status.updated_replicas.unwrap_or(0) == self.intent().replicas
            && status.replicas.unwrap_or(0) == self.intent().replicas
            && status.available_replicas.unwrap_or(0) == self.intent().replicas
            && status.observed_generation == self.deployment.metadata.generation
            && status.conditions.unwrap_or_default().iter().any(done)
    }

    fn settle(&mut self) -> bool {
        for _ in 0..5000 {
            if self.is_settled() {
                return true;
            }
            self.now += SignedDuration::from_secs(1);
            match self.rng.random_range(0..3) {
                0 => self.deployment_turn(),
                1 => self.set_turn(),
                _ => self.node_turn(false),
            }
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_rollout_keeps_its_bounds_and_ends(
        seed in any::<u64>(), size in 1..8_i32, surge in 0..4_i32, unavailable in 0..4_i32,
    ) {
        let mut world = World::new(seed, size, surge, unavailable);
        prop_assert!(world.settle(), "first rollout never ended");
        let intent = world.intent();
        let mut version = 0;
        for turn in 0..600 {
            world.now += SignedDuration::from_secs(1);
            if turn < 300 && world.rng.random_bool(0.03) {
                version = world.rng.random_range(0..6);
                world.set_image(version);
            }
            let (total, available) = (world.total(), world.available());
            match world.rng.random_range(0..3) {
                0 => world.deployment_turn(),
                1 => world.set_turn(),
                _ => world.node_turn(false),
            }
            prop_assert!(world.total() <= intent.max_total().max(total), "{} pods asked for", world.total());
            prop_assert!(
                world.available() >= intent.min_available().min(available),
                "{available} available, then {}", world.available()
            );
        }
        prop_assert!(world.settle(), "rollout never ended");
        let image = format!("v{version}");
        let running = world.sets.iter().filter(|set| replicas(set) > 0).collect::<Vec<_>>();
        prop_assert_eq!(running.len(), 1);
        let template = running[0].spec.as_ref().unwrap().template.as_ref().unwrap();
        prop_assert_eq!(template.spec.as_ref().unwrap().containers[0].image.as_deref(), Some(image.as_str()));
        prop_assert!(world.sets.iter().all(|set| revision(set) <= revision(running[0])));
        for _ in 0..5 {
            world.deployment_turn();
            world.set_turn();
        }
        prop_assert!(world.sets.len() <= 3, "history is bounded");
    }

    #[test]
    fn converges_when_pods_come_and_go_and_the_size_changes(
        seed in any::<u64>(), size in 0..6_i32, surge in 0..3_i32, unavailable in 0..3_i32,
    ) {
        let mut world = World::new(seed, size, surge, unavailable);
        for _ in 0..400 {
            world.now += SignedDuration::from_secs(1);
            match world.rng.random_range(0..40) {
                0 => { let version = world.rng.random_range(0..4); world.set_image(version); }
                1 => {
                    let size = world.rng.random_range(0..8);
                    world.deployment.spec.as_mut().unwrap().replicas = Some(size);
                    *world.deployment.metadata.generation.as_mut().unwrap() += 1;
                }
                2 => {
                    let paused = world.rng.random_bool(0.5);
                    world.deployment.spec.as_mut().unwrap().paused = Some(paused);
                    *world.deployment.metadata.generation.as_mut().unwrap() += 1;
                }
                3..=14 => world.deployment_turn(),
                15..=26 => world.set_turn(),
                _ => world.node_turn(true),
            }
        }
        world.deployment.spec.as_mut().unwrap().paused = Some(false);
        *world.deployment.metadata.generation.as_mut().unwrap() += 1;
        prop_assert!(world.settle(), "never settled: {:?}", world.deployment.status);
    }
}

#[test]
fn recreate_waits_until_the_last_old_pod_has_ended() {
    let mut world = World::new(1, 2, 0, 0);
    world.deployment.spec.as_mut().unwrap().strategy = Some(from_value(json!({"type": "Recreate"})).unwrap());
    assert!(world.settle());
    let old = world.sets[0].name_any();
    world.set_image(7);
    world.deployment_turn();
    assert_eq!(replicas(&world.sets[0]), 0);
    let stopping: Pod = from_value(json!({
        "metadata": {"name": "p", "uid": "p", "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": old, "uid": old, "controller": true}]},
        "status": {"phase": "Running"}
    }))
    .unwrap();
    let waits = decide(&world.deployment, &world.sets, &[Arc::new(stopping)], world.now);
    assert!(waits.create.is_none() && waits.edits.is_empty());
    let none: [Arc<Pod>; 0] = [];
    assert!(decide(&world.deployment, &world.sets, &none, world.now).create.is_some());
}

#[test]
fn a_stuck_rollout_says_so_after_its_deadline() {
    let mut world = World::new(1, 1, 1, 0);
    world.deployment.spec.as_mut().unwrap().progress_deadline_seconds = Some(60);
    for _ in 0..3 {
        world.deployment_turn();
        world.set_turn();
    }
    let none: [Arc<Pod>; 0] = [];
    let plan = decide(&world.deployment, &world.sets, &none, world.now);
    assert_eq!(plan.status, None);
    assert!(plan.next.unwrap().as_secs() <= 61);
    let late = decide(&world.deployment, &world.sets, &none, world.now + SignedDuration::from_secs(61));
    let conditions = late.status.unwrap().conditions.unwrap();
    let progressing = conditions.iter().find(|condition| condition.type_ == "Progressing").unwrap();
    assert_eq!(
        (progressing.status.as_str(), progressing.reason.as_deref()),
        ("False", Some("ProgressDeadlineExceeded"))
    );
}

#[test]
fn a_rollback_takes_the_old_set_again_with_a_new_revision() {
    let mut world = World::new(3, 2, 1, 0);
    assert!(world.settle());
    let first = world.sets[0].name_any();
    world.set_image(1);
    assert!(world.settle());
    world.set_image(0);
    assert!(world.settle());
    let running = world.sets.iter().find(|set| replicas(set) > 0).unwrap();
    assert_eq!((running.name_any(), revision(running)), (first, 3));
    assert_eq!(world.deployment.annotations()[super::sets::REVISION], "3");
}

#[test]
fn a_paused_deployment_changes_its_size_but_not_its_template() {
    let mut world = World::new(3, 2, 1, 0);
    assert!(world.settle());
    world.deployment.spec.as_mut().unwrap().paused = Some(true);
    world.set_image(1);
    world.deployment.spec.as_mut().unwrap().replicas = Some(5);
    world.deployment_turn();
    assert_eq!(world.sets.len(), 1);
    assert_eq!(replicas(&world.sets[0]), 5);
    world.deployment.spec.as_mut().unwrap().paused = Some(false);
    assert!(world.settle());
    assert_eq!(world.sets.len(), 2);
}
