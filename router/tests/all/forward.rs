//! What passes, both ways.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use crate::support::{Endpoint, PATIENCE, TestRouter, client, eventually, reply, table};

/// Answers with the request's head, as JSON.
async fn echo() -> Endpoint {
    Endpoint::answering(|request| {
        Box::pin(async move {
            let headers: Vec<_> = request
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned()))
                .collect();
            let target = request.uri().to_string();
            let length = request.into_body().collect().await.unwrap().to_bytes().len();
            let mut response = reply(json!({ "target": target, "headers": headers, "length": length }).to_string());
            let answer = response.headers_mut();
            answer.insert("x-modelway-arm", "forged".parse().unwrap());
            answer.insert("x-own", "kept".parse().unwrap());
            response
        })
    })
    .await
}

#[tokio::test]
async fn heads_are_cleaned_and_marked() {
    let endpoint = echo().await;
    let mut document = table(1, &[("v1", 1, &[endpoint.address])]);
    let router = TestRouter::start(&document).await;
    let request = |address| {
        Request::post(format!("http://{address}/a%20b?c=d"))
            .header("x-modelway-request-id", "forged")
            .header("x-forwarded-for", "6.6.6.6")
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .header("x-user", "u")
            .body(Full::from("{}"))
            .unwrap()
    };
    let response = client().request(request(router.address)).await.unwrap();
    let headers = response.headers().clone();
    let seen: serde_json::Value =
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(headers["x-modelway-model"], "registry/v1@sha256:v1");
    assert_eq!((&headers["x-own"], headers.get("x-modelway-arm")), (&"kept".parse().unwrap(), None));
    assert_eq!((&seen["target"], &seen["length"]), (&json!("/a%20b?c=d"), &json!(2)));
    let value = |name: &str| {
        let lines = seen["headers"].as_array().unwrap();
        lines.iter().find(|line| line[0] == name).map(|line| line[1].as_str().unwrap().to_owned())
    };
    assert_eq!(value("x-forwarded-for").as_deref(), Some("127.0.0.1"));
    assert_eq!(value("forwarded"), Some(format!("for=127.0.0.1;proto=http;host=\"{}\"", router.address)));
    assert_eq!(value("host"), Some(router.address.to_string()));
    assert_eq!(value("x-modelway-request-id").as_deref(), headers["x-modelway-request-id"].to_str().ok());
    assert_eq!((value("x-hop"), value("x-user").as_deref()), (None, Some("u")));

    document["generation"] = json!(2);
    document["debugHeaders"] = json!(true);
    router.put(&document).await;
    let response = client().request(request(router.address)).await.unwrap();
    assert_eq!(response.headers()["x-modelway-arm"], "v1");
}

#[tokio::test]
async fn head_and_empty_answers_keep_their_connection() {
    let endpoint = Endpoint::answering(|request| {
        Box::pin(async move {
            let mut response = reply(if request.method() == Method::HEAD { "" } else { "body" });
            match *request.method() {
                Method::HEAD => drop(response.headers_mut().insert(header::CONTENT_LENGTH, 4.into())),
                Method::DELETE => {
                    response = reply("");
                    *response.status_mut() = StatusCode::NO_CONTENT;
                }
                _ => {}
            }
            response
        })
    })
    .await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[endpoint.address])])).await;
    let client = client();
    for method in [Method::HEAD, Method::DELETE, Method::GET, Method::HEAD, Method::GET] {
        let request = Request::builder().method(method.clone()).uri(format!("http://{}/", router.address));
        let response = client.request(request.body(Full::default()).unwrap()).await.unwrap();
        let length = response.headers().get(header::CONTENT_LENGTH).map(|length| length.to_str().unwrap().to_owned());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        match method {
            Method::HEAD => assert_eq!((length.as_deref(), body.len()), (Some("4"), 0)),
            Method::DELETE => assert_eq!((length, body.len()), (None, 0)),
            _ => assert_eq!((length.as_deref(), &body[..]), (Some("4"), &b"body"[..])),
        }
    }
}

#[tokio::test]
async fn large_bodies_pass_both_ways() {
    let endpoint = Endpoint::answering(|request| {
        Box::pin(
            async move { Response::new(Full::new(request.into_body().collect().await.unwrap().to_bytes()).boxed()) },
        )
    })
    .await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[endpoint.address])])).await;
    let body: Bytes = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect::<Vec<_>>().into();
    let request = Request::post(format!("http://{}/", router.address)).body(Full::new(body.clone())).unwrap();
    let response = client().request(request).await.unwrap();
    assert!(response.into_body().collect().await.unwrap().to_bytes() == body);
}

#[tokio::test]
async fn events_pass_one_by_one() {
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    let receiver = Arc::new(parking_lot::Mutex::new(Some(receiver)));
    let endpoint = Endpoint::answering(move |_| {
        let events = ReceiverStream::new(receiver.lock().take().unwrap()).map(|event| Ok(Frame::data(event)));
        let body = BodyExt::boxed(StreamBody::new(events));
        Box::pin(async { Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(body).unwrap() })
    })
    .await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[endpoint.address])])).await;
    let request = Request::get(format!("http://{}/", router.address)).body(Full::default()).unwrap();
    let mut body = client().request(request).await.unwrap().into_body();
    for number in 0..20 {
        let event = Bytes::from(format!("data: {number}\n\n"));
        sender.send(event.clone()).await.unwrap();
        // The next one is sent only after this one has arrived: nothing is kept back.
        let frame = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
    }
    drop(sender);
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_endpoints_work() {
    struct OnDrop(Arc<Notify>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let marks = (started.clone(), dropped.clone());
    let endpoint = Endpoint::answering(move |_| {
        let (started, dropped) = marks.clone();
        Box::pin(async move {
            let _mark = OnDrop(dropped);
            started.notify_one();
            std::future::pending().await
        })
    })
    .await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[endpoint.address])])).await;
    let mut stream = TcpStream::connect(router.address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    tokio::time::timeout(PATIENCE, started.notified()).await.unwrap();
    drop(stream);
    tokio::time::timeout(PATIENCE, dropped.notified()).await.unwrap();
    eventually("nothing in flight", || async { router.arm_stats("v1").await["inFlight"] == 0 }).await;
    let line = r#"modelway_router_requests_total{arm="v1",code_class="canceled",inference="digits"}"#;
    eventually("counted as canceled", || async { router.metric(line).await > 0.5 }).await;
    assert_eq!(router.arm_stats("v1").await["errors"], json!({}));
}

#[tokio::test]
async fn upgraded_connections_pass_bytes_both_ways() {
    let endpoint = Endpoint::answering(|mut request| {
        tokio::spawn(async move {
            let mut stream = TokioIo::new(hyper::upgrade::on(&mut request).await.unwrap());
            let mut word = [0; 4];
            stream.read_exact(&mut word).await.unwrap();
            word.reverse();
            stream.write_all(&word).await.unwrap();
        });
        Box::pin(async {
            let mut response = reply("");
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(header::UPGRADE, "websocket".parse().unwrap());
            response.headers_mut().insert(header::CONNECTION, "upgrade".parse().unwrap());
            response
        })
    })
    .await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[endpoint.address])])).await;
    let mut stream = TcpStream::connect(router.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap();
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: websocket"), "{head}");
    stream.write_all(b"\0\nab").await.unwrap();
    let mut answer = [0; 4];
    tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"ba\n\0");
}
