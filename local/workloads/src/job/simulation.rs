//! A Job's whole life with random pods, a controller that may stop between any two calls, and pods that end meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{from_value, json};

use super::conditions;
use super::decide::decide;
use super::pod::new_pod;
use super::tally::{TRACKING, is_tracked};
use crate::pods;

struct World {
    job: Job,
    pods: Vec<std::sync::Arc<Pod>>,
    now: Timestamp,
    rng: StdRng,
    made: usize,
    /// What really happened, by pod.
    succeeded: HashSet<String>,
    failed: HashSet<String>,
    disrupted: HashSet<String>,
    discarded: HashSet<String>,
}

impl World {
    fn new(seed: u64, completions: i32, parallelism: i32, backoff_limit: i32) -> Self {
        let job = json!({
            "metadata": {"name": "train", "namespace": "default", "uid": "job"},
            "spec": {
                "completions": completions, "parallelism": parallelism, "backoffLimit": backoff_limit,
                "template": {"spec": {"restartPolicy": "Never", "containers": []}}
            }
        });
        Self {
            job: from_value(job).unwrap(),
            pods: Vec::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            rng: StdRng::seed_from_u64(seed),
            made: 0,
            succeeded: HashSet::new(),
            failed: HashSet::new(),
            disrupted: HashSet::new(),
            discarded: HashSet::new(),
        }
    }

    fn is_finished(&self) -> bool {
        self.job.status.as_ref().is_some_and(conditions::is_finished)
    }

    fn edit(&mut self, uid: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.metadata.uid.as_deref() == Some(uid)) {
            change(std::sync::Arc::make_mut(pod));
        }
        self.pods.retain(|pod| {
            let ended = pods::is_terminal(pod) || pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none());
            !(pods::is_terminating(pod) && ended && pod.finalizers().is_empty())
        });
    }

    /// One thing happens to one random pod.
    fn node_turn(&mut self) {
        if self.pods.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.pods.len());
        let (uid, ended) = (self.pods[at].uid().unwrap(), pods::is_terminal(&self.pods[at]));
        let now = Time(self.now);
        if ended {
            // A person clears a finished pod away, maybe before it was counted.
            if self.rng.random_bool(0.1) {
                self.edit(&uid, |pod| pod.metadata.deletion_timestamp = Some(now));
            }
            return;
        }
        let (phase, disrupted) = match self.rng.random_range(0..10) {
            0..=2 => ("Running", false),
            3..=6 => ("Succeeded", false),
            7 | 8 => ("Failed", false),
            _ => ("Failed", true),
        };
        let list = match (phase, disrupted) {
            ("Succeeded", _) => &mut self.succeeded,
            ("Failed", true) => &mut self.disrupted,
            ("Failed", false) => &mut self.failed,
            _ => return self.edit(&uid, |pod| set_phase(pod, phase, disrupted)),
        };
        list.insert(uid.clone());
        self.edit(&uid, |pod| set_phase(pod, phase, disrupted));
    }

    /// The controller looks once and acts; it may stop after any call, and pods go on meanwhile.
    fn controller_turn(&mut self) {
        let plan = decide(&self.job, &self.pods, Duration::ZERO, self.now);
        let seen = self.pods.clone();
        if let Some(status) = plan.status {
            if self.crash() {
                return;
            }
            self.job.status = Some(status);
        }
        for uid in plan.release {
            if self.crash() {
                return;
            }
            self.edit(&uid, untrack);
        }
        for uid in plan.discard {
            if self.crash() {
                return;
            }
            let as_seen = seen.iter().find(|pod| pod.uid().as_deref() == Some(&uid));
            let current = self.pods.iter().find(|pod| pod.uid().as_deref() == Some(&uid));
            if as_seen != current {
                return;
            }
            self.discarded.insert(uid.clone());
            self.edit(&uid, untrack);
            if self.crash() {
                return;
            }
            self.delete(&uid);
        }
        for uid in plan.delete {
            if self.crash() {
                return;
            }
            self.delete(&uid);
        }
        for _ in 0..plan.create {
            if self.crash() {
                return;
            }
            self.create();
        }
    }

    /// Between two calls: maybe a pod moves, maybe the controller dies.
    fn crash(&mut self) -> bool {
        if self.rng.random_bool(0.2) {
            self.node_turn();
        }
        self.rng.random_bool(0.1)
    }

    fn delete(&mut self, uid: &str) {
        let now = Time(self.now);
        self.edit(uid, |pod| pod.metadata.deletion_timestamp = Some(now));
    }

    fn create(&mut self) {
        let mut pod = new_pod(&self.job);
        self.made += 1;
        pod.metadata.uid = Some(format!("pod-{}", self.made));
        pod.metadata.name = pod.metadata.uid.clone();
        pod.metadata.creation_timestamp = Some(Time(self.now));
        pod.spec.get_or_insert_default().node_name = Some("local".into());
        self.pods.push(std::sync::Arc::new(pod));
    }
}

fn set_phase(pod: &mut Pod, phase: &str, disrupted: bool) {
    let conditions = if disrupted { json!([{"type": "DisruptionTarget", "status": "True"}]) } else { json!([]) };
    pod.status = Some(from_value(json!({"phase": phase, "conditions": conditions})).unwrap());
}

fn untrack(pod: &mut Pod) {
    pod.metadata.finalizers.get_or_insert_default().retain(|finalizer| finalizer != TRACKING);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_pod_is_counted_once_wherever_the_controller_stops(
        seed in any::<u64>(), completions in 1..6_i32, parallelism in 1..5_i32, backoff_limit in 0..5_i32,
    ) {
        let mut world = World::new(seed, completions, parallelism, backoff_limit);
        for turn in 0..4000 {
            if world.is_finished() {
                break;
            }
            world.now += SignedDuration::from_secs(1);
            if turn < 200 && world.rng.random_bool(0.05) {
                let parallelism = world.rng.random_range(1..5);
                world.job.spec.as_mut().unwrap().parallelism = Some(parallelism);
            }
            if world.rng.random_bool(0.5) { world.node_turn() } else { world.controller_turn() }
        }
        prop_assert!(world.is_finished(), "never finished");
        let status = world.job.status.clone().unwrap();
        let (succeeded, failed) = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
        prop_assert_eq!(status.uncounted_terminated_pods, None);
        prop_assert_eq!(status.active, None);
        let counts = |pods: &HashSet<String>| i32::try_from(pods.difference(&world.discarded).count()).unwrap();
        if conditions::active(world.job.status.as_ref().unwrap(), conditions::COMPLETE).is_some() {
            prop_assert_eq!(succeeded, completions);
            prop_assert_eq!(succeeded, counts(&world.succeeded));
            prop_assert_eq!(failed, counts(&world.failed));
        } else {
            prop_assert!(failed > backoff_limit);
            // A pod that the ending Job stops counts as failed, however its program ends.
            let disrupted = counts(&world.disrupted);
            let ended = counts(&world.succeeded) + counts(&world.failed);
            prop_assert!(succeeded + failed >= ended && succeeded + failed <= ended + disrupted);
            prop_assert!(succeeded <= counts(&world.succeeded));
        }
        // The controller may have stopped between the last status and the releases: later looks make up for it.
        for _ in 0..50 {
            world.controller_turn();
        }
        for pod in &world.pods {
            prop_assert!(!is_tracked(pod), "a finished Job holds no pod");
        }
    }
}

#[test]
fn a_finished_job_is_deleted_after_its_time_to_live() {
    let mut world = World::new(1, 1, 1, 0);
    world.job.spec.as_mut().unwrap().ttl_seconds_after_finished = Some(60);
    let status =
        json!({"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": world.now.to_string()}]});
    world.job.status = Some(from_value(status).unwrap());
    let early = decide(&world.job, &world.pods, Duration::ZERO, world.now + SignedDuration::from_secs(10));
    assert_eq!((early.delete_job, early.next), (false, Some(Duration::from_secs(50))));
    let late = decide(&world.job, &world.pods, Duration::ZERO, world.now + SignedDuration::from_mins(1));
    assert!(late.delete_job);
}

#[test]
fn a_job_past_its_deadline_fails_and_its_pods_end_first() {
    let mut world = World::new(1, 2, 2, 6);
    world.job.spec.as_mut().unwrap().active_deadline_seconds = Some(30);
    let started = decide(&world.job, &world.pods, Duration::ZERO, world.now);
    assert_eq!((started.create, started.next), (2, Some(Duration::from_secs(30))));
    world.job.status = started.status;
    world.create();
    let over = decide(&world.job, &world.pods, Duration::ZERO, world.now + SignedDuration::from_secs(31));
    assert_eq!(over.delete, ["pod-1"]);
    let status = over.status.unwrap();
    let target = conditions::active(&status, conditions::FAILURE_TARGET).unwrap();
    assert_eq!(target.reason.as_deref(), Some("DeadlineExceeded"));
    assert!(!conditions::is_finished(&status));
}

#[test]
fn a_suspended_job_has_no_pods_and_starts_anew_when_resumed() {
    let mut world = World::new(1, 1, 1, 6);
    world.job.spec.as_mut().unwrap().suspend = Some(true);
    world.create();
    let suspended = decide(&world.job, &world.pods, Duration::ZERO, world.now);
    assert_eq!((suspended.create, suspended.discard.len()), (0, 1));
    world.job.status = suspended.status;
    assert_eq!(world.job.status.as_ref().unwrap().start_time, None);
    world.job.spec.as_mut().unwrap().suspend = Some(false);
    world.pods.clear();
    let resumed = decide(&world.job, &world.pods, Duration::ZERO, world.now);
    assert_eq!(resumed.create, 1);
    assert_eq!(resumed.status.unwrap().start_time, Some(Time(world.now)));
}

#[test]
fn what_is_not_supported_fails_the_job_with_the_reason() {
    let mut world = World::new(1, 1, 1, 6);
    world.job.spec.as_mut().unwrap().completion_mode = Some("Indexed".into());
    let status = decide(&world.job, &world.pods, Duration::ZERO, world.now).status.unwrap();
    let failed = conditions::active(&status, conditions::FAILED).unwrap();
    assert!(failed.message.as_ref().unwrap().contains("Indexed"));
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut world = World::new(1, 1, 1, 6);
    world.create();
    world.job.status = decide(&world.job, &world.pods, Duration::ZERO, world.now).status;
    let again = decide(&world.job, &world.pods, Duration::ZERO, world.now + SignedDuration::from_secs(5));
    assert_eq!(again, super::decide::JobPlan::default());
}
