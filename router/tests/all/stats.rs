//! The stats stream.

use modelway_api::stats::RouterStats;

use crate::support::{Endpoint, EventStream, TestRouter, client, infer, send, table};

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
