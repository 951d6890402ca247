//! `modelway quickstart`: from two training jobs to a 90/10 split that scales and is tuned, with real traffic, on this machine.

mod cluster;
mod document;
mod scaling;
mod story;
mod summary;
mod tally;
mod traffic;
mod tuned;
mod tuning;
mod waits;
mod way;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use modelway_local::instance::Instance;

use crate::args::{QuickstartArguments, SummaryOutput};
use crate::output;
use crate::platform::Running;
use crate::processes::{self, PeakMemory};
use crate::progress::{self, Progress};
use crate::stop::Stop;
use document::Document;
use story::Story;

/// What a signal before the end leaves to do.
const STOPPED: &str = "stopped by a signal; run the same command again to go on";

/// A platform that this run started, or one that ran before.
enum Host {
    Own(Box<Running>),
    Joined(Instance),
}

/// Runs the story, shows the summary, and leaves the platform as asked.
pub async fn run(arguments: QuickstartArguments) -> anyhow::Result<()> {
    let stop = Stop::listen()?;
    let start = Instant::now();
    let progress = Progress::new();
    if arguments.context.is_some() || arguments.kubeconfig.is_some() {
        return Box::pin(cluster::run(&arguments, progress, start, stop)).await;
    }
    let resumed = arguments.platform.data_dir.join("format.json").exists();
    let mut host = start_or_join(&arguments, progress, resumed).await?;
    let stage = stage(&host).await?;
    let outcome = tokio::select! {
        outcome = tell(stage, &arguments, progress, start, resumed) => outcome,
        () = stop.cancelled() => Err(stop.error(STOPPED)),
        error = failed(&mut host) => Err(error),
    };
    let stays = match &host {
        Host::Joined(_) => true,
        Host::Own(_) => {
            outcome.is_ok()
                && (arguments.keep || std::io::stdout().is_terminal())
                && arguments.output == SummaryOutput::Table
        }
    };
    if let Ok(document) = &outcome {
        show(document, &arguments, stays, &host);
    }
    if let Host::Own(running) = host {
        end(*running, &arguments, stays, &stop).await?;
    }
    outcome.map(|_| ())
}

async fn end(mut running: Running, arguments: &QuickstartArguments, stays: bool, stop: &Stop) -> anyhow::Result<()> {
    if stays && !arguments.keep {
        tokio::select! { () = stop.cancelled() => {}, error = running.failed() => return Err(error) }
    }
    running.stop().await;
    if arguments.keep {
        hand_over(arguments)?;
    }
    Ok(())
}

/// `--keep`: the same state goes on in a background process.
fn hand_over(arguments: &QuickstartArguments) -> anyhow::Result<()> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(["up", "--detach", "--data-dir"])
        .arg(&arguments.platform.data_dir)
        .stdout(std::process::Stdio::null());
    let status = command.status().context("cannot start the platform in the background")?;
    anyhow::ensure!(status.success(), "the platform did not start in the background ({status})");
    Ok(())
}

async fn start_or_join(arguments: &QuickstartArguments, progress: Progress, resumed: bool) -> anyhow::Result<Host> {
    if let Some(instance) = Instance::find(&arguments.platform.data_dir) {
        progress::say(&format!("platform   joined the one that runs (process {})", instance.pid));
        return Ok(Host::Joined(instance));
    }
    let step = progress.step("platform");
    let running = Running::start(&arguments.platform).await?;
    let how = if resumed { "ready; resumes what the data folder holds" } else { "ready; fresh data folder" };
    let state = running.platform.data_dir().display().to_string();
    step.done(&format!("{how} ({state})"));
    if running.platform.swept() > 0 {
        progress::say(&format!("           ended {} processes of an earlier platform", running.platform.swept()));
    }
    Ok(Host::Own(Box::new(running)))
}

async fn failed(host: &mut Host) -> anyhow::Error {
    match host {
        Host::Own(running) => running.failed().await,
        Host::Joined(_) => std::future::pending().await,
    }
}

/// What the story needs to know of its host.
struct Stage {
    client: kube::Client,
    /// Process whose memory is the platform's.
    platform: u32,
    /// Processes whose descendants belong to the platform.
    roots: Vec<u32>,
    ready_after: Option<Duration>,
}

async fn stage(host: &Host) -> anyhow::Result<Stage> {
    let own = std::process::id();
    match host {
        Host::Own(running) => Ok(Stage {
            client: running.platform.client("default"),
            platform: own,
            roots: vec![own],
            ready_after: Some(running.ready_after),
        }),
        Host::Joined(instance) => {
            let kubeconfig = Kubeconfig::read_from(&instance.kubeconfig)?;
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            let client = kube::Client::try_from(config)?;
            Ok(Stage { client, platform: instance.pid, roots: vec![own, instance.pid], ready_after: None })
        }
    }
}

async fn tell(
    stage: Stage,
    arguments: &QuickstartArguments,
    progress: Progress,
    start: Instant,
    resumed: bool,
) -> anyhow::Result<Document> {
    let mut document = Document {
        platform_idle_rss_bytes: processes::resident_bytes(stage.platform),
        start: if resumed { "resumed" } else { "fresh" },
        ..Document::default()
    };
    if let Some(ready_after) = stage.ready_after {
        document.seconds.insert("platformReady", ready_after.as_secs_f64());
    }
    let peak = PeakMemory::watch(stage.roots);
    let timeout = Duration::from_secs(arguments.timeout);
    let story = Story {
        client: stage.client,
        namespace: "default".to_owned(),
        image: modelway_api::image(),
        progress,
        start,
        timeout,
        users: arguments.users,
        seed: arguments.seed,
        tunes: !arguments.no_tuning,
        data_dir: Some(arguments.platform.data_dir.clone()),
    };
    story.tell(arguments.first_answer, &mut document).await?;
    document.seconds.insert("total", start.elapsed().as_secs_f64());
    document.peak_rss_bytes = Some(peak.bytes());
    Ok(document)
}

/// How the user calls this program: by its name when that is on the PATH, else by its path from here.
fn program() -> String {
    let name = "modelway";
    let Ok(own) = std::env::current_exe() else { return name.to_owned() };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_own = |folder: PathBuf| folder.join(name).canonicalize().is_ok_and(|found| found == own);
    if std::env::split_paths(&paths).any(is_own) {
        return name.to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    match own.strip_prefix(here) {
        // A name alone would be looked for on the PATH.
        Ok(relative) if relative.parent().is_some_and(|parent| parent.as_os_str().is_empty()) => {
            format!("./{}", relative.display())
        }
        Ok(relative) => relative.display().to_string(),
        Err(_) => own.display().to_string(),
    }
}

fn show(document: &Document, arguments: &QuickstartArguments, stays: bool, host: &Host) {
    if arguments.output == SummaryOutput::Json {
        if let Ok(value) = serde_json::to_value(document) {
            output::json(&value);
        }
        return;
    }
    let data_dir = arguments.platform.data_dir.display().to_string();
    let foreground = matches!(host, Host::Own(_)) && !arguments.keep;
    output::line(&summary::render(
        document,
        &summary::Hints {
            program: &program(),
            data_dir: &data_dir,
            stays: stays || arguments.keep,
            foreground,
            cluster: None,
        },
    ));
}
