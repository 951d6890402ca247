//! A running cluster as tests see it.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::guard::{self, Guard, Level, Options};
use super::{Error, volumes};

/// A cluster of this process. It ends with its value or with the process.
#[derive(Debug)]
pub struct Cluster {
    pub(super) guard: Guard,
    pub(super) volumes: AtomicUsize,
    level: Level,
    kubeconfig: PathBuf,
}

/// A registry that the nodes pull from and this machine pushes to.
#[derive(Debug, Clone)]
pub struct Registry {
    /// `ADDRESS:PORT`, the first part of an image's name.
    pub host: String,
    /// Who may use it, where it asks.
    pub login: Option<(&'static str, &'static str)>,
    /// The authority of its certificate, where it has one.
    pub authority: Option<PathBuf>,
}

const REGISTRY_USER: &str = "modelway";
/// `machine.sh` has its hash.
const REGISTRY_PASSWORD: &str = "registry-password";

/// Above what any command of a test needs, also on a busy machine; `kubectl wait` has its own bound.
const COMMAND: Duration = Duration::from_mins(5);

impl Cluster {
    /// Starts a cluster; [`Error::Missing`] where this machine cannot run one.
    pub async fn start(options: impl Into<Options>) -> Result<Self, Error> {
        let options = options.into();
        let started = tokio::task::spawn_blocking(move || Guard::start(options)).await;
        let guard = started.map_err(|error| Error::Start(error.to_string()))??;
        let kubeconfig = guard.state.join("pki/admin.kubeconfig");
        Ok(Self { guard, volumes: AtomicUsize::new(0), level: options.level, kubeconfig })
    }

    /// Ends the cluster and waits until nothing is left of it.
    pub async fn stop(self) -> Result<(), Error> {
        self.guard.stop().await
    }

    /// The level that it was started at.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The kubeconfig of the administrator. It names files of the state folder.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder of its state, logs under `log/`.
    pub fn state_dir(&self) -> &Path {
        &self.guard.state
    }

    /// The process that owns the cluster: its death is the cluster's.
    pub fn guard_id(&self) -> u32 {
        self.guard.id()
    }

    /// Keeps the logs beyond the cluster's end, and says where they will be.
    pub fn keep_logs(&self) -> Result<&Path, Error> {
        guard::keep_logs(&self.guard.state)?;
        Ok(&self.guard.facts.kept_logs)
    }

    /// The administrator's client; a new one for each call, for the runtime of the calling test.
    pub async fn client(&self) -> Result<Client, Error> {
        make_client(self.config().await?)
    }

    /// A client that acts as this user of these groups, with what RBAC gives them.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Result<Client, Error> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        make_client(config)
    }

    /// A client that acts as this service account.
    pub async fn client_of(&self, namespace: &str, account: &str) -> Result<Client, Error> {
        let groups = ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
        self.client_as(&format!("system:serviceaccount:{namespace}:{account}"), &groups).await
    }

    /// How the administrator connects.
    pub async fn config(&self) -> Result<Config, Error> {
        let unusable = |error: &dyn std::fmt::Display| Error::Client(error.to_string());
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).map_err(|error| unusable(&error))?;
        let options = KubeConfigOptions::default();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| unusable(&error))?;
        config.proxy_url = None;
        Ok(config)
    }

    /// What kubectl says to these arguments.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Output, Error> {
        self.kubectl_with(arguments, "").await
    }

    /// The same, with this on its standard input.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<Output, Error> {
        output(self.kubectl_command().args(arguments), input).await
    }

    /// What kubectl prints; an error with its words when it fails.
    pub async fn kubectl_ok(&self, arguments: &[&str]) -> Result<String, Error> {
        succeed(self.kubectl_command().args(arguments), "").await
    }

    /// Applies manifests as a user does.
    pub async fn apply(&self, manifests: &str) -> Result<String, Error> {
        succeed(self.kubectl_command().args(["apply", "--server-side", "-f", "-"]), manifests).await
    }

    /// kubectl as the administrator, for who wants more of it.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(self.guard.facts.kube.join("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--cache-dir").arg(self.guard.state.join("kubectl-cache"));
        for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(proxy);
        }
        command
    }

    /// The registry without TLS.
    pub fn registry(&self) -> Result<Registry, Error> {
        self.need_nodes("registries")?;
        Ok(Registry { host: format!("{}:5000", self.guard.facts.address), login: None, authority: None })
    }

    /// The registry with TLS, which asks for a password.
    pub fn registry_tls(&self) -> Result<Registry, Error> {
        self.need_nodes("registries")?;
        Ok(Registry {
            host: format!("{}:5443", self.guard.facts.address),
            login: Some((REGISTRY_USER, REGISTRY_PASSWORD)),
            authority: Some(self.guard.state.join("pki/ca.crt")),
        })
    }

    /// Makes this many volumes of 10Gi for claims without a class, in folders of this machine that anyone may write.
    pub async fn host_volumes(&self, count: usize) -> Result<(), Error> {
        volumes::make(self, count).await
    }

    pub(super) fn need_nodes(&self, what: &'static str) -> Result<(), Error> {
        if self.level == Level::Node { Ok(()) } else { Err(Error::NotHere(what)) }
    }
}

fn make_client(config: Config) -> Result<Client, Error> {
    Client::try_from(config).map_err(|error| Error::Client(error.to_string()))
}

/// What a command does with this input, within bounds.
pub(super) async fn output(command: &mut Command, input: &str) -> Result<Output, Error> {
    let shown = format!("{:?}", command.as_std());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let spawn = |source| Error::Spawn { command: shown.clone(), source };
    let mut child = command.spawn().map_err(spawn)?;
    let pipe = child.stdin.take();
    let feed = async move {
        if let Some(mut pipe) = pipe {
            // A command that does not read all says why itself.
            let _ = pipe.write_all(input.as_bytes()).await;
        }
    };
    let run = async { tokio::join!(feed, child.wait_with_output()).1 };
    tokio::time::timeout(COMMAND, run).await.map_err(|_| Error::Endless(shown.clone()))?.map_err(spawn)
}

/// What a command prints; an error with its words when it fails.
pub(super) async fn succeed(command: &mut Command, input: &str) -> Result<String, Error> {
    let output = output(command, input).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Command { command: format!("{:?}", command.as_std()), text })
}
