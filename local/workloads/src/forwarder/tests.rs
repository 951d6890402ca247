//! The forwarder over real sockets on loopback addresses.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Limits, Listeners, Targets};
use crate::key::Key;

const PATIENCE: Duration = Duration::from_secs(10);

/// An address that no other test and no other run of them uses.
fn address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [low, high, ..] = std::process::id().to_le_bytes();
    Ipv4Addr::new(127, 64 + (high & 0x3f), low, NEXT.fetch_add(1, Ordering::Relaxed))
}

fn service(name: &str) -> Key {
    Key::new("default", name)
}

fn listeners() -> (Listeners, DropGuard) {
    let token = CancellationToken::new();
    let limits = Limits { connections: 64, held: 2 };
    (Listeners::new(limits, token.clone()), token.drop_guard())
}

/// A server that says its name, then sends back in one piece all it got, once the other side has finished.
async fn server(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((address(), 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(name.as_bytes()).await.unwrap();
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                stream.write_all(&all).await.unwrap();
            });
        }
    });
    at
}

/// An address where nobody listens.
async fn refusing() -> SocketAddr {
    TcpListener::bind((address(), 0)).await.unwrap().local_addr().unwrap()
}

async fn table(ready: &[SocketAddr], draining: &[SocketAddr]) -> (SocketAddr, BTreeMap<SocketAddr, Targets>) {
    let at = refusing().await;
    (at, BTreeMap::from([(at, Targets { ready: ready.to_vec(), draining: draining.to_vec() })]))
}

async fn greeting(stream: &mut TcpStream) -> String {
    let mut name = [0; 1];
    timeout(PATIENCE, stream.read_exact(&mut name)).await.unwrap().unwrap();
    String::from_utf8_lossy(&name).into_owned()
}

#[tokio::test]
async fn passes_bytes_both_ways_and_keeps_half_closed_connections() {
    let (listeners, _guard) = listeners();
    let (at, table) = table(&[server("a").await], &[]).await;
    assert!(listeners.apply(&service("s"), &table).await.is_empty());
    let mut client = TcpStream::connect(at).await.unwrap();
    assert_eq!(greeting(&mut client).await, "a");
    client.write_all(&vec![7; 300_000]).await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, client.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer.len(), 300_000, "the answer comes after our side was closed");
}

#[tokio::test]
async fn tries_another_endpoint_when_one_refuses() {
    let (listeners, _guard) = listeners();
    let (at, table) = table(&[refusing().await, server("b").await], &[]).await;
    listeners.apply(&service("s"), &table).await;
    for _ in 0..8 {
        assert_eq!(greeting(&mut TcpStream::connect(at).await.unwrap()).await, "b");
    }
}

#[tokio::test]
async fn uses_draining_endpoints_only_when_no_ready_one_is_left() {
    let (listeners, _guard) = listeners();
    let (ready, draining) = (server("r").await, server("d").await);
    let (at, mut table) = table(&[ready], &[draining]).await;
    listeners.apply(&service("s"), &table).await;
    assert_eq!(greeting(&mut TcpStream::connect(at).await.unwrap()).await, "r");
    table.insert(at, Targets { ready: Vec::new(), draining: vec![draining] });
    listeners.apply(&service("s"), &table).await;
    assert_eq!(greeting(&mut TcpStream::connect(at).await.unwrap()).await, "d");
}

#[tokio::test]
async fn holds_a_connection_until_an_endpoint_appears_but_not_too_many() {
    let (listeners, _guard) = listeners();
    let (at, mut table) = table(&[], &[]).await;
    listeners.apply(&service("s"), &table).await;
    let mut held = [TcpStream::connect(at).await.unwrap(), TcpStream::connect(at).await.unwrap()];
    // The first two are held once the third is turned away.
    let mut third = TcpStream::connect(at).await.unwrap();
    let closed = timeout(PATIENCE, third.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(_)), "beyond the bound connections are closed");
    table.insert(at, Targets { ready: vec![server("c").await], draining: Vec::new() });
    listeners.apply(&service("s"), &table).await;
    for client in &mut held {
        assert_eq!(greeting(client).await, "c");
    }
}

#[tokio::test]
async fn open_connections_outlive_their_endpoint_and_their_service() {
    let (listeners, _guard) = listeners();
    let (at, mut table) = table(&[server("a").await], &[]).await;
    listeners.apply(&service("s"), &table).await;
    let mut client = TcpStream::connect(at).await.unwrap();
    assert_eq!(greeting(&mut client).await, "a");
    table.insert(at, Targets { ready: vec![server("b").await], draining: Vec::new() });
    listeners.apply(&service("s"), &table).await;
    assert_eq!(greeting(&mut TcpStream::connect(at).await.unwrap()).await, "b");
    listeners.apply(&service("s"), &BTreeMap::new()).await;
    assert!(TcpStream::connect(at).await.is_err(), "nobody listens any more");
    client.write_all(b"still here").await.unwrap();
    client.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, client.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "still here");
}

#[tokio::test]
async fn an_address_goes_from_one_service_to_the_next() {
    let (listeners, _guard) = listeners();
    let (at, table) = table(&[server("a").await], &[]).await;
    assert!(listeners.apply(&service("old"), &table).await.is_empty());
    let refused = listeners.apply(&service("new"), &table).await;
    assert_eq!(refused[0].error.kind(), std::io::ErrorKind::AddrInUse);
    listeners.apply(&service("old"), &BTreeMap::new()).await;
    assert!(listeners.apply(&service("new"), &table).await.is_empty());
    assert_eq!(greeting(&mut TcpStream::connect(at).await.unwrap()).await, "a");
}

#[tokio::test]
async fn everything_ends_with_the_token() {
    let (listeners, guard) = listeners();
    let (at, table) = table(&[server("a").await], &[]).await;
    listeners.apply(&service("s"), &table).await;
    let mut client = TcpStream::connect(at).await.unwrap();
    assert_eq!(greeting(&mut client).await, "a");
    drop(guard);
    timeout(PATIENCE, listeners.closed()).await.unwrap();
}
