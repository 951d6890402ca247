//! The API server that a command talks to.

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use modelway_local::instance::Instance;

use crate::args::TargetArguments;
use crate::exit::{Failure, fail};

/// A client with the namespace that names without one mean.
pub struct Target {
    pub client: kube::Client,
    pub namespace: String,
}

/// `--kubeconfig`, else the platform that runs on the data folder, else `KUBECONFIG`, else the cluster that we run in.
pub async fn connect(arguments: &TargetArguments) -> anyhow::Result<Target> {
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    let running = Instance::find(&arguments.data_dir);
    let file = arguments.kubeconfig.clone().or_else(|| running.map(|instance| instance.kubeconfig));
    let config = match file {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(&file)
                .map_err(|error| fail(Failure::Usage, format!("cannot read kubeconfig {}: {error}", file.display())))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await?
        }
        None if std::env::var_os("KUBECONFIG").is_some() || arguments.context.is_some() => {
            Config::from_kubeconfig(&options).await?
        }
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => Config::incluster()?,
        None => {
            let message = format!(
                "no platform runs on {}; start one with `modelway up --detach`, or name a cluster with --kubeconfig",
                arguments.data_dir.display()
            );
            return Err(fail(Failure::Unreachable, message));
        }
    };
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok(Target { client: kube::Client::try_from(config)?, namespace })
}
