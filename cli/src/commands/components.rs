//! Components that run alone, or as containers of pods.

use anyhow::Context;
use modelway_api::inference::ModelMount;
use modelway_controller::{ControllerOptions, LeaderElection, Timing};
use modelway_registry::Registry;
use modelway_router::{RouteKey, RouterOptions, Source};
use modelway_runtime::RuntimeOptions;

use crate::args::{ControllerArguments, MountArgument, RegistryArguments, RouterArguments, RuntimeCommand};
use crate::exit::{Failure, fail};
use crate::{stop, target};

pub async fn router(arguments: RouterArguments) -> anyhow::Result<()> {
    let stop = stop::on_signal()?;
    let source = match (arguments.config, arguments.inference) {
        (Some(file), _) => Source::File(file),
        (None, Some(inference)) => {
            let client =
                kube::Client::try_default().await.context("the router needs KUBECONFIG or a pod's service account")?;
            Source::Kube { client, namespace: arguments.namespace, inference }
        }
        (None, None) => return Err(fail(Failure::Usage, "--config or --inference is needed")),
    };
    let mut options = RouterOptions::new(arguments.listen, arguments.admin, source);
    if let Some(file) = arguments.key_file {
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read the key file {}", file.display()))?;
        let key = RouteKey::from_slice(&bytes).with_context(|| format!("key file {}", file.display()))?;
        options.key = Some(key);
    }
    Ok(modelway_router::run(options, stop).await?)
}

pub async fn runtime(command: RuntimeCommand) -> anyhow::Result<()> {
    let RuntimeCommand::Onnx(arguments) = command;
    let options = RuntimeOptions {
        model: arguments.model,
        name: arguments.name,
        listen: arguments.listen,
        threads: arguments.threads,
        max_batch_size: arguments.max_batch_size,
        max_batch_delay: arguments.max_batch_delay,
        max_queue: arguments.max_queue,
    };
    Ok(modelway_runtime::run(options, stop::on_signal()?).await?)
}

pub async fn registry(arguments: RegistryArguments) -> anyhow::Result<()> {
    let stop = stop::on_signal()?;
    let registry = Registry::open(&arguments.dir)?;
    let listener = tokio::net::TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", arguments.listen))?;
    tracing::info!(address = %arguments.listen, dir = %arguments.dir.display(), "registry serves");
    Ok(registry.serve(listener, stop).await?)
}

pub async fn controller(arguments: ControllerArguments) -> anyhow::Result<()> {
    let stop = stop::on_signal()?;
    let target = target::connect(&arguments.target).await?;
    let mut options = ControllerOptions::new(target.client.clone());
    if let Some(address) = arguments.admin {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}; choose another with --admin"))?;
        options.admin = Some(listener);
    }
    if let Some(address) = arguments.results {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {address}; choose another with --results"))?;
        options.results = Some(listener);
    }
    options.settings.results_namespace = arguments.results_namespace;
    options.election = arguments.leader_elect.then(|| LeaderElection {
        namespace: arguments.leader_election_namespace.unwrap_or(target.namespace),
        name: arguments.leader_election_name,
        identity: arguments.identity.unwrap_or_else(replica_name),
        timing: Timing::default(),
    });
    options.namespaces = arguments.watch_namespaces.into_iter().filter(|name| !name.is_empty()).collect();
    options.settings.default_registry = Some(arguments.default_registry);
    options.settings.image = arguments.image;
    options.settings.plain_http = arguments.plain_http_registries;
    options.settings.allowed_host_paths = arguments.allowed_host_paths;
    options.settings.router_replicas = arguments.router_replicas;
    options.settings.router_role = arguments.router_cluster_role;
    options.settings.model_mount = match arguments.model_mount {
        MountArgument::Auto => ModelMount::Auto,
        MountArgument::ImageVolume => ModelMount::ImageVolume,
        MountArgument::Pull => ModelMount::Pull,
    };
    if arguments.model_mount == MountArgument::Auto {
        let only = options.namespaces.first().map(String::as_str);
        options.settings.image_volumes = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            answer = modelway_controller::image_volumes(&options.client, only) => answer,
        };
    }
    Ok(modelway_controller::run(options, stop).await?)
}

/// A name that no other replica has, also not this one after a restart.
fn replica_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{:016x}", host.trim(), rand::random::<u64>())
}
