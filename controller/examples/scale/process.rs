//! The controller in a process of its own, and what the kernel says about it.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::scrape::scrape;

/// Ticks of the kernel's CPU accounting in a second, as it tells them to programs.
const TICKS: u32 = 100;
/// Longest wait for the admin port.
const START: Duration = Duration::from_secs(30);

/// A running controller; it is killed when this is dropped.
pub struct Controller {
    child: Child,
    admin: SocketAddr,
}

impl Drop for Controller {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Controller {
    /// Starts one and waits for its admin port.
    pub async fn start(binary: Option<&Path>, kubeconfig: &Path) -> anyhow::Result<Self> {
        let admin = free_address()?;
        let mut command = if let Some(binary) = binary {
            let mut command = Command::new(binary);
            command.args(["controller", "--default-registry", "127.0.0.1:5553", "--leader-elect", "--admin"]);
            command
        } else {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("--controller");
            command
        };
        command.arg(admin.to_string()).arg("--kubeconfig").arg(kubeconfig).stdout(Stdio::null());
        let child = command.spawn().context("cannot start the controller")?;
        let controller = Self { child, admin };
        let began = Instant::now();
        while scrape(admin).await.is_err() {
            ensure!(began.elapsed() < START, "the controller does not answer on {admin}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(controller)
    }

    /// Where it tells its metrics.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// CPU time used so far.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The program's name may hold anything but ends with the last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')').context("no stat")?.1.split_whitespace().collect();
        let ticks =
            |index: usize| fields.get(index).context("a short stat")?.parse::<u32>().map_err(anyhow::Error::from);
        Ok(Duration::from_secs(1) * (ticks(11)? + ticks(12)?) / TICKS)
    }

    /// A size from the process's status, in bytes.
    pub fn resident(&self, field: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with(field)).context("no such field")?;
        let kilobytes: u64 = line.split_whitespace().nth(1).context("no size")?.parse()?;
        Ok(kilobytes * 1_024)
    }

    /// Asks it to end, so that the next one need not wait for its lease.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < START, "the controller does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
