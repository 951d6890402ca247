//! Command line of every subcommand.

mod components;
mod load;
mod tune;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub use components::*;
pub use load::*;
pub use tune::*;

/// From a finished training job to tuned production traffic.
#[derive(Parser)]
#[command(name = "modelway", version, propagate_version = true)]
#[command(
    after_help = "Start here:\n  modelway quickstart        the whole story on this machine, in about two minutes"
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Train two models, publish them, serve them 90/10, scale and tune one of them, show what happened.
    #[command(after_help = "Example:\n  modelway quickstart --output json")]
    Quickstart(QuickstartArguments),
    /// Start the platform on this machine; stays in the foreground until Ctrl-C.
    #[command(after_help = "Example:\n  modelway up --detach && modelway apply -f examples/digits/manifests")]
    Up(UpArguments),
    /// Stop the platform of a data folder.
    #[command(after_help = "Example:\n  modelway down --purge")]
    Down(DownArguments),
    /// Say whether the platform runs, and where.
    #[command(after_help = "Example:\n  modelway status --output json")]
    Status(StatusArguments),
    /// Create or change objects from YAML or JSON files (server-side apply).
    #[command(after_help = "Example:\n  modelway apply -f examples/digits/manifests/inference.yaml")]
    Apply(ApplyArguments),
    /// Show objects.
    #[command(
        after_help = "Example:\n  modelway get inference\n  modelway get modelversion mv-digits-v1-1a2b3 -o yaml"
    )]
    Get(GetArguments),
    /// Say why an object is as it is: the chain of what it depends on, and the first cause.
    #[command(
        after_help = "Examples:\n  modelway explain inference digits\n  modelway explain job digits-v1 --output json"
    )]
    Explain(ExplainArguments),
    /// Delete objects.
    #[command(after_help = "Example:\n  modelway delete inference digits")]
    Delete(DeleteArguments),
    /// Print the log of a pod, or of the newest pod of a Job or Deployment.
    #[command(after_help = "Example:\n  modelway logs job/digits-v1\n  modelway logs digits-v1-x2x4z --follow")]
    Logs(LogsArguments),
    /// Check whether a cluster can run Modelway; let go of what it holds.
    #[command(
        after_help = "Examples:\n  modelway doctor --kubeconfig ~/.kube/config\n  modelway doctor --release      before Modelway is removed from a cluster"
    )]
    Doctor(DoctorArguments),
    /// Model images: push, pull, inspect, verify.
    #[command(subcommand)]
    Model(ModelCommand),
    /// The HTTP router alone.
    #[command(
        after_help = "Example:\n  modelway router --config routes.yaml --listen 127.0.0.1:8080 --admin 127.0.0.1:9090"
    )]
    Router(RouterArguments),
    /// The built-in model servers.
    #[command(subcommand)]
    Runtime(RuntimeCommand),
    /// The embedded OCI registry alone.
    #[command(after_help = "Example:\n  modelway registry --listen 127.0.0.1:5553 --dir ./registry")]
    Registry(RegistryArguments),
    /// Modelway's controllers alone, against the cluster of the kubeconfig.
    #[command(after_help = "Example:\n  modelway controller --default-registry registry.example.com/models")]
    Controller(ControllerArguments),
    /// Send load to a server, and measure honestly how it bears it.
    #[command(
        after_help = "Examples:\n  modelway load http://127.0.0.1:8080/ --rate 500 --duration 30s --constraint 'p95<=50ms'\n  modelway load http://127.0.0.1:8000/v2/models/digits --protocol v2 --users 8\n  modelway load http://127.0.0.1:8000/v1 --protocol openai --search --constraint 'ttft.p95<=1s'"
    )]
    Load(Box<LoadArguments>),
    /// Find the best settings of a service in a handful of stress tests.
    #[command(subcommand)]
    Tune(TuneCommand),
    /// Example training programs.
    #[command(subcommand)]
    Example(ExampleCommand),
    /// Shell completions.
    #[command(after_help = "Example:\n  modelway completion bash > /etc/bash_completion.d/modelway")]
    Completion {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Runs the containers of one pod; started by the node.
    #[command(hide = true, disable_help_flag = true)]
    Shim,
}

impl Command {
    /// What is logged when `RUST_LOG` is not set.
    pub fn default_log_level(&self) -> &'static str {
        match self {
            Self::Up(_) | Self::Router(_) | Self::Runtime(_) | Self::Registry(_) | Self::Controller(_) => "info",
            _ => "error",
        }
    }
}

/// Which platform or cluster a command talks to.
#[derive(Clone, clap::Args)]
pub struct TargetArguments {
    /// State folder of the platform on this machine.
    #[arg(long, env = "MODELWAY_DATA_DIR", default_value = ".modelway", global = true)]
    pub data_dir: PathBuf,
    /// Talk to the cluster of this kubeconfig instead of the platform of the data folder.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long)]
    pub context: Option<String>,
    /// Namespace.
    #[arg(short, long)]
    pub namespace: Option<String>,
}

/// How a command prints.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Output {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

/// Ports of a platform that is started.
#[derive(Clone, clap::Args)]
pub struct PlatformArguments {
    /// State folder of the platform.
    #[arg(long, env = "MODELWAY_DATA_DIR", default_value = ".modelway")]
    pub data_dir: PathBuf,
    /// Port of the API on 127.0.0.1; kept in the data folder. 0 = any free one. [default: 6553]
    #[arg(long)]
    pub api_port: Option<u16>,
    /// Port of the registry on 127.0.0.1; kept in the data folder. 0 = any free one. [default: 5553]
    #[arg(long)]
    pub registry_port: Option<u16>,
}

#[derive(clap::Args)]
pub struct QuickstartArguments {
    #[command(flatten)]
    pub platform: PlatformArguments,
    /// Run the story on the Kubernetes cluster of this context, where Modelway's chart is installed.
    #[arg(long, conflicts_with_all = ["keep", "api_port", "registry_port"])]
    pub context: Option<String>,
    /// Kubeconfig with that context; without --context its current one. [default: KUBECONFIG, ~/.kube/config]
    #[arg(long, conflicts_with_all = ["keep", "api_port", "registry_port"])]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace on that cluster.
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
    /// Image of the training jobs on that cluster; the installed controller's when absent.
    #[arg(long)]
    pub image: Option<String>,
    /// `table` for people, `json` for programs.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
    /// Leave the platform running at the end.
    #[arg(long)]
    pub keep: bool,
    /// Stop at the first prediction from a published model.
    #[arg(long)]
    pub first_answer: bool,
    /// Leave out the last scene, which looks for better settings of v2 for about a minute.
    #[arg(long)]
    pub no_tuning: bool,
    /// Simulated users.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub users: u32,
    /// Seed of users, images and order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Give up after this many seconds.
    #[arg(long, default_value_t = 300)]
    pub timeout: u64,
}

/// How a summary prints.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum SummaryOutput {
    Table,
    Json,
}

#[derive(clap::Args)]
pub struct UpArguments {
    #[command(flatten)]
    pub platform: PlatformArguments,
    /// Run in the background; returns when the platform is ready.
    #[arg(long)]
    pub detach: bool,
}

#[derive(clap::Args)]
pub struct DownArguments {
    /// State folder of the platform.
    #[arg(long, env = "MODELWAY_DATA_DIR", default_value = ".modelway")]
    pub data_dir: PathBuf,
    /// Also delete the data folder with every object, image and log in it.
    #[arg(long)]
    pub purge: bool,
}

#[derive(clap::Args)]
pub struct StatusArguments {
    /// State folder of the platform.
    #[arg(long, env = "MODELWAY_DATA_DIR", default_value = ".modelway")]
    pub data_dir: PathBuf,
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
}

#[derive(clap::Args)]
pub struct ApplyArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// File, folder, or - for standard input; may be given several times.
    #[arg(short, long, required = true)]
    pub filename: Vec<PathBuf>,
    /// Take over fields that another manager holds.
    #[arg(long)]
    pub force_conflicts: bool,
    /// Check everything, change nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

#[derive(clap::Args)]
pub struct GetArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// Kinds, such as `inference`, `mv` or `pods,jobs`.
    pub kinds: String,
    /// Names; none = all.
    pub names: Vec<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Label selector.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Output,
}

#[derive(clap::Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// Kind: inference, model, modelversion, job, deployment or pod.
    pub kind: String,
    /// Name.
    pub name: String,
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
}

#[derive(clap::Args)]
pub struct DeleteArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// Kind, such as `inference` or `mv`.
    #[arg(required_unless_present = "filename")]
    pub kind: Option<String>,
    /// Names.
    pub names: Vec<String>,
    /// Delete what these files describe.
    #[arg(short, long, conflicts_with = "kind")]
    pub filename: Vec<PathBuf>,
    /// Do not fail when an object is not there.
    #[arg(long)]
    pub ignore_not_found: bool,
    /// Do not wait until the objects are gone.
    #[arg(long)]
    pub no_wait: bool,
    /// Check everything, change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(clap::Args)]
pub struct LogsArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// Pod, or KIND/NAME of a Job or Deployment.
    pub name: String,
    /// Container, needed when the pod has several.
    #[arg(short, long)]
    pub container: Option<String>,
    /// Go on until the container ends.
    #[arg(short, long)]
    pub follow: bool,
    /// The run before the last restart.
    #[arg(short, long)]
    pub previous: bool,
    /// Only this many lines from the end.
    #[arg(long)]
    pub tail: Option<i64>,
}

#[derive(clap::Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// Also ask the controller behind this URL whether it is ready.
    #[arg(long, conflicts_with = "release")]
    pub controller: Option<String>,
    /// Take Modelway's finalizer off every training job.
    #[arg(long)]
    pub release: bool,
    /// Only in these namespaces; none = all.
    #[arg(long, requires = "release", value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,
    /// NAMESPACE/NAME of the controller's Deployment, scaled to zero first; its Lease of the same name is removed.
    #[arg(long, requires = "release")]
    pub stop: Option<WorkloadName>,
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: SummaryOutput,
}

/// `NAMESPACE/NAME`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WorkloadName {
    pub namespace: String,
    pub name: String,
}

impl std::str::FromStr for WorkloadName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err("give NAMESPACE/NAME"),
        }
    }
}

impl std::fmt::Display for WorkloadName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_workload_has_a_namespace_and_a_name() {
        assert_eq!("a/b".parse::<WorkloadName>().unwrap().to_string(), "a/b");
        assert!(["b", "/b", "a/", "a/b/c"].iter().all(|text| text.parse::<WorkloadName>().is_err()));
    }
}
