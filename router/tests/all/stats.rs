//! The stats stream.

use std::time::Duration;

use modelway_api::stats::RouterStats;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Endpoint, EventStream, TestRouter, client, eventually, get, infer, reply, send, table};

#[tokio::test]
async fn the_stream_says_what_each_arm_did() {
    let (v1, v2) = (Endpoint::named("v1").await, Endpoint::named("v2").await);
    let router = TestRouter::start(&table(4, &[("v1", 90, &[v1.address]), ("v2", 10, &[v2.address])])).await;
    let mut events = EventStream::open(router.admin).await;
    let first: RouterStats = serde_json::from_value(events.next().await).unwrap();
    assert_eq!((first.version, first.generation, first.epoch), (1, 4, 1));
    assert_eq!(first.arms["v1"].endpoints, [v1.address.to_string()]);

    let client = client();
    for user in 0..50 {
        send(&client, infer(router.address, user)).await.unwrap();
    }
    let total = |event: &RouterStats| event.arms.values().map(|arm| arm.requests).sum::<u64>();
    let ended = |event: &RouterStats| event.arms.values().filter_map(|arm| arm.latency_buckets.last()).sum::<u64>();
    let read = |event: &serde_json::Value| serde_json::from_value::<RouterStats>(event.clone()).unwrap();
    let last = read(&events.until(|event| ended(&read(event)) == 50).await);
    assert_eq!((total(&last), last.boot_id == first.boot_id), (50, true));
    for arm in last.arms.values() {
        assert!(arm.errors.is_empty() && arm.latency_buckets.is_sorted());
        assert!(arm.latency_us_sum > 0 || arm.requests == 0);
    }
}

#[tokio::test]
async fn new_routes_are_told_of_at_once_and_not_at_the_next_heartbeat() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[])])).await;
    let mut events = EventStream::open(router.admin).await;
    assert_eq!(events.next().await["generation"], 1);
    router.put(&table(2, &[("v1", 1, &[v1.address])])).await;
    let known = Instant::now();
    let event = events.next().await;
    assert_eq!((&event["generation"], &event["arms"]["v1"]["admitted"]), (&json!(2), &json!(1)));
    assert!(known.elapsed() < Duration::from_secs(5), "{:?}", known.elapsed());
}

#[tokio::test]
async fn requests_that_wait_together_make_few_events() {
    let mut asleep = table(1, &[("v1", 1, &[])]);
    asleep["arms"][0]["state"] = json!("Asleep");
    let router = TestRouter::start(&asleep).await;
    let mut events = EventStream::open(router.admin).await;
    events.next().await;
    let address = router.address;
    let started = Instant::now();
    let waiting: Vec<_> =
        (0..200).map(|user| tokio::spawn(async move { send(&client(), infer(address, user)).await })).collect();
    let mut count = 0;
    while events.next().await["arms"]["v1"]["held"] != 200 {
        count += 1;
    }
    // The first one at once, the others at most every 100 ms.
    let most = 3 + started.elapsed().as_millis() / 100;
    assert!((1..=most).contains(&count), "{count} of at most {most}");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn the_time_of_requests_adds_up_while_they_are_held_and_in_flight() {
    let slow = Endpoint::answering(|_| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            reply("late")
        })
    })
    .await;
    let mut asleep = table(1, &[("v1", 1, &[])]);
    asleep["arms"][0]["state"] = json!("Asleep");
    let router = TestRouter::start(&asleep).await;
    let address = router.address;
    let started = Instant::now();
    let waiting: Vec<_> =
        (0..4).map(|user| tokio::spawn(async move { send(&client(), infer(address, user)).await })).collect();
    eventually("held", || async { get(router.admin, "/debug/held").await.1.contains("\"requests\":4") }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    router.put(&table(2, &[("v1", 1, &[slow.address])])).await;
    for answer in waiting {
        assert_eq!(answer.await.unwrap(), Ok((200, "late".into())));
    }
    let most = 4 * started.elapsed().as_micros();
    let busy = u128::from(router.arm_stats("v1").await["busyUs"].as_u64().unwrap());
    assert!((4 * 500_000..=most).contains(&busy), "{busy} of at most {most}");
    let settled = router.arm_stats("v1").await["busyUs"].as_u64();
    assert_eq!(router.arm_stats("v1").await["busyUs"].as_u64(), settled, "nothing is in flight any more");
}

#[tokio::test]
async fn the_first_request_after_a_pause_is_told_of_at_once() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    let mut events = EventStream::open(router.admin).await;
    for round in 1..4_u64 {
        // Long enough for the stream to see that nothing happens.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let sent = Instant::now();
        send(&client(), infer(router.address, round)).await.unwrap();
        events.until(|event| event["arms"]["v1"]["latencyBuckets"][14] == round).await;
        assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    }
}
