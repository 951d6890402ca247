//! A namespace to work in, and waiting by watches.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, NamespaceResourceScope};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource};
use modelway_api::Inference;
use serde::de::DeserializeOwned;

/// Every wait of a flow; generous, since test machines are shared.
const TIMEOUT: Duration = Duration::from_mins(3);

/// One flow's own namespace.
pub struct Flow {
    pub client: Client,
    pub namespace: String,
    /// Where containers are processes, their images are only names.
    images: Images,
}

/// What manifests' images are called on a platform.
#[derive(Clone, Debug)]
pub struct Images {
    /// Modelway's own.
    pub own: String,
    /// One with a shell.
    pub shell: String,
}

impl Default for Images {
    fn default() -> Self {
        Self { own: modelway_api::image(), shell: SHELL.to_owned() }
    }
}

/// The image with a shell, as manifests of flows name it.
const SHELL: &str = "busybox";

impl Flow {
    /// Creates the namespace.
    pub async fn new(client: Client, namespace: &str) -> anyhow::Result<Self> {
        Self::with_images(client, namespace, Images::default()).await
    }

    /// Creates the namespace; manifests run with these images.
    pub async fn with_images(client: Client, namespace: &str, images: Images) -> anyhow::Result<Self> {
        let api: Api<Namespace> = Api::all(client.clone());
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.to_owned());
        api.create(&PostParams::default(), &object).await?;
        Ok(Self { client, namespace: namespace.to_owned(), images })
    }

    /// An API of the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies every document of a manifest, as a user would.
    pub async fn apply(&self, manifest: &str) -> anyhow::Result<()> {
        let manifest = manifest.replace(&modelway_api::image(), &self.images.own);
        let manifest = manifest.replace(&format!("image: {SHELL}"), &format!("image: {}", self.images.shell));
        let documents: Vec<DynamicObject> = serde_saphyr::from_multiple(&manifest)?;
        for document in documents {
            let types = document.types.clone().context("apiVersion and kind are needed")?;
            let gvk = GroupVersionKind::try_from(&types)?;
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &self.namespace, &ApiResource::from_gvk(&gvk));
            let name = document.metadata.name.clone().context("metadata.name is needed")?;
            let parameters = PatchParams::apply("flow").validation_strict();
            api.patch(&name, &parameters, &Patch::Apply(&document)).await.with_context(|| format!("apply {name}"))?;
        }
        Ok(())
    }

    /// Waits until an object is as wanted; the last state is in the error.
    pub async fn until<K>(&self, name: &str, wanted: impl Fn(&K) -> bool) -> anyhow::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static,
        K::DynamicType: Default,
    {
        let mut last = None;
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let watched = async {
            let mut events = watcher(self.api::<K>(), config).default_backoff().applied_objects().boxed();
            while let Some(object) = events.try_next().await? {
                if wanted(&object) {
                    return Ok(Some(object));
                }
                last = Some(object);
            }
            Ok(None)
        };
        let found: anyhow::Result<Option<K>> =
            tokio::time::timeout(TIMEOUT, watched).await.unwrap_or_else(|_| Ok(None));
        found?.with_context(|| format!("{name} did not become as wanted; last seen: {last:#?}"))
    }

    /// An Inference that is ready for its newest spec.
    pub async fn ready(&self, name: &str) -> anyhow::Result<Inference> {
        self.until(name, |inference: &Inference| {
            condition(inference, "Ready").is_some_and(|(status, ..)| status == "True")
        })
        .await
    }

    /// The URL of an Inference that is ready for its newest spec, once it can be reached from here. On Kubernetes a
    /// node may learn of a new Service's address seconds after its pods are ready, and until then nobody is at home.
    pub async fn endpoint(&self, name: &str) -> anyhow::Result<String> {
        let inference = self.ready(name).await?;
        let endpoint = inference.status.and_then(|status| status.inference_endpoint).context("no endpoint")?;
        let address: http::Uri = endpoint.parse().with_context(|| format!("the endpoint {endpoint}"))?;
        let authority = address.authority().with_context(|| format!("no host in the endpoint {endpoint}"))?;
        let to = (authority.host(), authority.port_u16().unwrap_or(80));
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            match tokio::time::timeout(Duration::from_secs(5), tokio::net::TcpStream::connect(to)).await {
                Ok(Ok(_)) => return Ok(endpoint),
                failed if tokio::time::Instant::now() > deadline => {
                    anyhow::bail!("{name} is ready, but nobody can be reached at {endpoint}: {failed:?}");
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Waits for an Event on an object, and gives its message.
    pub async fn event(&self, object: &str, reason: &str) -> anyhow::Result<String> {
        let events: Api<Event> = self.api();
        let deadline = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let all = events.list(&ListParams::default()).await?;
            let matching = |event: &&Event| {
                event.involved_object.name.as_deref() == Some(object) && event.reason.as_deref() == Some(reason)
            };
            if let Some(event) = all.items.iter().find(matching) {
                return Ok(event.message.clone().unwrap_or_default());
            }
            if tokio::time::Instant::now() > deadline {
                let seen: Vec<_> = all
                    .items
                    .iter()
                    .map(|event| (&event.involved_object.name, &event.reason, &event.message))
                    .collect();
                anyhow::bail!("no event {reason} on {object}; seen: {seen:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Status, reason and message of a condition, once it speaks of the newest spec.
pub fn condition<'a>(inference: &'a Inference, type_: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let status = inference.status.as_ref()?;
    if status.observed_generation != inference.metadata.generation {
        return None;
    }
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((&found.status, &found.reason, &found.message))
}
