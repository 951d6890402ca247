//! The platform with Modelway's controllers in it, as `up` and `quickstart` run it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use modelway_controller::{ControllerOptions, Settings};
use modelway_local::{DataDir, Platform, PlatformOptions};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::PlatformArguments;

/// How long the controllers may take to put down their work.
const CONTROLLER_STOP: Duration = Duration::from_secs(5);

/// A running platform with its controllers.
pub struct Running {
    pub platform: Platform,
    controllers: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
    /// From the call to an answering API.
    pub ready_after: Duration,
}

impl Running {
    /// Starts both.
    pub async fn start(arguments: &PlatformArguments) -> anyhow::Result<Self> {
        let start = Instant::now();
        let platform = Platform::start(options(arguments)?).await?;
        let ready_after = start.elapsed();
        let mut controller = ControllerOptions::new(platform.client("default"));
        controller.settings = settings(&platform);
        let results =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port is free for results of trials")?;
        controller.settings.results_address = Some(results.local_addr()?.to_string());
        controller.results = Some(results);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let controllers = tokio::spawn(async move { Ok(modelway_controller::run(controller, stopped).await?) });
        Ok(Self { platform, controllers, stop, ready_after })
    }

    /// Pending while all is well, else what ended.
    pub async fn failed(&mut self) -> anyhow::Error {
        tokio::select! {
            error = self.platform.failed() => error.into(),
            ended = &mut self.controllers => match ended {
                Ok(Ok(())) => anyhow::anyhow!("the controllers ended by themselves"),
                Ok(Err(error)) => error.context("the controllers ended"),
                Err(panic) => anyhow::anyhow!("the controllers ended: {panic}"),
            },
        }
    }

    /// Stops controllers, pods and servers, in this order.
    pub async fn stop(self) -> DataDir {
        self.stop.cancel();
        if tokio::time::timeout(CONTROLLER_STOP, self.controllers).await.is_err() {
            tracing::warn!("the controllers were still busy and were left behind");
        }
        self.platform.stop().await
    }
}

fn options(arguments: &PlatformArguments) -> anyhow::Result<PlatformOptions> {
    let crds = modelway_api::crds().iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    Ok(PlatformOptions {
        data_dir: arguments.data_dir.clone(),
        api_port: arguments.api_port,
        registry_port: arguments.registry_port,
        crds,
        image: modelway_api::image(),
        executable: executable()?,
        shim_arguments: vec!["shim".to_owned()],
    })
}

/// Images go to the platform's registry; versions may be published from its volumes.
fn settings(platform: &Platform) -> Settings {
    Settings {
        default_registry: Some(platform.registry()),
        allowed_host_paths: vec![platform.data_dir().join("volumes").display().to_string()],
        plain_http: vec![platform.registry()],
        ..Settings::default()
    }
}

/// Our own file, through /proc so that it stays the same one when a new release replaces it on disk.
fn executable() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find the own executable in /proc")
}
