//! Configuration: swaps, refusals, what the admin port says.

use serde_json::json;

use crate::support::{Endpoint, Load, TestRouter, client, eventually, get, infer, send, table};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_and_removed_endpoints_under_load_lose_nothing() {
    let (v1, v2, v3) = (Endpoint::named("v1").await, Endpoint::named("v2").await, Endpoint::named("v3").await);
    let router = TestRouter::start(&table(1, &[("v1", 50, &[v1.address]), ("v2", 50, &[v2.address])])).await;
    let load = Load::on(router.address, 8);
    router.put(&table(2, &[("v1", 50, &[v1.address]), ("v2", 50, &[v2.address, v3.address])])).await;
    router.put(&table(3, &[("v2", 50, &[v3.address])])).await;
    // Nothing is sent to the removed ones any more, so they may go.
    v1.stop().await;
    v2.stop().await;
    router.put(&table(4, &[("v3", 1, &[v3.address])])).await;
    load.finish().await;
}

#[tokio::test]
async fn keeps_old_config_when_new_is_bad() {
    let v1 = Endpoint::named("v1").await;
    let good = |generation| table(generation, &[("v1", 1, &[v1.address])]);
    let router = TestRouter::start(&good(5)).await;
    let refused = |text: &'static str| {
        let router = &router;
        async move {
            eventually(text, || async {
                let config = router.config().await;
                let problems = [&config["refused"]["reason"], &config["sourceProblems"][0]];
                problems.iter().any(|problem| problem.as_str().is_some_and(|problem| problem.contains(text)))
            })
            .await;
            assert_eq!(router.config().await["generation"], 5);
            assert_eq!(send(&client(), infer(router.address, 1)).await, Ok((200, "v1".into())));
        }
    };
    router.write(&good(4).to_string());
    refused("generation 4 is older than 5").await;
    let mut twice = good(6);
    twice["arms"] = json!([{ "name": "v1", "weight": 1 }, { "name": "v1", "weight": 1 }]);
    router.write(&twice.to_string());
    refused("arms[1].name: `v1` is taken").await;
    router.write("{ \"version\": 1, ");
    refused("is not a route table").await;
    router.put(&good(6)).await;
    let config = router.config().await;
    assert_eq!((&config["refused"], &config["sourceProblems"]), (&json!(null), &json!([])));
}

#[tokio::test]
async fn metrics_and_health_tell_the_state() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(3, &[("v1", 1, &[v1.address])])).await;
    assert_eq!(get(router.admin, "/livez").await.0, 200);
    send(&client(), infer(router.address, 1)).await.unwrap();
    let line = r#"modelway_router_requests_total{arm="v1",code_class="2xx",inference="digits"}"#;
    eventually("the request is counted", || async { router.metric(line).await > 0.5 }).await;
    assert!((router.metric("modelway_router_config_generation").await - 3.0).abs() < 0.1);
}
