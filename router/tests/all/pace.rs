//! Requests that waited leave at a pace that a fresh endpoint can take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{Endpoint, EventStream, TestRouter, client, eventually, get, infer, reply, send, table};

fn asleep(generation: i64) -> Value {
    let mut table = table(generation, &[("v1", 1, &[])]);
    table["arms"][0]["state"] = json!("Asleep");
    table
}

fn awake(generation: i64, endpoints: &[&Endpoint], capacity: u32) -> Value {
    let addresses: Vec<_> = endpoints.iter().map(|endpoint| endpoint.address).collect();
    let mut table = table(generation, &[("v1", 1, &addresses)]);
    table["arms"][0]["capacity"] = json!(capacity);
    table
}

type Call = JoinHandle<Result<(u16, String), String>>;

/// Calls that wait in the order of their numbers.
async fn hold(router: &TestRouter, count: u64) -> Vec<Call> {
    let client = client();
    let mut calls = Vec::new();
    for number in 0..count {
        let (client, address) = (client.clone(), router.address);
        calls.push(tokio::spawn(async move { send(&client, infer(address, number)).await }));
        eventually("held", || async {
            let report: Value = serde_json::from_str(&get(router.admin, "/debug/held").await.1).unwrap();
            report["arms"]["v1"]["requests"] == number + 1
        })
        .await;
    }
    calls
}

/// Remembers the order of its requests and how many it had at a time.
#[derive(Clone, Default)]
struct Seen {
    order: Arc<Mutex<Vec<String>>>,
    now: Arc<AtomicU64>,
    most: Arc<AtomicU64>,
}

impl Seen {
    async fn endpoint(&self, takes: Duration) -> Endpoint {
        let seen = self.clone();
        Endpoint::answering(move |request| {
            let seen = seen.clone();
            Box::pin(async move {
                seen.order.lock().push(request.headers()["x-user"].to_str().unwrap().to_owned());
                seen.most.fetch_max(seen.now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(takes).await;
                seen.now.fetch_sub(1, Relaxed);
                reply("v1")
            })
        })
        .await
    }
}

async fn all_answered(calls: Vec<Call>) {
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok((200, "v1".into())));
    }
}

#[tokio::test]
async fn held_requests_leave_in_the_order_of_arrival_as_many_as_the_endpoint_takes() {
    let router = TestRouter::start(&asleep(1)).await;
    let calls = hold(&router, 40).await;
    let seen = Seen::default();
    let endpoint = seen.endpoint(Duration::from_millis(20)).await;
    router.put(&awake(2, &[&endpoint], 1)).await;
    all_answered(calls).await;
    let expected: Vec<_> = (0..40).map(|number| format!("user-{number}")).collect();
    assert_eq!(*seen.order.lock(), expected);
    assert_eq!(seen.most.load(Relaxed), 1, "each waits for the one before it");
}

#[tokio::test]
async fn a_fresh_endpoint_is_not_hit_by_all_at_once_and_later_ones_take_their_share() {
    let router = TestRouter::start(&asleep(1)).await;
    let calls = hold(&router, 60).await;
    let (first, second) = (Seen::default(), Seen::default());
    let endpoints = [first.endpoint(Duration::from_millis(50)).await, second.endpoint(Duration::from_millis(50)).await];
    router.put(&awake(2, &[&endpoints[0]], 4)).await;
    router.put(&awake(3, &[&endpoints[0], &endpoints[1]], 4)).await;
    all_answered(calls).await;
    // A refill adds one in 100 ms of silence, which a slow machine may see.
    assert!(first.most.load(Relaxed) <= 10, "{}", first.most.load(Relaxed));
    assert_eq!(first.order.lock().len() + second.order.lock().len(), 60);
}

#[tokio::test]
async fn whoever_comes_while_others_wait_goes_behind_them() {
    let router = TestRouter::start(&asleep(1)).await;
    let mut calls = hold(&router, 10).await;
    let seen = Seen::default();
    let endpoint = seen.endpoint(Duration::from_millis(50)).await;
    router.put(&awake(2, &[&endpoint], 1)).await;
    let (address, latest) = (router.address, Instant::now());
    calls.push(tokio::spawn(async move { send(&client(), infer(address, 999)).await }));
    all_answered(calls).await;
    assert!(latest.elapsed() >= Duration::from_millis(50));
    assert_eq!(seen.order.lock().last().map(String::as_str), Some("user-999"));
    let report: Value = serde_json::from_str(&get(router.admin, "/debug/held").await.1).unwrap();
    assert_eq!((&report["arms"]["v1"]["requests"], &report["arms"]["v1"]["pacing"]), (&json!(0), &json!(false)));
}

#[tokio::test]
async fn an_endpoint_that_never_answers_holds_nobody_up_for_good() {
    let router = TestRouter::start(&asleep(1)).await;
    let calls = hold(&router, 5).await;
    let silent = Endpoint::answering(|_| Box::pin(std::future::pending())).await;
    router.put(&awake(2, &[&silent], 1)).await;
    eventually("all are sent", || async { silent.served.load(Relaxed) == 5 }).await;
    calls.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn an_arm_that_falls_asleep_again_keeps_those_that_still_wait() {
    let router = TestRouter::start(&asleep(1)).await;
    let calls = hold(&router, 6).await;
    let seen = Seen::default();
    let slow = seen.endpoint(Duration::from_millis(2_500)).await;
    router.put(&awake(2, &[&slow], 2)).await;
    router.put(&asleep(3)).await;
    let mut events = EventStream::open(router.admin).await;
    events.until(|event| event["arms"]["v1"]["inFlight"] == 0).await;
    let quick = seen.endpoint(Duration::ZERO).await;
    router.put(&awake(4, &[&quick], 2)).await;
    all_answered(calls).await;
    assert_eq!(seen.order.lock().len(), 6, "each is sent once");
}

/// Not a limit but a figure: `--nocapture` shows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_byte_comes_right_after_the_endpoint() {
    const WAKES: usize = 50;
    let mut world = crate::kube_source::World::start().await;
    let mut events = EventStream::open(world.admin).await;
    let (mut delays, mut signals) = (Vec::new(), Vec::new());
    for _ in 0..WAKES {
        world.sleep().await;
        let (address, client) = (world.address, client());
        let request = Request::get(format!("http://{address}/")).body(Full::<Bytes>::default()).unwrap();
        let waiting = tokio::spawn(async move {
            let response = client.request(request).await.unwrap();
            (response.status(), Instant::now())
        });
        let sent = Instant::now();
        events.until(|event| event["arms"]["v1"]["held"] == 1).await;
        signals.push(sent.elapsed());
        let ready = Instant::now();
        world.wake().await;
        let (status, answered) = waiting.await.unwrap();
        assert_eq!(status, 200);
        delays.push(answered - ready);
    }
    for (what, times) in [("endpoint written -> first byte", &mut delays), ("request -> event", &mut signals)] {
        times.sort();
        println!("{what}: median {:?}, p95 {:?}", times[WAKES / 2], times[WAKES * 95 / 100]);
    }
    // Nobody hears of it by a heartbeat only.
    assert!(signals[WAKES - 1] < Duration::from_secs(5), "{signals:?}");
}
