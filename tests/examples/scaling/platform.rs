//! `modelway up`, and what it uses.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use modelway_api::Inference;
use serde_json::Value;
use tokio::process::{Child, Command};

/// Longest wait for anything that should happen.
pub const WAIT: Duration = Duration::from_mins(5);

/// Ticks of proc(5) in a second: `USER_HZ`, which is 100 on every Linux.
const TICKS: u64 = 100;

/// A running platform; it ends with this.
pub struct Platform {
    pub client: Client,
    process: Child,
    _data: tempfile::TempDir,
}

/// Starts one.
pub async fn start(binary: &Path) -> anyhow::Result<Platform> {
    let data = tempfile::tempdir()?;
    let mut command = Command::new(binary);
    command.args(["up", "--api-port", "0", "--registry-port", "0", "--data-dir"]).arg(data.path());
    let process =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    let (start, file) = (Instant::now(), data.path().join("kubeconfig"));
    loop {
        if let Ok(kubeconfig) = Kubeconfig::read_from(&file) {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            let client = Client::try_from(config)?;
            if client.apiserver_version().await.is_ok() {
                return Ok(Platform { client, process, _data: data });
            }
        }
        if start.elapsed() > WAIT {
            bail!("the platform does not start");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Platform {
    /// Applies an Inference.
    pub async fn apply(&self, inference: &Value) -> anyhow::Result<()> {
        let api: Api<Inference> = Api::namespaced(self.client.clone(), "default");
        let name = inference["metadata"]["name"].as_str().context("a name")?;
        api.patch(name, &PatchParams::apply("bench"), &Patch::Apply(inference)).await?;
        Ok(())
    }

    /// Waits for a look at an Inference.
    pub async fn until(&self, name: &str, wanted: impl Fn(&Inference) -> bool) -> anyhow::Result<Inference> {
        let api: Api<Inference> = Api::namespaced(self.client.clone(), "default");
        let start = Instant::now();
        loop {
            let inference = api.get(name).await?;
            if wanted(&inference) {
                return Ok(inference);
            }
            anyhow::ensure!(start.elapsed() < WAIT, "{name} is not as wanted: {:?}", inference.status);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Processor time of the platform's process, `utime + stime` of proc(5).
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id().context("it has ended")?))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
        Ok(Duration::from_millis((ticks(11) + ticks(12)) * 1_000 / TICKS))
    }
}

/// Whether the Inference answers, or would.
pub fn is_ready(inference: &Inference) -> bool {
    let status = inference.status.clone().unwrap_or_default();
    status.observed_generation == inference.metadata.generation
        && status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
