//! Fills an API server, and plays the workload controllers and kubelets that it does not have.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use modelway_controller::resource;
use modelway_plan::{Kind, json as read};
use serde_json::{Value, json};

/// Calls at once.
const PARALLEL: usize = 16;
const FIELD_MANAGER: &str = "scale";

/// How many of what.
pub struct Plan {
    pub inferences: u32,
    /// Pods of each predictor; the router has one more.
    pub replicas: u32,
    pub namespaces: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self { inferences: 1_000, replicas: 4, namespaces: 10 }
    }
}

impl Plan {
    fn place(&self, index: u32) -> (String, String) {
        (format!("scale-{}", index % self.namespaces.max(1)), format!("model-{index}"))
    }
}

fn all(client: &Client, kind: Kind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

async fn apply(client: &Client, object: &Value) -> kube::Result<()> {
    let kind = Kind::find(read::text(object, "/apiVersion"), read::text(object, "/kind"));
    let resource = kind.map_or_else(definition, resource);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(read::name(object), &params, &Patch::Apply(object)).await.map(|_| ())
}

fn definition() -> ApiResource {
    ApiResource::erase::<CustomResourceDefinition>(&())
}

/// Installs our definitions and waits until they are served.
pub async fn install(client: &Client) -> anyhow::Result<()> {
    for definition in modelway_api::crds() {
        apply(client, &serde_json::to_value(definition)?).await?;
    }
    let began = Instant::now();
    while all(client, Kind::Inference).list(&ListParams::default().limit(1)).await.is_err() {
        ensure!(began.elapsed() < Duration::from_mins(1), "the definitions are not served");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Makes the namespaces.
pub async fn namespaces(client: &Client, plan: &Plan) -> anyhow::Result<()> {
    for index in 0..plan.namespaces.max(1) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("scale-{index}")}});
        apply(client, &object).await?;
        // Where nobody makes it, no pod would be admitted.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": read::name(&object)}});
        apply(client, &account).await?;
    }
    Ok(())
}

/// Makes the Inferences.
pub async fn inferences(client: &Client, plan: &Plan) -> anyhow::Result<()> {
    let made = stream::iter(0..plan.inferences).map(|index| {
        let (namespace, name) = plan.place(index);
        let container = json!({"name": "server", "image": "example.com/server:1", "ports": [{"containerPort": 8080}]});
        let predictor = json!({"name": "v1", "replicas": plan.replicas,
            "template": {"spec": {"containers": [container]}}});
        let object = json!({"apiVersion": Kind::Inference.api_version(), "kind": "Inference",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"framework": "MLServer", "router": {"replicas": 1}, "predictors": [predictor]}});
        async move { apply(client, &object).await }
    });
    Ok(made.buffer_unordered(PARALLEL).try_collect::<()>().await?)
}

/// Waits until every Deployment and entry Service is there.
pub async fn until_deployed(client: &Client, plan: &Plan, limit: Duration) -> anyhow::Result<()> {
    let wanted = usize::try_from(plan.inferences)? * 2;
    until(limit, "Deployments and Services", || async {
        let services = all(client, Kind::Service).list_metadata(&ListParams::default()).await?;
        let services = services.items.iter().filter(|service| is_ours(service.metadata.namespace.as_ref())).count();
        let deployments = all(client, Kind::Deployment).list_metadata(&ListParams::default()).await?.items.len();
        Ok(deployments >= wanted && services >= wanted)
    })
    .await
}

fn is_ours(namespace: Option<&String>) -> bool {
    namespace.is_some_and(|namespace| namespace.starts_with("scale-"))
}

/// Waits until every Inference is ready.
pub async fn until_ready(client: &Client, plan: &Plan, limit: Duration) -> anyhow::Result<()> {
    let wanted = usize::try_from(plan.inferences)?;
    until(limit, "ready Inferences", || async {
        let list = all(client, Kind::Inference).list(&ListParams::default()).await?;
        let ready = list.items.iter().filter(|live| read::condition_holds(&live.data, "Ready")).count();
        Ok(ready >= wanted)
    })
    .await
}

async fn until<F: Future<Output = kube::Result<bool>>>(
    limit: Duration,
    what: &str,
    is_so: impl Fn() -> F,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_so().await? {
        ensure!(began.elapsed() < limit, "no {what} within {limit:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Ready pods, rolled out Deployments, addresses of Services where the server gives none.
pub async fn workloads(client: &Client, plan: &Plan) -> anyhow::Result<()> {
    let every = stream::iter(0..plan.inferences).map(|index| workload(client, plan, index));
    every.buffer_unordered(PARALLEL).try_collect::<()>().await?;
    Ok(())
}

async fn workload(client: &Client, plan: &Plan, index: u32) -> kube::Result<()> {
    let (namespace, name) = plan.place(index);
    for (part, replicas) in [("v1", plan.replicas), ("router", 1)] {
        let deployments: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &namespace, &resource(Kind::Deployment));
        let deployment = format!("{name}-{part}");
        let live = deployments.get(&deployment).await?;
        let status = json!({"status": {"observedGeneration": live.metadata.generation, "replicas": replicas,
            "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}});
        deployments.patch_status(&deployment, &PatchParams::default(), &Patch::Merge(&status)).await?;
        for number in 0..replicas {
            pod(client, &namespace, &live, number).await?;
        }
        let service = if part == "router" { name.clone() } else { deployment };
        address(client, &namespace, &service, index).await?;
    }
    Ok(())
}

async fn pod(client: &Client, namespace: &str, deployment: &DynamicObject, number: u32) -> kube::Result<()> {
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(Kind::Pod));
    let name = format!("{}-{number}", deployment.metadata.name.as_deref().unwrap_or_default());
    let template = &deployment.data["spec"]["template"];
    let object = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": template["metadata"]["labels"]},
        "spec": {"containers": [{"name": "server", "image": "example.com/server:1"}], "nodeName": "node"}});
    let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    match pods.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        answer => _ = answer?,
    }
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let container = json!({"name": "server", "image": "example.com/server:1", "imageID": "", "ready": true,
        "restartCount": 0, "state": {"running": {"startedAt": now}}});
    let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1",
        "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [container]}});
    pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.map(|_| ())
}

async fn address(client: &Client, namespace: &str, service: &str, index: u32) -> kube::Result<()> {
    let services: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(Kind::Service));
    let live = services.get(service).await?;
    if read::text(&live.data, "/spec/clusterIP").is_empty() {
        let patch = json!({"spec": {"clusterIP": format!("127.9.{}.{}", index / 250, index % 250 + 1)}});
        services.patch(service, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    Ok(())
}
