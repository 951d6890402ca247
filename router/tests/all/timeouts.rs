//! Limits on time: the answer names the one that was reached.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Endpoint, TestRouter, client, get, infer, loopback, send, table};

async fn with_timeouts(address: std::net::SocketAddr, timeouts: Value) -> TestRouter {
    let mut table = table(1, &[("v1", 1, &[address])]);
    table["timeouts"] = timeouts;
    TestRouter::start(&table).await
}

#[tokio::test]
async fn a_silent_endpoint_is_504_first_byte_or_total() {
    let silent = Endpoint::answering(|_| Box::pin(std::future::pending())).await;
    for (timeouts, name) in [(json!({ "firstByteMs": 200 }), "firstByte"), (json!({ "totalMs": 200 }), "total")] {
        let router = with_timeouts(silent.address, timeouts).await;
        let (status, body) = send(&client(), infer(router.address, 1)).await.unwrap();
        assert_eq!(status, 504);
        assert!(body.contains(&format!("{name} timeout")) && body.contains("200 ms"), "{body}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_accept_is_504_connect() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(loopback()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    // Fills the queue; further connections get no answer.
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        waiting.push(stream);
    }
    let router = with_timeouts(address, json!({ "connectMs": 200 })).await;
    let (status, body) = get(router.address, "/").await;
    assert_eq!(status, 504);
    assert!(body.contains("connect timeout"), "{body}");
    assert!(router.arm_stats("v1").await["errors"]["timeout"].as_u64().unwrap() >= 1);
}

#[tokio::test]
async fn a_stream_that_stalls_is_broken_off() {
    let stalling = Endpoint::answering(|_| {
        Box::pin(async {
            let first = futures::stream::once(async { Ok(Frame::data(Bytes::from("first"))) });
            let never = futures::stream::pending();
            Response::new(BodyExt::boxed(StreamBody::new(futures::StreamExt::chain(first, never))))
        })
    })
    .await;
    let router = with_timeouts(stalling.address, json!({ "idleMs": 200 })).await;
    let error = send(&client(), infer(router.address, 1)).await.unwrap_err();
    assert!(error.contains("Incomplete") || error.contains("Body"), "{error}");
    assert_eq!(router.arm_stats("v1").await["errors"], json!({ "timeout": 1 }));
}

#[tokio::test]
async fn a_client_that_stalls_in_its_body_is_408() {
    let v1 = Endpoint::named("v1").await;
    let router = with_timeouts(v1.address, json!({ "idleMs": 200 })).await;
    for head in [
        "Content-Length: 10\r\n\r\nab",
        "Content-Length: 1000000\r\n\r\nab",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}");
        let (answer, _) = crate::support::raw(router.address, request.as_bytes(), Duration::from_secs(3)).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{head:?} -> {answer:?}");
    }
}
