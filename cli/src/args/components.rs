//! Command line of components that run alone, or as containers of pods.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use super::TargetArguments;

#[derive(Subcommand)]
pub enum ModelCommand {
    /// Pack a folder and push it as a model image.
    #[command(
        after_help = "Example:\n  modelway model push --source ./output --repository 127.0.0.1:5553/default/digits --tag v3"
    )]
    Push(PushArguments),
    /// Pull a model image into a store folder, verified.
    #[command(
        after_help = "Examples:\n  modelway model pull 127.0.0.1:5553/default/digits:v1 --store ./images\n  modelway model pull 127.0.0.1:5553/default/digits:v1 --into ./digits"
    )]
    Pull(PullArguments),
    /// Show what an image holds.
    #[command(after_help = "Example:\n  modelway model inspect 127.0.0.1:5553/default/digits:v1")]
    Inspect(ImageArguments),
    /// Read every blob of an image and compare its digest.
    #[command(after_help = "Example:\n  modelway model verify 127.0.0.1:5553/default/digits:v1")]
    Verify(ImageArguments),
}

#[derive(clap::Args)]
pub struct RegistryAccess {
    /// Speak to the registry without TLS; loopback addresses are plain by default.
    #[arg(long)]
    pub plain_http: bool,
    /// docker `config.json` or Kubernetes `.dockerconfigjson` with the credentials; an absent file = anonymous.
    #[arg(long)]
    pub auth_file: Option<PathBuf>,
    /// PEM file with the certificate authority of the registry, besides the system's; an absent file = none.
    #[arg(long)]
    pub ca_file: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct PushArguments {
    /// Folder with the training output.
    #[arg(long)]
    pub source: PathBuf,
    /// Image repository.
    #[arg(long)]
    pub repository: String,
    /// Tag.
    #[arg(long)]
    pub tag: String,
    /// JSON object that joins the image's metadata.
    #[arg(long)]
    pub metadata: Option<String>,
    /// Move the tag when it points to another image.
    #[arg(long)]
    pub force: bool,
    /// Refuse files that hold pickles: `deny`, `label` or `allow`.
    #[arg(long, default_value = "label")]
    pub pickle: String,
    /// Also write the result, or the error, to this file (at most 3 KiB of JSON).
    #[arg(long)]
    pub result: Option<PathBuf>,
    #[command(flatten)]
    pub access: RegistryAccess,
}

#[derive(clap::Args)]
pub struct PullArguments {
    /// Image reference with a tag or a digest.
    pub reference: String,
    /// Store folder: images are under `<store>/<digest>/rootfs`.
    #[arg(long, required_unless_present = "into")]
    pub store: Option<PathBuf>,
    /// Folder that gets the model's files themselves; it appears when they are complete.
    #[arg(long, conflicts_with = "store")]
    pub into: Option<PathBuf>,
    #[command(flatten)]
    pub access: RegistryAccess,
}

#[derive(clap::Args)]
pub struct ImageArguments {
    /// Image reference with a tag or a digest.
    pub reference: String,
    #[command(flatten)]
    pub access: RegistryAccess,
}

#[derive(clap::Args)]
pub struct RouterArguments {
    /// Route table file with static endpoints; needs no API server.
    #[arg(long, conflicts_with_all = ["inference", "namespace"])]
    pub config: Option<PathBuf>,
    /// Inference whose route table is followed.
    #[arg(long, required_unless_present = "config")]
    pub inference: Option<String>,
    /// Namespace of the Inference.
    #[arg(long, default_value = "default")]
    pub namespace: String,
    /// Where clients come in.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Health, metrics, configuration, stats.
    #[arg(long, default_value = "127.0.0.1:9090")]
    pub admin: SocketAddr,
    /// File with the 16-byte key of the assignment hash.
    #[arg(long)]
    pub key_file: Option<PathBuf>,
}

#[derive(Subcommand)]
pub enum RuntimeCommand {
    /// Serve an ONNX model with the Open Inference Protocol V2.
    #[command(after_help = "Example:\n  modelway runtime onnx --model ./output --name digits --listen 127.0.0.1:8000")]
    Onnx(OnnxArguments),
}

#[derive(clap::Args)]
pub struct OnnxArguments {
    /// `.onnx` file, or a folder that holds one.
    #[arg(long)]
    pub model: PathBuf,
    /// Model name in URLs.
    #[arg(long)]
    pub name: String,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Threads that run the model.
    #[arg(long, default_value = "1")]
    pub threads: NonZeroUsize,
    /// Most rows in one run.
    #[arg(long, default_value = "8")]
    pub max_batch_size: NonZeroUsize,
    /// How long a request waits for others to share a run with, such as 2ms.
    #[arg(long, default_value = "0ms", value_parser = duration)]
    pub max_batch_delay: Duration,
    /// Requests that may wait; more are answered 503.
    #[arg(long, default_value = "1024")]
    pub max_queue: NonZeroUsize,
}

#[derive(clap::Args)]
pub struct RegistryArguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:5553")]
    pub listen: SocketAddr,
    /// Folder of the blobs and tags.
    #[arg(long)]
    pub dir: PathBuf,
}

#[derive(clap::Args)]
pub struct ControllerArguments {
    #[command(flatten)]
    pub target: TargetArguments,
    /// Registry and path under which images are published when a version names no repository.
    #[arg(long)]
    pub default_registry: String,
    /// Image of the builder, router and server pods.
    #[arg(long, default_value = modelway_api::IMAGE)]
    pub image: String,
    /// Host folders that versions may be published from; none = no host folder.
    #[arg(long)]
    pub allowed_host_paths: Vec<String>,
    /// Registries (`host:port`) that speak HTTP without TLS.
    #[arg(long, value_delimiter = ',')]
    pub plain_http_registries: Vec<String>,
    /// How models come into predictors that leave it open; `auto` asks the cluster once, at the start.
    #[arg(long, value_enum, default_value = "auto")]
    pub model_mount: MountArgument,
    /// Router pods of an Inference that does not say.
    #[arg(long, default_value = "2", value_parser = clap::value_parser!(i32).range(1..=100))]
    pub router_replicas: i32,
    /// `ClusterRole` that router pods are bound to in their namespace; none where nothing is authorised.
    #[arg(long)]
    pub router_cluster_role: Option<String>,
    /// Namespaces to look at, and no others; all of them when absent.
    #[arg(long, value_delimiter = ',')]
    pub watch_namespaces: Vec<String>,
    /// Where health, readiness and metrics are told; nowhere when absent.
    #[arg(long)]
    pub admin: Option<SocketAddr>,
    /// Where clients of trials report what they measured (gRPC `api.storage.DB`); nowhere when absent.
    #[arg(long)]
    pub results: Option<SocketAddr>,
    /// Namespace of the Service `morphling-db-manager` in front of that.
    #[arg(long, default_value = "morphling-system")]
    pub results_namespace: String,
    /// Work only while holding a Lease, so that several replicas can run.
    #[arg(long)]
    pub leader_elect: bool,
    /// Namespace of the Lease; that of the pod, or of the kubeconfig, when absent.
    #[arg(long)]
    pub leader_election_namespace: Option<String>,
    /// Name of the Lease.
    #[arg(long, default_value = "modelway-controller")]
    pub leader_election_name: String,
    /// Name of this replica in the Lease, different from all others; the host's with random letters when absent.
    #[arg(long)]
    pub identity: Option<String>,
}

/// How models come into pods.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum MountArgument {
    /// An image volume where the cluster can mount one, else as `pull`.
    Auto,
    /// An image volume.
    ImageVolume,
    /// An init container pulls into an emptyDir.
    Pull,
}

#[derive(Subcommand)]
pub enum ExampleCommand {
    /// Train a classifier of handwritten digits.
    Digits {
        /// Which classifier.
        #[arg(long, value_enum)]
        variant: modelway_digits::Variant,
        /// Folder to write to.
        #[arg(long, env = "OUTPUT_DIR")]
        output: PathBuf,
    },
}

/// `2ms`, `1.5s`, `0`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "" if number == "0" => 1.0,
        _ => return Err("give a number and a unit of us, ms, s or m, such as 2ms".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is not a number"))?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| "must not be negative or huge".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("2").is_err());
        assert!(duration("-1s").is_err());
        assert!(duration("soon").is_err());
    }
}
