//! A running shim, seen from the platform.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use crate::context::Context;
use crate::shim::{ExitRecord, Order, ShimSpec};
use crate::sweep::{POD_MARK, sweep_pod};

/// A shim reads its specification at once, or it is broken.
const HANDOVER_LIMIT: Duration = Duration::from_secs(10);

/// The platform's end of a run. Dropping it makes the shim kill the container.
#[derive(Debug)]
pub struct RunHandle {
    orders: ChildStdin,
    pid: i32,
}

impl RunHandle {
    /// The process above everything in the container.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Passes an order on. A shim that is gone has nothing left to stop.
    pub async fn order(&mut self, order: Order) {
        let _ = self.orders.write_all(order.line()).await;
        let _ = self.orders.flush().await;
    }
}

/// The part of a run that waits for its end.
#[derive(Debug)]
pub struct RunEnd {
    child: Child,
    exit_file: PathBuf,
    /// The files of its control groups.
    groups: Vec<PathBuf>,
    uid: String,
    started: Timestamp,
}

impl RunEnd {
    /// Waits until nothing of the container is left, and says how it ended.
    pub async fn wait(mut self) -> ExitRecord {
        let status = self.child.wait().await;
        if let Ok(record) = ExitRecord::read(&self.exit_file) {
            return record;
        }
        tracing::warn!(
            uid = self.uid,
            ?status,
            "a shim ended without saying how its container did; its processes are killed"
        );
        let (uid, groups) = (self.uid.clone(), self.groups.clone());
        // Another container of the pod may go with it; a shim is only ever killed by somebody from outside.
        if !matches!(tokio::task::spawn_blocking(move || sweep_pod(&uid, &groups)).await, Ok(Ok(_))) {
            tracing::warn!(uid = self.uid, "some processes of the pod may be left; they go at the next start");
        }
        let record = ExitRecord { platform_lost: false, ..ExitRecord::lost(self.started, Timestamp::now()) };
        let _ = record.write(&self.exit_file);
        record
    }
}

/// Starts a shim for `spec`. `label` is what people see in the process list.
pub async fn start(context: &Context, uid: &str, label: &str, spec: &ShimSpec) -> io::Result<(RunHandle, RunEnd)> {
    let mut child = Command::new(&context.options.executable)
        .args(&context.options.executable_args)
        .arg(label)
        .env_clear()
        .env(POD_MARK, uid)
        .env(&context.data_mark.0, &context.data_mark.1)
        .current_dir(context.layout.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let lost = || io::Error::other("the shim ended at once");
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or_else(lost)?;
    let mut orders = child.stdin.take().ok_or_else(lost)?;
    let mut line = serde_json::to_vec(spec)?;
    line.push(b'\n');
    tokio::time::timeout(HANDOVER_LIMIT, orders.write_all(&line)).await.map_err(io::Error::from)??;
    let end = RunEnd {
        child,
        exit_file: spec.exit_file.clone(),
        groups: spec.limits.groups.clone(),
        uid: uid.to_owned(),
        started: Timestamp::now(),
    };
    Ok((RunHandle { orders, pid }, end))
}
