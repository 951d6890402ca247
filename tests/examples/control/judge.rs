//! One round of questions to one server.

use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

use super::sides::Side;

/// Objects of a round.
const OBJECTS: usize = 1_000;
/// Requests on the way at a time.
const LANES: usize = 16;
/// Times that everything is listed.
const LISTS: usize = 20;
const WATCHERS: usize = 100;
/// Changes that every watcher must see.
const CHANGES: usize = 50;
/// Changes whose way to one watcher is timed.
const TIMED: usize = 50;
/// Longest wait for one event.
const EVENT: Duration = Duration::from_secs(30);

type Figures = Vec<(&'static str, f64)>;

/// Creates, reads, lists, applies, watches and deletes; every figure but the latency is a rate per second.
pub async fn round(side: &Side, round: usize) -> anyhow::Result<Figures> {
    let api: Api<ConfigMap> = Api::namespaced(side.client.clone(), "default");
    let mut figures = Figures::new();
    let name = |index: usize| format!("r{round}-{index}");
    let each = |seconds: f64| OBJECTS as f64 / seconds;

    let start = Instant::now();
    in_lanes(|index| create(&api, name(index))).await?;
    figures.push(("createPerSecond", each(start.elapsed().as_secs_f64())));

    let start = Instant::now();
    in_lanes(|index| {
        let (api, name) = (&api, name(index));
        async move { api.get(&name).await.map(drop) }
    })
    .await?;
    figures.push(("getPerSecond", each(start.elapsed().as_secs_f64())));

    let start = Instant::now();
    for _ in 0..LISTS {
        let list = api.list(&ListParams::default()).await?;
        anyhow::ensure!(list.items.len() >= OBJECTS, "a list of {} objects", list.items.len());
    }
    figures.push(("listOf1000PerSecond", LISTS as f64 / start.elapsed().as_secs_f64()));

    let start = Instant::now();
    in_lanes(|index| apply(&api, name(index))).await?;
    figures.push(("applyPerSecond", each(start.elapsed().as_secs_f64())));

    figures.push(("watchLatencyMilliseconds", latency(&api, &name(0)).await?));
    figures.push(("eventsPerSecondTo100Watchers", fan_out(&api, &name(1)).await?));

    let (delete, all) = (DeleteParams::default(), ListParams::default());
    let everything = api.delete_collection(&delete, &all);
    everything.await?;
    Ok(figures)
}

async fn in_lanes<F, W>(work: F) -> kube::Result<()>
where
    F: Fn(usize) -> W,
    W: Future<Output = kube::Result<()>>,
{
    stream::iter((0..OBJECTS).map(work)).buffer_unordered(LANES).try_collect().await
}

fn object(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.data = Some([("text".to_owned(), "x".repeat(500))].into());
    object
}

async fn create(api: &Api<ConfigMap>, name: String) -> kube::Result<()> {
    api.create(&PostParams::default(), &object(&name)).await.map(drop)
}

async fn apply(api: &Api<ConfigMap>, name: String) -> kube::Result<()> {
    let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"mine": name}});
    api.patch(&name, &PatchParams::apply("bench"), &Patch::Apply(patch)).await.map(drop)
}

async fn change(api: &Api<ConfigMap>, name: &str, number: usize) -> kube::Result<ConfigMap> {
    let patch = json!({"data": {"number": number.to_string()}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// The newest version of all: a watch from there has nothing to catch up with.
async fn now(api: &Api<ConfigMap>) -> anyhow::Result<String> {
    Ok(api.list(&ListParams::default().limit(1)).await?.metadata.resource_version.unwrap_or_default())
}

/// From sending a change to seeing it in a watch: median, in milliseconds.
async fn latency(api: &Api<ConfigMap>, name: &str) -> anyhow::Result<f64> {
    let version = now(api).await?;
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = api.watch(&parameters, &version).await?.boxed();
    let mut times = Vec::new();
    for number in 0..TIMED {
        let start = Instant::now();
        change(api, name, number).await?;
        next(&mut events).await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMED / 2])
}

/// Events that arrive in a second at watchers that all watch one object.
async fn fan_out(api: &Api<ConfigMap>, name: &str) -> anyhow::Result<f64> {
    let version = now(api).await?;
    let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let mut events = api.watch(&parameters, &version).await?.boxed();
        watchers.push(tokio::spawn(async move {
            for _ in 0..CHANGES {
                next(&mut events).await?;
            }
            anyhow::Ok(())
        }));
    }
    let start = Instant::now();
    for number in 0..CHANGES {
        change(api, name, 1_000 + number).await?;
    }
    for watcher in watchers {
        watcher.await??;
    }
    Ok((WATCHERS * CHANGES) as f64 / start.elapsed().as_secs_f64())
}

async fn next<S>(events: &mut S) -> anyhow::Result<()>
where
    S: futures::Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin,
{
    loop {
        let event = tokio::time::timeout(EVENT, events.next()).await?;
        match event {
            Some(Ok(WatchEvent::Modified(_))) => return Ok(()),
            Some(Ok(WatchEvent::Error(status))) => anyhow::bail!("the watch failed: {status:?}"),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => anyhow::bail!("the watch ended"),
        }
    }
}
