//! `modelway up`: the platform in the foreground, or in the background.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use modelway_local::instance::Instance;
use rustix::process::setsid;

use crate::args::{PlatformArguments, UpArguments};
use crate::exit::{Failure, fail};
use crate::platform::Running;
use crate::{output, stop};

/// How long a platform in the background may take to be ready.
const READY: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_millis(20);

pub async fn run(arguments: UpArguments) -> anyhow::Result<()> {
    if arguments.detach {
        return detach(&arguments.platform).await;
    }
    let stop = stop::on_signal()?;
    let mut running = Running::start(&arguments.platform).await?;
    if running.platform.swept() > 0 {
        output::line(&format!("ended {} processes that an earlier platform left behind", running.platform.swept()));
    }
    if let Some(instance) = Instance::find(running.platform.data_dir()) {
        describe(&instance, running.platform.data_dir());
    }
    let failed = tokio::select! {
        () = stop.cancelled() => None,
        error = running.failed() => Some(error),
    };
    running.stop().await;
    failed.map_or(Ok(()), Err)
}

/// Where the platform is, and how to look at it.
pub fn describe(instance: &Instance, data_dir: &Path) {
    let kubeconfig = instance.kubeconfig.display();
    output::line(&format!("platform   ready, process {}, state in {}", instance.pid, data_dir.display()));
    output::line(&format!(
        "api        https://127.0.0.1:{}  (kubectl --kubeconfig {kubeconfig} get inference)",
        instance.api_port
    ));
    output::line(&format!("registry   127.0.0.1:{}", instance.registry_port));
}

async fn detach(platform: &PlatformArguments) -> anyhow::Result<()> {
    if let Some(instance) = Instance::find(&platform.data_dir) {
        describe(&instance, &platform.data_dir);
        return Ok(());
    }
    std::fs::create_dir_all(&platform.data_dir).with_context(|| {
        format!("cannot use {} as data folder; choose another with --data-dir", platform.data_dir.display())
    })?;
    let log_path = platform.data_dir.join("platform.log");
    let log = std::fs::File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;
    let mut child = background(platform, log)?;
    let start = Instant::now();
    loop {
        if let Some(instance) = Instance::find(&platform.data_dir).filter(|instance| instance.pid == child.id()) {
            describe(&instance, &platform.data_dir);
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            return Err(fail(Failure::Failed, format!("the platform ended ({status}): {}", last_error(&log_path))));
        }
        if start.elapsed() > READY {
            let message = format!("the platform was not ready after {} s; see {}", READY.as_secs(), log_path.display());
            return Err(fail(Failure::TimedOut, message));
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// The same program in a session of its own, so that the terminal's Ctrl-C does not reach it.
fn background(platform: &PlatformArguments, log: std::fs::File) -> anyhow::Result<std::process::Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["up", "--data-dir"]).arg(&platform.data_dir);
    for (flag, port) in [("--api-port", platform.api_port), ("--registry-port", platform.registry_port)] {
        if let Some(port) = port {
            command.args([flag, &port.to_string()]);
        }
    }
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    new_session(&mut command);
    command.spawn().context("cannot start the platform in the background")
}

#[expect(unsafe_code, reason = "pre_exec: setsid is async-signal-safe and allocates nothing")]
fn new_session(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure runs between fork and exec and makes one system call.
    unsafe {
        command.pre_exec(|| setsid().map(|_| ()).map_err(Into::into));
    }
}

fn last_error(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
    line.trim_start_matches("error: ").to_owned()
}
