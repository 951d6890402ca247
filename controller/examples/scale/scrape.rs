//! Reads the controller's metrics.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Lines of one answer.
pub struct Metrics(String);

impl Metrics {
    /// The sum of all series of a metric whose labels hold that text.
    pub fn sum(&self, name: &str, labels: &str) -> f64 {
        let lines = self.0.lines().filter(|line| line.starts_with(name) && line.contains(labels));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

/// Asks once.
pub async fn scrape(admin: SocketAddr) -> anyhow::Result<Metrics> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    Ok(Metrics(body.to_owned()))
}
