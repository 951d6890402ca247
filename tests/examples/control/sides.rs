//! The two servers, each started and reachable.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use modelway_tests::cluster::{Cluster, Level, Options};
use tokio::process::{Child, Command};

/// Longest wait for a server.
const START: Duration = Duration::from_mins(2);

/// One server.
pub struct Side {
    pub name: &'static str,
    pub client: Client,
    pub start_seconds: f64,
    running: Running,
}

enum Running {
    Embedded { process: Box<Child>, _data: tempfile::TempDir },
    Real(Box<Cluster>),
}

/// `modelway up`: the API with everything else that the platform is.
pub async fn embedded(binary: &Path) -> anyhow::Result<Side> {
    let data = tempfile::tempdir()?;
    let start = Instant::now();
    let mut command = Command::new(binary);
    command.args(["up", "--api-port", "0", "--registry-port", "0", "--data-dir"]).arg(data.path());
    let process =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    let file = data.path().join("kubeconfig");
    loop {
        if let Ok(kubeconfig) = Kubeconfig::read_from(&file) {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            let client = Client::try_from(config)?;
            if client.apiserver_version().await.is_ok() {
                let start_seconds = start.elapsed().as_secs_f64();
                let running = Running::Embedded { process: Box::new(process), _data: data };
                return Ok(Side { name: "embedded", client, start_seconds, running });
            }
        }
        if start.elapsed() > START {
            bail!("no answer within {START:?}");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// etcd, which waits for the disk, and the API server.
pub async fn real() -> anyhow::Result<Side> {
    // Builds the programs, where they are missing: that is no part of a start.
    drop(Cluster::start(Level::Api).await?);
    let start = Instant::now();
    let cluster = Cluster::start(Options { level: Level::Api, fsync: true }).await?;
    let client = cluster.client().await?;
    client.apiserver_version().await?;
    let start_seconds = start.elapsed().as_secs_f64();
    Ok(Side { name: "real", client, start_seconds, running: Running::Real(Box::new(cluster)) })
}

impl Side {
    /// Resident memory of all processes of the server.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        let processes = match &self.running {
            Running::Embedded { process, .. } => vec![process.id().context("it has ended")?],
            Running::Real(cluster) => servers_of(cluster)?,
        };
        processes.into_iter().map(resident).sum()
    }
}

/// The processes whose arguments name the cluster's state: etcd and the API server.
fn servers_of(cluster: &Cluster) -> anyhow::Result<Vec<u32>> {
    let state = cluster.state_dir().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.split('\0');
        // Not the shells that keep them running, whose arguments are the same and more.
        let is_server = words.next().is_some_and(|program| program.ends_with("/kube"))
            && words.next().is_some_and(|name| name == "etcd" || name == "apiserver");
        if is_server && line.contains(&state) {
            found.push(process);
        }
    }
    anyhow::ensure!(found.len() == 2, "expected etcd and the API server, found processes {found:?}");
    Ok(found)
}

/// `VmRSS` of proc(5), in bytes.
fn resident(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}
