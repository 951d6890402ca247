//! Streams that start before the answer is there.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::support::{
    Endpoint, EventStream, PATIENCE, Reply, TestRouter, client, eventually, get, infer, reply, table,
};

const COMMENT: &str = ": keep-alive\n\n";

fn asleep(generation: i64) -> Value {
    let mut table = table(generation, &[("v1", 1, &[])]);
    table["arms"][0]["state"] = json!("Asleep");
    table
}

async fn router(quiet: u64, change: impl FnOnce(&mut Value)) -> TestRouter {
    let mut table = asleep(1);
    change(&mut table);
    TestRouter::start_with(&table, |options| options.quiet = Duration::from_millis(quiet)).await
}

fn chat(router: &TestRouter) -> Request<Full<Bytes>> {
    Request::post(format!("http://{}/v1/chat/completions", router.address))
        .header("accept-encoding", "gzip")
        .body(Full::from(r#"{"model": "m", "stream": true}"#))
        .unwrap()
}

/// A stream that has started with a comment.
struct Started(Response<Incoming>, String);

impl Started {
    async fn ask(request: Request<Full<Bytes>>) -> Self {
        let response = tokio::time::timeout(PATIENCE, client().request(request)).await.unwrap().unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        assert!(response.headers().contains_key("x-modelway-request-id"));
        let mut started = Self(response, String::new());
        started.comments(2).await;
        started
    }

    async fn comments(&mut self, count: usize) {
        while self.1.matches(COMMENT).count() < count {
            let frame = tokio::time::timeout(PATIENCE, self.0.body_mut().frame()).await.unwrap().unwrap().unwrap();
            self.1 += &String::from_utf8_lossy(&frame.into_data().unwrap());
        }
        assert_eq!(self.1.replace(COMMENT, ""), "");
    }

    /// What follows the comments, up to the end.
    async fn rest(self) -> String {
        let rest = tokio::time::timeout(PATIENCE, self.0.into_body().collect()).await.unwrap().unwrap().to_bytes();
        (self.1 + &String::from_utf8_lossy(&rest)).replace(COMMENT, "")
    }
}

fn answer(
    status: u16,
    kind: &'static str,
    text: &'static str,
) -> impl Fn(Request<Incoming>) -> futures::future::BoxFuture<'static, Reply> + Clone {
    move |request| {
        Box::pin(async move {
            assert!(!request.headers().contains_key("accept-encoding"));
            let mut reply = reply(text);
            *reply.status_mut() = status.try_into().unwrap();
            reply.headers_mut().insert("content-type", kind.parse().unwrap());
            reply
        })
    }
}

async fn spliced(status: u16, kind: &'static str, text: &'static str) -> String {
    let router = router(100, |_| {}).await;
    let started = Started::ask(chat(&router)).await;
    let endpoint = Endpoint::answering(answer(status, kind, text)).await;
    router.put(&table(2, &[("v1", 1, &[endpoint.address])])).await;
    started.rest().await
}

#[tokio::test]
async fn comments_come_until_the_real_stream_takes_their_place() {
    let events = "data: {\"choices\": []}\n\ndata: [DONE]\n\n";
    assert_eq!(spliced(200, "text/event-stream; charset=utf-8", events).await, events);
}

#[tokio::test]
async fn another_answer_becomes_an_event_and_an_error_an_error() {
    assert_eq!(spliced(200, "application/json", "{\"choices\": []}").await, "data: {\"choices\": []}\n\n");
    let error = spliced(429, "application/json", "{\"error\": {\"message\": \"slow down\"}}").await;
    let error: Value = serde_json::from_str(error.strip_prefix("data: ").unwrap()).unwrap();
    let expected = json!({ "message": "slow down", "type": "invalid_request_error", "param": null, "code": 429 });
    assert_eq!(error["error"], expected);
}

#[tokio::test]
async fn an_arm_that_never_becomes_ready_ends_the_stream_with_an_error() {
    let router = router(100, |table| table["hold"] = json!({ "maxAgeMs": 1_000 })).await;
    let rest = Started::ask(chat(&router)).await.rest().await;
    let error: Value = serde_json::from_str(rest.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["retry_after"]), (&json!(503), &json!("5")));
    assert!(error["error"]["message"].as_str().unwrap().contains("predictor `v1` is not ready"), "{error}");
    assert_eq!(router.arm_stats("v1").await["errors"], json!({ "no_endpoint": 1 }));
}

#[tokio::test]
async fn the_head_of_a_slow_first_byte_is_sent_too_and_comments_go_on() {
    let router = router(100, |_| {}).await;
    let mut started = Started::ask(chat(&router)).await;
    let slow = Endpoint::answering(|request| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(700)).await;
            answer(200, "text/event-stream", "data: late\n\n")(request).await
        })
    })
    .await;
    router.put(&table(2, &[("v1", 1, &[slow.address])])).await;
    eventually("in flight", || async { router.arm_stats("v1").await["inFlight"] == 1 }).await;
    let seen = started.1.matches(COMMENT).count();
    started.comments(seen + 2).await;
    assert_eq!(started.rest().await, "data: late\n\n");
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_an_error() {
    let router = router(100, |_| {}).await;
    let started = Started::ask(chat(&router)).await;
    let stalling = Endpoint::answering(|_| {
        Box::pin(async {
            let first = futures::stream::once(async { Ok(Frame::data(Bytes::from("data: fir"))) });
            let body = StreamBody::new(futures::StreamExt::chain(first, futures::stream::pending()));
            let mut response = Response::new(BodyExt::boxed(body));
            response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
            response
        })
    })
    .await;
    let mut awake = table(2, &[("v1", 1, &[stalling.address])]);
    awake["timeouts"] = json!({ "idleMs": 200 });
    router.put(&awake).await;
    let rest = started.rest().await;
    let error = rest.strip_prefix("data: fir\n\ndata: ").unwrap();
    let error: Value = serde_json::from_str(error).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().ends_with("the response stalled"), "{error}");
    assert_eq!(router.arm_stats("v1").await["errors"], json!({ "timeout": 1 }));
}

#[tokio::test]
async fn clients_that_leave_a_stream_free_their_place() {
    let router = router(50, |_| {}).await;
    let mut events = EventStream::open(router.admin).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(Started::ask(chat(&router)).await);
    }
    events.until(|event| event["arms"]["v1"]["held"] == 20).await;
    drop(streams);
    events.until(|event| event["arms"]["v1"]["held"] == 0).await;
    let line = r#"modelway_router_requests_total{arm="v1",code_class="canceled",inference="digits"}"#;
    eventually("counted as left", || async { router.metric(line).await > 19.0 }).await;
}

#[tokio::test]
async fn others_hear_nothing_until_there_is_an_answer() {
    let router = router(50, |_| {}).await;
    let call = client().request(infer(router.address, 1));
    assert!(tokio::time::timeout(Duration::from_millis(400), call).await.is_err());
}

#[tokio::test]
async fn a_stream_whose_router_goes_away_ends_with_an_error() {
    let router = TestRouter::start_with(&asleep(1), |changed| {
        changed.quiet = Duration::from_millis(50);
        changed.deadline = Duration::from_secs(2);
    })
    .await;
    let started = Started::ask(chat(&router)).await;
    router.token.cancel();
    eventually("draining", || async { get(router.admin, "/readyz").await.0 == 503 }).await;
    let rest = started.rest().await;
    assert!(rest.contains("this router is going away") && rest.contains("\"code\":503"), "{rest}");
    assert!(tokio::time::timeout(PATIENCE, router.ended).await.unwrap().unwrap().is_ok());
}
