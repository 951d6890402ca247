//! The node: registers itself, takes pods, and keeps a worker for each.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::address::AddressPool;
use crate::context::{Context, Shared};
use crate::housekeeping::Orphans;
use crate::images::ImagesInUse;
use crate::layout::Layout;
use crate::limits::Limiter;
use crate::options::NodeOptions;
use crate::pod::worker::{Wanted, Worker};
use crate::{claim, events, registration, schedule, sweep};

/// Attempts to register before giving up; the API is in the same process, so it is there or broken.
const REGISTRATIONS: u32 = 20;
const REGISTRATION_WAIT: Duration = Duration::from_millis(250);
/// Heartbeats between looks for what pods left behind.
const BEATS_A_CLEANUP: u32 = 5;
/// How often pods that the node could not take are looked at again.
const RECONSIDERED: Duration = Duration::from_secs(2);
/// On top of the grace of pods when the platform stops.
const STOP_MARGIN: Duration = Duration::from_secs(3);

/// Why a node could not run.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("cannot use the data folder {}: {source}; check that it can be written, or choose another one", path.display())]
    DataDir { path: PathBuf, source: io::Error },
    #[error("cannot end processes that an earlier platform left behind: {0}")]
    Sweep(io::Error),
    #[error("cannot register node {name}: {source}")]
    Register { name: String, source: kube::Error },
}

/// Runs the node until `cancel`; then its pods are stopped, and their objects stay for the next life.
/// The caller holds the data folder: processes that carry its mark are killed first.
pub async fn run(options: NodeOptions, cancel: CancellationToken) -> Result<(), NodeError> {
    let (context, writer) = set_up(options).await?;
    let mut services = JoinSet::new();
    services.spawn(writer);
    register(&context).await?;
    services.spawn(keep_house(context.clone()));
    Pods::new(context.clone()).run(&cancel).await;
    services.shutdown().await;
    context.limits.close().await;
    Ok(())
}

async fn set_up(options: NodeOptions) -> Result<(Shared, impl Future<Output = ()>), NodeError> {
    let in_data_dir = |source| NodeError::DataDir { path: options.data_dir.clone(), source };
    std::fs::create_dir_all(&options.data_dir).map_err(in_data_dir)?;
    // Paths must hold wherever a container's working folder is.
    let root = options.data_dir.canonicalize().map_err(in_data_dir)?;
    let layout = Layout::new(&root);
    for folder in [layout.pods(), layout.logs(), layout.claims(), layout.images()] {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(in_data_dir)?;
    }
    let mark = sweep::mark(&root).map_err(in_data_dir)?;
    let (name, value) = mark.split_once('=').unwrap_or((sweep::DATA_MARK, ""));
    let data_mark = (name.to_owned(), value.to_owned());
    let limits = sweep_and_detect(&options, root).await?;
    tracing::info!(limits = limits.summary(), "node");
    let (events, writer) = events::recorder(options.client.clone(), options.name.clone());
    let context = Context {
        layout,
        addresses: Mutex::new(AddressPool::new(options.pod_cidr)),
        images: ImagesInUse::default(),
        events,
        data_mark,
        limits,
        cores: registration::cores(),
        memory_bytes: registration::memory_bytes(),
        options,
    };
    Ok((Arc::new(context), writer))
}

/// Ends what an earlier life left, and then finds out what this one can limit pods with.
async fn sweep_and_detect(options: &NodeOptions, root: PathBuf) -> Result<Limiter, NodeError> {
    let means = options.limits;
    let arguments = options.executable_args.iter().map(PathBuf::from);
    let command: Vec<PathBuf> =
        std::iter::once(options.executable.clone()).chain(arguments).chain([PathBuf::from("limits")]).collect();
    let work = move || {
        let swept = sweep::sweep(&root)?;
        Ok((swept, Limiter::detect(means, &root, registration::cores(), &command)))
    };
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()));
    let (swept, limits) = done.map_err(NodeError::Sweep)?;
    if swept > 0 {
        tracing::warn!(count = swept, "ended processes that an earlier platform left behind");
    }
    Ok(limits)
}

async fn register(context: &Context) -> Result<(), NodeError> {
    let mut attempt = 1;
    loop {
        match registration::register(context).await {
            Ok(()) => return Ok(()),
            Err(source) if attempt >= REGISTRATIONS => {
                return Err(NodeError::Register { name: context.options.name.clone(), source });
            }
            Err(error) => tracing::debug!(%error, attempt, "the node could not be registered yet"),
        }
        attempt += 1;
        tokio::time::sleep(REGISTRATION_WAIT).await;
    }
}

async fn keep_house(context: Shared) {
    let mut orphans = Orphans::default();
    let mut ticks = tokio::time::interval(context.options.timing.heartbeat);
    let mut beats = 0_u32;
    loop {
        ticks.tick().await;
        context.limits.tidy();
        if beats.is_multiple_of(BEATS_A_CLEANUP)
            && let Err(error) = orphans.clean(&context).await
        {
            tracing::debug!(%error, "clean-up was skipped");
        }
        beats = beats.wrapping_add(1);
        if let Err(error) = registration::register(&context).await {
            tracing::debug!(%error, "heartbeat was skipped");
        }
    }
}

/// The pods of this node.
struct Pods {
    context: Shared,
    /// Uid to what the worker is told.
    workers: HashMap<String, watch::Sender<Wanted>>,
    running: JoinSet<String>,
    claims: JoinSet<()>,
    /// Pods that no node has yet, by uid.
    waiting: HashMap<String, Arc<Pod>>,
    /// Pods of a list that is still coming in.
    listing: Vec<Pod>,
}

impl Pods {
    fn new(context: Shared) -> Self {
        Self {
            context,
            workers: HashMap::new(),
            running: JoinSet::new(),
            claims: JoinSet::new(),
            waiting: HashMap::new(),
            listing: Vec::new(),
        }
    }

    async fn run(mut self, cancel: &CancellationToken) {
        let api: Api<Pod> = Api::all(self.context.options.client.clone());
        let events = watcher(api, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        let mut again = tokio::time::interval(RECONSIDERED);
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = again.tick(), if !self.waiting.is_empty() => self.reconsider(),
                event = events.next() => match event {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => tracing::debug!(%error, "watching pods failed; trying again"),
                    None => break,
                },
                Some(ended) = self.running.join_next() => self.forget(ended),
                Some(_) = self.claims.join_next() => {}
            }
        }
        self.stop().await;
    }

    fn take(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.listing.clear(),
            watcher::Event::InitApply(pod) => self.listing.push(pod),
            watcher::Event::InitDone => self.take_list(),
            watcher::Event::Apply(pod) => self.apply(pod),
            watcher::Event::Delete(pod) => self.gone(pod.metadata.uid.as_deref().unwrap_or_default()),
        }
    }

    /// Addresses that pods have are noted before any new one is given away.
    fn take_list(&mut self) {
        let pods = std::mem::take(&mut self.listing);
        for pod in &pods {
            self.note_address(pod);
        }
        self.waiting.clear();
        let listed: Vec<&str> = pods.iter().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let gone: Vec<String> = self.workers.keys().filter(|uid| !listed.contains(&uid.as_str())).cloned().collect();
        for uid in &gone {
            self.gone(uid);
        }
        for pod in pods {
            self.apply(pod);
        }
    }

    fn note_address(&self, pod: &Pod) {
        let Some(status) = pod.status.as_ref() else { return };
        let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let address = status.pod_ip.as_deref().and_then(|address| address.parse().ok());
        if let (Some(address), Some(uid), false) = (address, pod.metadata.uid.as_deref(), is_over) {
            self.context.addresses.lock().claim(uid, address);
        }
    }

    fn apply(&mut self, pod: Pod) {
        if schedule::is_waiting(&pod) {
            return self.claim(pod);
        }
        self.waiting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if node == Some(self.context.options.name.as_str()) {
            self.work_on(pod);
        }
    }

    fn work_on(&mut self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        let pod = Arc::new(pod);
        if let Some(worker) = self.workers.get(&uid) {
            worker.send_modify(|wanted| wanted.pod = pod);
            return;
        }
        let (sender, receiver) = watch::channel(Wanted { pod, gone: false, platform_stops: false });
        let worker = Worker::new(self.context.clone(), receiver);
        self.workers.insert(uid.clone(), sender);
        self.running.spawn(async move {
            worker.run().await;
            uid
        });
    }

    /// Notes a pod that nobody has, and tries to take it.
    fn claim(&mut self, pod: Pod) {
        let (pod, uid) = (Arc::new(pod.clone()), pod.metadata.uid.unwrap_or_default());
        self.waiting.insert(uid, pod.clone());
        self.claims.spawn(claim::claim(self.context.clone(), vec![pod]));
    }

    /// The node may have changed, and calls may have failed: pods that still wait are looked at again.
    fn reconsider(&mut self) {
        if self.claims.is_empty() && !self.waiting.is_empty() {
            let pods = self.waiting.values().cloned().collect();
            self.claims.spawn(claim::claim(self.context.clone(), pods));
        }
    }

    fn gone(&mut self, uid: &str) {
        self.waiting.remove(uid);
        if let Some(worker) = self.workers.get(uid) {
            worker.send_modify(|wanted| wanted.gone = true);
        }
    }

    fn forget(&mut self, ended: Result<String, tokio::task::JoinError>) {
        match ended {
            Ok(uid) => drop(self.workers.remove(&uid)),
            Err(error) => tracing::error!(%error, "the worker of a pod failed"),
        }
    }

    /// Stops all pods; what does not stop in time is killed as its worker is dropped.
    async fn stop(&mut self) {
        for worker in self.workers.values() {
            worker.send_modify(|wanted| wanted.platform_stops = true);
        }
        let limit = self.context.options.timing.platform_grace + STOP_MARGIN;
        let all = async { while self.running.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!("some pods did not stop in time; they are killed");
        }
        self.running.shutdown().await;
    }
}
