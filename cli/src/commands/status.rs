//! `modelway status`: whether the platform of a data folder runs.

use modelway_local::instance::Instance;
use serde_json::json;

use super::up::describe;
use crate::args::{StatusArguments, SummaryOutput};
use crate::exit::{Failure, fail};
use crate::{output, processes};

pub fn run(arguments: &StatusArguments) -> anyhow::Result<()> {
    let running = Instance::find(&arguments.data_dir);
    if arguments.output == SummaryOutput::Json {
        let memory = running.as_ref().and_then(|instance| processes::resident_bytes(instance.pid));
        output::json(&json!({"running": running.is_some(), "instance": running, "rssBytes": memory}));
        return Ok(());
    }
    let Some(instance) = running else {
        let message = format!("no platform runs on {}; start one with `modelway up`", arguments.data_dir.display());
        return Err(fail(Failure::Unreachable, message));
    };
    describe(&instance, &arguments.data_dir);
    if let Some(bytes) = processes::resident_bytes(instance.pid) {
        output::line(&format!("memory     {} MB", bytes / 1_000_000));
    }
    Ok(())
}
