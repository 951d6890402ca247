//! Carrying out the actions of a plan.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Preconditions};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{API_RETRY, LiveRun, Note, Worker};
use crate::context::{call, is_missing};
use crate::pod::launch::{self, Launch, Stage};
use crate::pod::outcome::Outcome;
use crate::pod::plan::Action;
use crate::pod::probe::{self, ProbeKind, ProbeRule, Verdict};
use crate::pod::prober::{Finding, Prober, listeners_rule};
use crate::pod::record::{Reason, Sandbox, Stopping};
use crate::pod::{exec, run, volumes};
use crate::shim::Order;

/// How long a postStart hook may take.
const HOOK_LIMIT: Duration = Duration::from_mins(1);

impl Worker {
    /// Carries out one action; returns whether the plan should be made anew.
    pub(super) async fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Prepare => self.prepare(),
            Action::Start { container } => self.start(container).await,
            Action::Terminate { container, grace } => self.terminate(container, grace).await,
            Action::Kill { container } => self.kill(container).await,
            Action::Conclude(outcome) => self.conclude(outcome),
            Action::Release => {
                self.release();
                return false;
            }
            Action::Remove => return self.remove().await,
            Action::Leave => self.leave(),
        }
        true
    }

    /// Sees to what must be there before anything else.
    pub(super) fn begin(&mut self) {
        if self.disrupted() && self.record.finished().is_some() {
            self.context.events.warning(&self.pod, None, "PlatformEnded", "the platform ended while the pod ran");
        }
    }

    fn prepare(&mut self) {
        let Some(address) = self.take_address() else {
            let why = format!("all {} pod addresses are in use", self.context.options.pod_cidr.capacity());
            return self.prepare_later(Reason::new("NoPodAddress", why), "FailedCreatePodSandBox", false);
        };
        self.address = Some(address);
        self.record.sandbox = Sandbox::Preparing;
        let (context, pod, sender) = (self.context.clone(), self.pod.clone(), self.sender.clone());
        self.tasks.spawn(async move {
            let place = launch::place(&context, address);
            let prepared = volumes::materialise(&context, &pod, &place).await;
            let _ = sender.send(Note::Prepared(prepared)).await;
        });
    }

    fn take_address(&self) -> Option<Ipv4Addr> {
        if self.on_host_network() {
            return Some(Ipv4Addr::LOCALHOST);
        }
        let mut pool = self.context.addresses.lock();
        pool.allocate(&self.uid)
    }

    fn on_host_network(&self) -> bool {
        self.pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
    }

    async fn start(&mut self, index: usize) {
        let (Some(container), Some(address)) = (self.container(index), self.address) else { return };
        let stage = Stage { pod: &self.pod, address, roots: &self.roots };
        let number = self.record.containers[index].runs;
        let launch = match launch::launch(&self.context, &stage, &container, number).await {
            Ok(launch) => Arc::new(launch),
            Err(why) => return self.start_later(index, why),
        };
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let label = format!("{namespace}/{}/{}", self.pod.metadata.name.as_deref().unwrap_or_default(), container.name);
        let (handle, end) = match run::start(&self.context, &self.uid, &label, &launch.spec).await {
            Ok(started) => started,
            Err(error) => {
                let program = self.context.options.executable.display();
                let why = format!("cannot start the shim {program}: {error}");
                return self.start_later(index, Reason::new("RunContainerError", why));
            }
        };
        self.blocked.remove(&index);
        self.record.limits.insert(index, launch.enforced.clone());
        self.record.containers[index].begin(&self.rules.containers[index], Timestamp::now());
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let exit = end.wait().await;
            let _ = sender.send(Note::Ended { container: index, exit }).await;
        });
        let live = self.watch_over(index, number, &container, launch, handle);
        self.runs.insert(index, live);
        self.context.events.normal(
            &self.pod,
            Some(&container.name),
            "Started",
            format!("Started container {}", container.name),
        );
    }

    /// Starts the probes and the postStart hook of a run.
    fn watch_over(
        &self,
        index: usize,
        number: u32,
        container: &Container,
        launch: Arc<Launch>,
        handle: run::RunHandle,
    ) -> LiveRun {
        let (started, gate) = watch::channel(!self.rules.containers[index].has_startup_probe);
        let mut helpers = JoinSet::new();
        for rule in self.probe_rules(container) {
            let (findings, mut found) = tokio::sync::mpsc::channel(4);
            let prober = Prober {
                context: self.context.clone(),
                uid: self.uid.clone(),
                launch: launch.clone(),
                rule,
                shim: handle.pid(),
                host_network: self.on_host_network(),
            };
            helpers.spawn(prober.run(gate.clone(), findings));
            let sender = self.sender.clone();
            helpers.spawn(async move {
                while let Some(finding) = found.recv().await {
                    let _ = sender.send(Note::Found { container: index, run: number, finding }).await;
                }
            });
        }
        let hook = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.clone());
        if let Some(command) = hook.and_then(|hook| hook.exec).and_then(|exec| exec.command) {
            let (context, uid, launch, sender) =
                (self.context.clone(), self.uid.clone(), launch.clone(), self.sender.clone());
            helpers.spawn(async move {
                if let Err(error) = exec::run(&context, &uid, &launch, "post-start", &command, HOOK_LIMIT).await {
                    let failure = Some(Reason::new("FailedPostStartHook", error));
                    let finding =
                        Finding { kind: ProbeKind::Liveness, verdict: Verdict::Failing, failure, counts: true };
                    let _ = sender.send(Note::Found { container: index, run: number, finding }).await;
                }
            });
        }
        LiveRun { handle, launch, started, _helpers: helpers }
    }

    fn probe_rules(&self, container: &Container) -> Vec<ProbeRule> {
        let kinds = [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness];
        let mut rules: Vec<ProbeRule> = kinds.into_iter().filter_map(|kind| probe::rule(container, kind)).collect();
        let ports = probe::declared_ports(container);
        if container.readiness_probe.is_none() && !ports.is_empty() {
            rules.push(listeners_rule(ports));
        }
        if let Some(period) = self.context.options.timing.probe_period {
            for rule in &mut rules {
                rule.period = period;
            }
        }
        rules
    }

    async fn terminate(&mut self, index: usize, grace: Duration) {
        let name = self.container_name(index);
        let Some(running) = self.record.containers[index].running_mut() else { return };
        let hurried = running.stopping.is_some();
        running.stopping = Some(Stopping { kill_at: Timestamp::now() + grace, killed: false });
        running.ready = false;
        let why = running.condemned.clone().map_or_else(String::new, |why| format!(": {why}"));
        if hurried {
            return;
        }
        self.context.events.normal(&self.pod, Some(&name), "Killing", format!("Stopping container {name}{why}"));
        let hook =
            self.container(index).and_then(|container| container.lifecycle).and_then(|lifecycle| lifecycle.pre_stop);
        let run = self.record.containers[index].restarts();
        let Some(live) = self.runs.get_mut(&index) else { return };
        let Some(hook) = hook else { return live.handle.order(Order::Terminate).await };
        let (context, uid, launch, sender) =
            (self.context.clone(), self.uid.clone(), live.launch.clone(), self.sender.clone());
        self.tasks.spawn(async move {
            if let Err(error) = before_stop(&context, &uid, &launch, &hook, grace).await {
                tracing::info!(uid, error, "a preStop hook failed");
            }
            let _ = sender.send(Note::HookDone { container: index, run }).await;
        });
    }

    async fn kill(&mut self, index: usize) {
        if let Some(stopping) =
            self.record.containers[index].running_mut().and_then(|running| running.stopping.as_mut())
        {
            stopping.killed = true;
        }
        if let Some(live) = self.runs.get_mut(&index) {
            live.handle.order(Order::Kill).await;
        }
    }

    fn conclude(&mut self, outcome: Outcome) {
        if let Outcome::Failed { why: Some(why), .. } = &outcome {
            self.context.events.warning(&self.pod, None, &why.reason, why.message.clone());
        }
        self.record.outcome = Some(outcome);
    }

    /// Lets go of what a finished pod does not need. Its logs and the records of its runs stay.
    fn release(&mut self) {
        if std::mem::replace(&mut self.released, true) {
            return;
        }
        self.tasks.abort_all();
        self.context.addresses.lock().release(&self.uid);
        self.context.images.release(&self.uid);
        self.context.limits.release(&self.uid);
        let pod = self.context.layout.pod(&self.uid);
        for folder in ["volumes", "home", "tmp"] {
            if let Err(error) = volumes::remove_tree(&pod.join(folder)) {
                tracing::warn!(%error, uid = self.uid, folder, "a folder of a finished pod could not be removed");
            }
        }
    }

    async fn remove(&mut self) -> bool {
        self.publish().await;
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.context.options.client.clone(), namespace);
        let preconditions = Preconditions { uid: Some(self.uid.clone()), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let is_settled =
            |error: &kube::Error| is_missing(error) || matches!(error, kube::Error::Api(status) if status.code == 409);
        match call(api.delete(self.pod.metadata.name.as_deref().unwrap_or_default(), &params)).await {
            Err(error) if !is_settled(&error) => {
                tracing::debug!(%error, uid = self.uid, "a stopped pod could not be removed from the API; trying again");
                self.retry = Some(Timestamp::now() + API_RETRY);
                return false;
            }
            _ => {}
        }
        self.clean_up();
        self.left = true;
        false
    }

    fn leave(&mut self) {
        if self.wanted.borrow().gone {
            self.clean_up();
        }
        self.context.addresses.lock().release(&self.uid);
        self.context.limits.release(&self.uid);
        self.left = true;
    }

    /// Removes everything of a pod whose object is gone, logs included.
    fn clean_up(&mut self) {
        self.release();
        let metadata = &self.pod.metadata;
        let (namespace, name) =
            (metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default());
        let logs = self.context.layout.pod_logs(namespace, name, &self.uid);
        let removed = volumes::remove(&self.context, &self.uid).and_then(|()| volumes::remove_tree(&logs));
        if let Err(error) = removed {
            tracing::warn!(%error, uid = self.uid, "files of a removed pod are left; they go at the next clean-up");
        }
    }
}

async fn before_stop(
    context: &crate::context::Context,
    uid: &str,
    launch: &Launch,
    hook: &LifecycleHandler,
    grace: Duration,
) -> Result<(), String> {
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0)).min(grace)).await;
        return Ok(());
    }
    match hook.exec.as_ref().and_then(|exec| exec.command.as_ref()) {
        Some(command) => exec::run(context, uid, launch, "pre-stop", command, grace).await,
        None => Err("this node runs exec and sleep hooks only".to_owned()),
    }
}
