//! The story on a Kubernetes cluster: the same manifests, with images instead of processes.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use modelway_api::labels;

use super::document::Document;
use super::story::{JOBS, Story};
use super::{program, summary};
use crate::args::{QuickstartArguments, SummaryOutput};
use crate::exit::{Failure, fail};
use crate::output;
use crate::progress::Progress;
use crate::stop::Stop;

/// Tells the story there, and shows the summary. What it made stays.
pub async fn run(
    arguments: &QuickstartArguments,
    progress: Progress,
    start: Instant,
    stop: Stop,
) -> anyhow::Result<()> {
    let client = connect(arguments).await?;
    let step = progress.step("platform");
    let image = match &arguments.image {
        Some(image) => image.clone(),
        None => installed_image(&client).await?,
    };
    let resumed = Api::<Job>::namespaced(client.clone(), &arguments.namespace).get_opt(JOBS[0]).await?.is_some();
    step.done(&format!("namespace {}, training with image {image}", arguments.namespace));
    let story = Story {
        client,
        namespace: arguments.namespace.clone(),
        image,
        progress,
        start,
        timeout: Duration::from_secs(arguments.timeout),
        users: arguments.users,
        seed: arguments.seed,
        tunes: !arguments.no_tuning,
        data_dir: None,
    };
    let mut document = Document { start: if resumed { "resumed" } else { "fresh" }, ..Document::default() };
    tokio::select! {
        told = story.tell(arguments.first_answer, &mut document) => told?,
        () = stop.cancelled() => return Err(stop.error(super::STOPPED)),
    }
    document.seconds.insert("total", start.elapsed().as_secs_f64());
    show(&document, arguments);
    Ok(())
}

async fn connect(arguments: &QuickstartArguments) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context: arguments.context.clone(), ..KubeConfigOptions::default() };
    let usage = |error: &dyn std::fmt::Display| fail(Failure::Usage, format!("cannot use the kubeconfig: {error}"));
    let config = match &arguments.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|error| usage(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| usage(&error))?
        }
        None => Config::from_kubeconfig(&options).await.map_err(|error| usage(&error))?,
    };
    Ok(Client::try_from(config)?)
}

/// The image of the controller that the chart installed.
async fn installed_image(client: &Client) -> anyhow::Result<String> {
    let selector = format!("{}=modelway,{}=controller", labels::APP_NAME, labels::APP_COMPONENT);
    let deployments = Api::<Deployment>::all(client.clone()).list(&ListParams::default().labels(&selector)).await?;
    let images = deployments.items.into_iter().filter_map(|deployment| {
        let containers = deployment.spec?.template.spec?.containers;
        containers.into_iter().next()?.image
    });
    images.into_iter().next().ok_or_else(|| {
        let message = "no Modelway controller runs on this cluster; install it with `helm install modelway \
                       charts/modelway`, or name the training image with --image";
        fail(Failure::Failed, message)
    })
}

fn show(document: &Document, arguments: &QuickstartArguments) {
    if arguments.output == SummaryOutput::Json {
        if let Ok(value) = serde_json::to_value(document) {
            output::json(&value);
        }
        return;
    }
    let file = arguments.kubeconfig.as_ref().map(|file| format!(" --kubeconfig {}", file.display()));
    let context = arguments.context.as_ref().map(|context| format!(" --context {context}"));
    let namespace = format!(" -n {}", arguments.namespace);
    let flags = [file.unwrap_or_default(), context.unwrap_or_default(), namespace].concat();
    let program = program();
    let hints =
        summary::Hints { program: &program, data_dir: "", stays: true, foreground: false, cluster: Some(&flags) };
    output::line(&summary::render(document, &hints));
}
