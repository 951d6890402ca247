//! Programs for containers and for the crash test, inside the test binary: it starts itself with `--exact`. Without their
//! variables they return at once.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::platform::Platform;

/// The command line that runs one of the roles below.
pub fn command(role: &str) -> Value {
    let own = std::env::current_exe().unwrap();
    json!([own, "--exact", format!("roles::{role}"), "--nocapture"])
}

/// Answers HTTP requests at `LISTEN`: 200, or 503 while the file `SICK` exists.
#[test]
fn http_server() {
    let sick = PathBuf::from(std::env::var("SICK").unwrap_or_else(|_| "/nonexistent".to_owned()));
    let Ok(address) = std::env::var("LISTEN") else { return };
    let socket = TcpListener::bind(address).unwrap();
    for stream in socket.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let status = if sick.exists() { "503 Sick" } else { "200 OK" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
}

/// A whole platform on `DATA`, until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn platform() {
    let Some(data) = std::env::var_os("DATA").map(PathBuf::from) else { return };
    let _platform = Platform::start_on(&data, |_| {}).await;
    std::future::pending::<()>().await;
}
