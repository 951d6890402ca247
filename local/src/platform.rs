//! Starts the parts in order, ends them in reverse.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use modelway_apiserver::ApiServer;
use modelway_node::{NodeOptions, PodCidr};
use modelway_registry::Registry;
use modelway_workloads::{Ipv4Cidr, WorkloadOptions};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::data_dir::{DataDir, DataDirError};
use crate::images::OwnRegistry;
use crate::instance::Instance;
use crate::loopback::Block;
use crate::pod_logs::NodeLogs;
use crate::ports::{self, PortError};
use crate::settings::{API_PORT, REGISTRY_PORT, Settings};

/// How long the pods, and then the servers, get to end before they are left to the shims.
const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// What to start.
#[derive(Clone, Debug)]
pub struct PlatformOptions {
    pub data_dir: PathBuf,
    /// None = the stored one, at first the default; 0 = the stored one, at first any free one.
    pub api_port: Option<u16>,
    /// None = the stored one, at first the default; 0 = the stored one, at first any free one.
    pub registry_port: Option<u16>,
    /// Custom resource definitions to install.
    pub crds: Vec<Value>,
    /// The image reference that means `executable`.
    pub image: String,
    /// The program that pods with that image run.
    pub executable: PathBuf,
    /// Arguments that make `executable` run the node's shim.
    pub shim_arguments: Vec<String>,
}

/// Why the platform did not start, or a part of it ended.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("no block of loopback addresses is free: {0}")]
    Loopback(String),
    #[error("cannot clean up what an earlier platform left behind: {0}")]
    Sweep(std::io::Error),
    #[error("the API server did not start: {0}")]
    Api(String),
    #[error("the registry did not start: {0}")]
    Registry(#[from] modelway_registry::RegistryError),
    #[error("{part} ended: {problem}")]
    Part { part: &'static str, problem: String },
}

/// A running platform. Dropping it leaves the pods to their shims; [`Platform::stop`] ends them in order.
pub struct Platform {
    data: DataDir,
    block: Block,
    settings: Settings,
    api: ApiServer,
    swept: usize,
    tasks: JoinSet<Result<(), PlatformError>>,
    pods: CancellationToken,
    servers: CancellationToken,
}

impl Platform {
    /// Starts everything; when it returns, the API answers and the node takes pods.
    pub async fn start(options: PlatformOptions) -> Result<Self, PlatformError> {
        let data = DataDir::open(&options.data_dir)?;
        let stored = Settings::load(data.path())?;
        let block = claim_block(stored.as_ref().map(|settings| settings.loopback_block))?;
        let swept = sweep(data.path()).await?;
        let (api_port, registry_port) = wanted_ports(&options, stored.as_ref());
        let api_listener = ports::listen(api_port, "--api-port").await?;
        let registry_listener = ports::listen(registry_port, "--registry-port").await?;
        let ports = (port_of(&api_listener), port_of(&registry_listener));
        let settings = Settings::next(stored.as_ref(), ports.0, ports.1, block.number());
        if stored.as_ref() != Some(&settings) {
            settings.save(data.path())?;
        }
        let registry = Registry::open(data.path().join("registry"))?;
        let api = open_api(data.path(), &options.crds, &settings).await?;
        let mut platform = Self {
            data,
            block,
            settings,
            api,
            swept,
            tasks: JoinSet::new(),
            pods: CancellationToken::new(),
            servers: CancellationToken::new(),
        };
        platform.start_servers(api_listener, registry_listener, registry);
        platform.start_controllers(&options);
        let instance = Instance::of_this_process(ports.0, ports.1, platform.kubeconfig());
        instance.publish(platform.data.path())?;
        Ok(platform)
    }

    /// Absolute path of the data folder.
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// An admin's kubeconfig, for kubectl and for pods.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data.path().join("kubeconfig")
    }

    /// `host:port` of the registry.
    pub fn registry(&self) -> String {
        format!("127.0.0.1:{}", self.settings.registry_port)
    }

    /// Ports and addresses in use.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Processes of an earlier, killed platform that were ended at the start.
    pub fn swept(&self) -> usize {
        self.swept
    }

    /// An in-process client.
    pub fn client(&self, namespace: &str) -> kube::Client {
        self.api.client(namespace)
    }

    /// Waits until a part fails; pending while all is well.
    pub async fn failed(&mut self) -> PlatformError {
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(panic) => return PlatformError::Part { part: "a task", problem: panic.to_string() },
            }
        }
        std::future::pending().await
    }

    /// Ends pods, then servers, and gives the data folder back.
    pub async fn stop(mut self) -> DataDir {
        Instance::withdraw(self.data.path());
        self.pods.cancel();
        // The node needs the API to the end, so the servers go last.
        let _late = tokio::time::timeout(STOP_DEADLINE, async {
            while self.tasks.len() > 2 && self.tasks.join_next().await.is_some() {}
        })
        .await;
        self.servers.cancel();
        let _late =
            tokio::time::timeout(Duration::from_secs(3), async { while self.tasks.join_next().await.is_some() {} })
                .await;
        self.tasks.abort_all();
        if let Err(error) = sweep(self.data.path()).await {
            tracing::warn!(%error, "cannot look for processes that pods left behind");
        }
        self.data
    }

    fn start_servers(&mut self, api: TcpListener, registry: TcpListener, store: Registry) {
        let (server, stop) = (self.api.clone(), self.servers.clone());
        self.tasks.spawn(async move { server.serve(api, stop).await.map_err(|error| part("the API server", error)) });
        let stop = self.servers.clone();
        self.tasks.spawn(async move { store.serve(registry, stop).await.map_err(|error| part("the registry", error)) });
    }

    fn start_controllers(&mut self, options: &PlatformOptions) {
        if let Ok(services) = Ipv4Cidr::new(self.block.services(), 17) {
            let workloads = WorkloadOptions::new(self.api.client("default"), self.data.path().to_owned(), services);
            let stop = self.pods.clone();
            self.tasks.spawn(async move {
                modelway_workloads::run(workloads, stop).await.map_err(|error| part("the workload controllers", error))
            });
        }
        if let Some(pods) = PodCidr::new(self.block.pods(), 17) {
            let client = self.api.client("default");
            let mut node = NodeOptions::new(client, self.data.path().to_owned(), options.executable.clone(), pods);
            node.kubeconfig = self.kubeconfig();
            node.image.clone_from(&options.image);
            node.executable_args.clone_from(&options.shim_arguments);
            node.plain_http = vec![self.registry()];
            let images = OwnRegistry::new(&self.settings.former_registry_ports, self.settings.registry_port);
            node.image_source = Arc::new(images);
            let stop = self.pods.clone();
            self.tasks
                .spawn(async move { modelway_node::run(node, stop).await.map_err(|error| part("the node", error)) });
        }
    }
}

fn part(part: &'static str, problem: impl std::fmt::Display) -> PlatformError {
    PlatformError::Part { part, problem: problem.to_string() }
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().map_or(0, |address| address.port())
}

/// What the user says, else what is stored, else the default. "Any free one" is chosen once and stored.
fn wanted_ports(options: &PlatformOptions, stored: Option<&Settings>) -> (u16, u16) {
    let wanted = |given: Option<u16>, stored: Option<u16>, default: u16| match (given, stored) {
        (Some(0) | None, Some(stored)) => stored,
        (Some(given), _) => given,
        (None, None) => default,
    };
    let api = wanted(options.api_port, stored.map(|settings| settings.api_port), API_PORT);
    let registry = wanted(options.registry_port, stored.map(|settings| settings.registry_port), REGISTRY_PORT);
    (api, registry)
}

fn claim_block(stored: Option<u8>) -> Result<Block, PlatformError> {
    match stored {
        Some(number) => Block::claim(number).ok_or_else(|| {
            PlatformError::Loopback(format!(
                "another platform uses 127.{number}.0.0/16, the block of this data folder; stop it, or use another --data-dir"
            ))
        }),
        None => Block::claim_any(&mut rand::rng())
            .ok_or_else(|| PlatformError::Loopback("every block is held by a running platform".to_owned())),
    }
}

async fn sweep(data: &Path) -> Result<usize, PlatformError> {
    let data = data.to_owned();
    let swept = tokio::task::spawn_blocking(move || modelway_node::sweep(&data)).await;
    swept.map_err(|panic| PlatformError::Sweep(std::io::Error::other(panic)))?.map_err(PlatformError::Sweep)
}

async fn open_api(data: &Path, crds: &[Value], settings: &Settings) -> Result<ApiServer, PlatformError> {
    let failed = |error: &dyn std::fmt::Display| PlatformError::Api(error.to_string());
    let api = ApiServer::open(modelway_apiserver::Options::new(data.join("api"))).map_err(|error| failed(&error))?;
    api.install_crds(crds).await.map_err(|error| failed(&error))?;
    api.set_pod_logs(Arc::new(NodeLogs::new(data.to_owned())));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, settings.api_port));
    let kubeconfig = api.kubeconfig(address);
    crate::data_dir::write_atomically(&data.join("kubeconfig"), kubeconfig.as_bytes())
        .map_err(|source| DataDirError::NotWritable { path: data.to_owned(), source })?;
    Ok(api)
}
