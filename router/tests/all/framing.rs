//! Requests that two parsers could read differently never reach an endpoint.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{Endpoint, PATIENCE, TestRouter, raw, read_until_closed, table};

#[tokio::test]
async fn ambiguous_requests_get_400_and_the_connection_ends() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    let heads = [
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding : chunked",
        "X: a\r\n folded: b",
        "X: a\0b",
        "X: a\nY: b",
        "Host: second",
        "Content-Length: +1",
    ];
    for head in heads {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        let (answer, closed) = raw(router.address, request.as_bytes(), PATIENCE).await;
        assert!(answer.starts_with("HTTP/1.1 400") && closed, "{head:?} -> {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{head:?} -> {answer:?}");
    }
    let (answer, closed) = raw(router.address, b"GET / HTTP/1.1\r\n\r\n", PATIENCE).await;
    assert!(answer.starts_with("HTTP/1.1 400") && closed, "no host -> {answer:?}");
    assert_eq!(v1.served.load(Relaxed), 0);
}

#[tokio::test]
async fn a_bad_chunk_ends_the_exchange() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    for chunks in ["zz\r\nx\r\n", "1\r\nxyz\r\n", "1\nx\r\n", "0x1\r\nx\r\n"] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
        );
        let (answer, closed) = raw(router.address, request.as_bytes(), PATIENCE).await;
        assert!(answer.starts_with("HTTP/1.1 400") && closed, "{chunks:?} -> {answer:?}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{chunks:?} -> {answer:?}");
    }
}

#[tokio::test]
async fn earlier_requests_of_the_connection_are_still_answered() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    let (answer, closed) = raw(router.address, bytes, PATIENCE).await;
    assert!(closed && answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 400"), "{answer:?}");
}

#[tokio::test]
async fn too_many_or_too_long_headers_are_refused() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    let many = "x: 1\r\n".repeat(200);
    let long = format!("x: {}\r\n", "a".repeat(200_000));
    for head in [many, long] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{head}\r\n");
        let mut stream = TcpStream::connect(router.address).await.unwrap();
        // The answer may come before everything is sent.
        let _ = stream.write_all(request.as_bytes()).await;
        let (answer, closed) = read_until_closed(&mut stream, PATIENCE).await;
        assert!(closed && (answer.is_empty() || answer.starts_with("HTTP/1.1 431")), "{answer:?}");
    }
    assert_eq!(v1.served.load(Relaxed), 0);
}

#[tokio::test]
async fn a_client_that_takes_forever_over_its_headers_is_closed() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start_with(&table(1, &[("v1", 1, &[v1.address])]), |options| {
        options.limits.header_read = Duration::from_millis(300);
    })
    .await;
    let mut stream = TcpStream::connect(router.address).await.unwrap();
    let started = std::time::Instant::now();
    let mut closed = false;
    for byte in b"GET / HTTP/1.1\r\nx-slow: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle()
    {
        closed = stream.write_all(&[*byte]).await.is_err();
        let (_, ended) = read_until_closed(&mut stream, Duration::from_millis(20)).await;
        if closed || ended || started.elapsed() > PATIENCE {
            closed |= ended;
            break;
        }
    }
    assert!(closed && started.elapsed() < Duration::from_secs(5));
    // A connection between two requests has more time.
    let mut idle = TcpStream::connect(router.address).await.unwrap();
    assert!(!read_until_closed(&mut idle, Duration::from_millis(600)).await.1);
}

#[tokio::test]
async fn connect_is_not_served() {
    let v1 = Endpoint::named("v1").await;
    let router = TestRouter::start(&table(1, &[("v1", 1, &[v1.address])])).await;
    let (answer, _) =
        raw(router.address, b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", Duration::from_millis(500)).await;
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer:?}");
}
