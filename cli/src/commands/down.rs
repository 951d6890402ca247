//! `modelway down`: ends the platform of a data folder; `--purge` also its state.

use std::time::{Duration, Instant};

use modelway_local::DataDir;
use modelway_local::instance::Instance;
use rustix::process::{Pid, Signal, kill_process};

use crate::args::DownArguments;
use crate::exit::{Failure, fail};
use crate::output;

/// A platform gets this long to end its pods, then it is killed: the pods' shims do the rest.
const GRACE: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_millis(50);

pub async fn run(arguments: &DownArguments) -> anyhow::Result<()> {
    let running = Instance::find(&arguments.data_dir);
    if let Some(instance) = &running {
        end(instance).await?;
        output::line(&format!("platform (process {}) stopped", instance.pid));
    }
    if !arguments.data_dir.join("format.json").exists() {
        if running.is_none() {
            output::line(&format!("no platform runs on {}, and there is no state", arguments.data_dir.display()));
        }
        return Ok(());
    }
    // A killed platform cannot have swept; whoever holds the lock may.
    let data = DataDir::open(&arguments.data_dir)?;
    let path = data.path().to_owned();
    let swept = tokio::task::spawn_blocking(move || modelway_node::sweep(&path)).await??;
    if swept > 0 {
        output::line(&format!("ended {swept} processes that an earlier platform left behind"));
    }
    if arguments.purge {
        data.purge()?;
        output::line(&format!("{} deleted", arguments.data_dir.display()));
    } else if running.is_none() {
        output::line(&format!("no platform runs on {}; --purge deletes its state", arguments.data_dir.display()));
    }
    Ok(())
}

async fn end(instance: &Instance) -> anyhow::Result<()> {
    let pid = i32::try_from(instance.pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| fail(Failure::Failed, format!("{} is not a process number", instance.pid)))?;
    kill_process(pid, Signal::TERM)?;
    let start = Instant::now();
    while instance.is_alive() {
        if start.elapsed() > GRACE {
            kill_process(pid, Signal::KILL)?;
            output::line(&format!("platform did not stop within {} s and was killed", GRACE.as_secs()));
            tokio::time::sleep(PERIOD * 4).await;
            return Ok(());
        }
        tokio::time::sleep(PERIOD).await;
    }
    Ok(())
}
