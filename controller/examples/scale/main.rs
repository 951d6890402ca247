//! How the controller bears many objects: `cargo run --release -p modelway-controller --example scale -- --help`.
//!
//! Fills an API server (its own embedded one, or that of a kubeconfig without workload controllers) with Inferences,
//! plays the workload controllers and kubelets, starts a controller in a process of its own, and prints one JSON
//! document: time of the first reconciliation and of a full resync, and CPU, requests and memory at rest.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]

mod fill;
mod process;
mod scrape;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use modelway_apiserver::{ApiServer, Options};
use modelway_controller::{ControllerOptions, LeaderElection, Settings, Timing};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use fill::Plan;
use process::Controller;
use scrape::scrape;

/// Longest wait for one phase.
const LIMIT: Duration = Duration::from_mins(10);
/// How long the controller is watched at rest.
const REST: Duration = Duration::from_secs(30);

/// What is asked for on the command line.
struct Arguments {
    kubeconfig: Option<PathBuf>,
    binary: Option<PathBuf>,
    plan: Plan,
    rest: Duration,
    /// Run as the controller, with that admin address.
    controller: Option<String>,
}

const HELP: &str = "options: --kubeconfig FILE (else an embedded API server), --binary FILE of modelway (else this \
                    program), --inferences 1000, --replicas 4 (and a router: pods of each), --namespaces 10, --rest 30";

#[tokio::main]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Box::pin(start()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn start() -> anyhow::Result<()> {
    let arguments = arguments()?;
    if let Some(admin) = &arguments.controller {
        let kubeconfig = arguments.kubeconfig.clone().context("a controller needs --kubeconfig")?;
        return Box::pin(control(connect(&kubeconfig).await?, admin)).await;
    }
    let folder = tempfile::tempdir()?;
    let kubeconfig = match &arguments.kubeconfig {
        Some(file) => file.clone(),
        None => embedded(folder.path()).await?,
    };
    let client = connect(&kubeconfig).await?;
    Box::pin(measure(&client, &kubeconfig, &arguments)).await
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut arguments =
        Arguments { kubeconfig: None, binary: None, plan: Plan::default(), rest: REST, controller: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--help" {
            bail!("{HELP}");
        }
        let value = words.next().with_context(|| format!("{word} needs a value; {HELP}"))?;
        match word.as_str() {
            "--kubeconfig" => arguments.kubeconfig = Some(value.into()),
            "--binary" => arguments.binary = Some(value.into()),
            "--inferences" => arguments.plan.inferences = value.parse()?,
            "--replicas" => arguments.plan.replicas = value.parse()?,
            "--namespaces" => arguments.plan.namespaces = value.parse()?,
            "--rest" => arguments.rest = Duration::from_secs(value.parse()?),
            "--controller" => arguments.controller = Some(value),
            _ => bail!("unknown option {word}; {HELP}"),
        }
    }
    Ok(arguments)
}

async fn connect(kubeconfig: &std::path::Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Starts an API server in this process. It serves until the program ends.
async fn embedded(folder: &std::path::Path) -> anyhow::Result<PathBuf> {
    let server = ApiServer::open(Options::new(folder))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(&kubeconfig, server.kubeconfig(listener.local_addr()?))?;
    tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await });
    Ok(kubeconfig)
}

/// The controller's process.
async fn control(client: Client, admin: &str) -> anyhow::Result<()> {
    let settings = Settings { default_registry: Some("127.0.0.1:5553".to_owned()), ..Settings::default() };
    let election = LeaderElection {
        namespace: "default".to_owned(),
        name: "modelway-controller".to_owned(),
        identity: format!("scale-{:016x}", rand::random::<u64>()),
        timing: Timing::default(),
    };
    let admin = Some(TcpListener::bind(admin).await?);
    let options = ControllerOptions { settings, election: Some(election), admin, ..ControllerOptions::new(client) };
    let cancel = CancellationToken::new();
    let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let stopped = cancel.clone();
    tokio::spawn(async move {
        stop.recv().await;
        stopped.cancel();
    });
    Ok(Box::pin(modelway_controller::run(options, cancel)).await?)
}

async fn measure(client: &Client, kubeconfig: &std::path::Path, arguments: &Arguments) -> anyhow::Result<()> {
    let plan = &arguments.plan;
    fill::install(client).await?;
    fill::namespaces(client, plan).await?;
    let controller = Controller::start(arguments.binary.as_deref(), kubeconfig).await?;
    let began = Instant::now();
    fill::inferences(client, plan).await?;
    eprintln!("{} Inferences created in {:?}", plan.inferences, began.elapsed());
    fill::until_deployed(client, plan, LIMIT).await?;
    let deployed = began.elapsed();
    eprintln!("everything made after {deployed:?}");
    fill::workloads(client, plan).await?;
    fill::until_ready(client, plan, LIMIT).await?;
    let ready = began.elapsed();
    eprintln!("everything ready after {ready:?}");
    controller.stop().await?;

    let began = Instant::now();
    let controller = Controller::start(arguments.binary.as_deref(), kubeconfig).await?;
    let needed = f64::from(plan.inferences);
    let resync = loop {
        let now = scrape(controller.admin()).await?;
        if now.sum("modelway_controller_reconciles_total", "kind=\"Inference\"") >= needed
            && now.sum("modelway_controller_queue_depth", "") < 1.0
        {
            break began.elapsed();
        }
        anyhow::ensure!(began.elapsed() < LIMIT, "no full resync within {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    eprintln!("a new controller has seen everything after {resync:?}");
    // What the first turns started comes to rest.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (cpu, before) = (controller.cpu()?, scrape(controller.admin()).await?);
    tokio::time::sleep(arguments.rest).await;
    let (after, rest) = (scrape(controller.admin()).await?, arguments.rest.as_secs_f64());
    let requests = |seen: &scrape::Metrics| seen.sum("modelway_controller_api_requests_total", "");
    let document = json!({
        "server": if arguments.kubeconfig.is_some() { "kubeconfig" } else { "embedded" },
        "inferences": plan.inferences,
        "pods": plan.inferences * (plan.replicas + 1),
        "namespaces": plan.namespaces,
        "madeSeconds": deployed.as_secs_f64(),
        "readySeconds": ready.as_secs_f64(),
        "resyncSeconds": resync.as_secs_f64(),
        "resyncCpuSeconds": cpu.as_secs_f64(),
        "atRest": {
            "seconds": rest,
            "cpuPercent": controller.cpu()?.saturating_sub(cpu).as_secs_f64() / rest * 100.0,
            "requestsPerSecond": (requests(&after) - requests(&before)) / rest,
        },
        "residentBytes": controller.resident("VmRSS")?,
        "residentPeakBytes": controller.resident("VmHWM")?,
    });
    println!("{document:#}");
    controller.stop().await
}
