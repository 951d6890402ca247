//! Several replicas: one works, and another goes on where it stopped.

use std::time::{Duration, Instant};

use kube::Client;
use modelway_controller::{LeaderElection, Timing};
use modelway_plan::Kind;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{Faults, Seen},
    platform::{NAMESPACE, Platform, Running, options},
    serving::{serve, until_quiet},
    storms::check_story,
};

/// Short, with room between the end of a leader's time and the lease's.
const QUICK: Timing =
    Timing { lease: Duration::from_secs(3), renew: Duration::from_millis(1_500), retry: Duration::from_millis(200) };

fn replica(faults: &Faults, client: &Client, identity: &str, timing: Timing) -> Running {
    let election = LeaderElection {
        namespace: NAMESPACE.to_owned(),
        name: "modelway-controller".to_owned(),
        identity: identity.to_owned(),
        timing,
    };
    let mut options = options(faults.client(client, identity));
    options.election = Some(election);
    Running::start(options)
}

async fn until_leader(platform: &Platform, faults: &Faults, is_so: impl Fn(&str) -> bool) -> String {
    platform
        .eventually("a leader", || async {
            let leader = faults.leader();
            (!leader.is_empty() && is_so(&leader)).then_some(leader)
        })
        .await
}

/// Every write came from whoever held the lease when it arrived.
fn check_writers(faults: &Faults) {
    let seen = faults.seen();
    let wrong: Vec<_> = seen.iter().filter(|seen| seen.is_write() && seen.client != seen.leader).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(seen.iter().any(Seen::is_write));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_leader_writes_and_a_stop_hands_over_at_once() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    // A lease that nobody waits for to run out.
    let timing = Timing { lease: Duration::from_mins(4), renew: Duration::from_mins(2), retry: QUICK.retry };
    let first = replica(&faults, &platform.client, "first", timing);
    until_leader(&platform, &faults, |leader| leader == "first").await;
    let second = replica(&faults, &platform.client, "second", timing);
    platform.train("train-1").await;
    platform.end("train-1", true, "").await;
    platform.build().await;
    assert!(faults.seen().iter().any(|seen| seen.client == "second"), "the second one watches");
    check_writers(&faults);
    let began = Instant::now();
    first.stop().await;
    until_leader(&platform, &faults, |leader| leader == "second").await;
    println!("handed over in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(20), "it waited for the lease to run out");
    platform.finish_build('a').await;
    platform.eventually("a version", || async { platform.names(Kind::ModelVersion).await.pop() }).await;
    check_writers(&faults);
    second.stop().await;
    assert_eq!(faults.leader(), "", "the lease is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_replaced_within_twenty_seconds() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    let first = replica(&faults, &platform.client, "first", Timing::default());
    until_leader(&platform, &faults, |leader| leader == "first").await;
    let second = replica(&faults, &platform.client, "second", Timing::default());
    let is_listed =
        || async { faults.seen().iter().any(|seen| seen.client == "second" && seen.is_watch).then_some(()) };
    platform.eventually("the second one's watches", is_listed).await;
    let began = Instant::now();
    first.kill().await;
    until_leader(&platform, &faults, |leader| leader == "second").await;
    println!("taken over in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(20), "taken over in {:?}", began.elapsed());
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_leaders_leave_nothing_twice_and_nothing_lost() {
    let seed = 11;
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(seed);
    let stop = CancellationToken::new();
    let (client, plan, ended) = (platform.client.clone(), faults.clone(), stop.clone());
    let killer = tokio::spawn(async move {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut replicas = Vec::new();
        for number in 0..2 {
            let identity = format!("replica-{number}");
            replicas.push((replica(&plan, &client, &identity, QUICK), identity));
        }
        let (mut number, mut kills) = (2, 0);
        while !ended.is_cancelled() {
            let wait = Duration::from_millis(rng.random_range(200..2_500));
            _ = tokio::time::timeout(wait, ended.cancelled()).await;
            let leader = plan.leader();
            let Some(at) = replicas.iter().position(|(_, identity)| *identity == leader) else { continue };
            let identity = format!("replica-{number}");
            let new = (replica(&plan, &client, &identity, QUICK), identity);
            let (old, _) = std::mem::replace(&mut replicas[at], new);
            old.kill().await;
            (number, kills) = (number + 1, kills + 1);
        }
        (replicas, kills)
    });
    serve(&platform).await;
    stop.cancel();
    let (replicas, kills) = killer.await.unwrap();
    println!("{kills} leaders were killed");
    assert!(kills > 0);
    until_quiet(&platform).await;
    check_story(&platform).await;
    check_writers(&faults);
    for (replica, _) in replicas {
        replica.stop().await;
    }
}

/// Dies after each of its writes, in the middle of whatever it was doing.
async fn keep_dying(faults: Faults, client: Client, stop: CancellationToken) -> usize {
    let mut lives = 0;
    while !stop.is_cancelled() {
        let name = format!("life-{lives}");
        faults.dies_with_its_first_write(&name);
        let life = Running::start(options(faults.client(&client, &name)));
        while !faults.is_dead(&name) && !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        life.kill().await;
        lives += 1;
    }
    lives
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_dies_after_every_write_gets_there_all_the_same() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    let stop = CancellationToken::new();
    let lives = tokio::spawn(keep_dying(faults.clone(), platform.client.clone(), stop.clone()));
    serve(&platform).await;
    stop.cancel();
    let lives = lives.await.unwrap();
    println!("it died {lives} times");
    assert!(lives > 10, "{lives}");
    let last = Running::start(options(faults.client(&platform.client, "last")));
    until_quiet(&platform).await;
    check_story(&platform).await;
    last.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_at_rest_asks_less_than_once_a_second() {
    let platform = Platform::with_kinds().await;
    let faults = Faults::new(1);
    let only = replica(&faults, &platform.client, "only", Timing::default());
    serve(&platform).await;
    until_quiet(&platform).await;
    faults.forget();
    let watched = Duration::from_secs(6);
    tokio::time::sleep(watched).await;
    let seen = faults.seen();
    assert!(seen.len() < 6, "{} requests in {watched:?}: {seen:?}", seen.len());
    only.stop().await;
}
