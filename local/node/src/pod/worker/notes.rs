//! Taking in what happened.

use std::io::Read;
use std::path::Path;

use k8s_openapi::jiff::Timestamp;

use super::{Note, Worker};
use crate::pod::advice::with_advice;
use crate::pod::probe::{ProbeKind, Verdict};
use crate::pod::prober::Finding;
use crate::pod::record::{ContainerState, Reason, Sandbox, StopCause, Termination};
use crate::pod::{adopt, exec, launch, volumes};
use crate::shim::{ExitRecord, Order};

/// Bytes of a termination message, as in Kubernetes.
const MESSAGE_LIMIT: u64 = 4096;

impl Worker {
    pub(super) async fn take(&mut self, note: Note) {
        match note {
            Note::Prepared(Ok(roots)) => self.prepared(roots),
            Note::Prepared(Err(blocked)) => self.prepare_later(blocked.why, blocked.event, blocked.is_pull),
            Note::Ended { container, exit } => self.ended(container, exit),
            Note::Found { container, run, finding } => self.found(container, run, &finding),
            Note::HookDone { container, run } => {
                if self.record.containers[container].restarts() == run
                    && let Some(live) = self.runs.get_mut(&container)
                {
                    live.handle.order(Order::Terminate).await;
                }
            }
        }
    }

    fn prepared(&mut self, roots: volumes::Roots) {
        self.roots = roots;
        self.record.sandbox = Sandbox::Ready;
        for container in &mut self.record.containers {
            if container.runs == 0 {
                container.state = ContainerState::Waiting(Reason::new("ContainerCreating", ""));
            }
        }
        let Some(address) = self.address.filter(|_| volumes::needs_refresh(&self.pod)) else { return };
        let (context, wanted) = (self.context.clone(), self.wanted.clone());
        self.tasks.spawn(async move {
            loop {
                tokio::time::sleep(context.options.timing.refresh).await;
                let pod = wanted.borrow().pod.clone();
                volumes::refresh(&context, &pod, &launch::place(&context, address)).await;
            }
        });
    }

    /// The pod's surroundings are not there yet; every container that waits for them says so.
    pub(super) fn prepare_later(&mut self, why: Reason, event: &str, is_pull: bool) {
        let timing = &self.context.options.timing;
        let wait = self.prepare_backoff.blocked(if is_pull { &timing.pull } else { &timing.blocked });
        let again = is_pull && self.prepare_backoff.failures() > 1;
        let shown = if again { Reason::new("ImagePullBackOff", why.message.clone()) } else { why.clone() };
        self.context.events.warning(&self.pod, None, event, why.message);
        let retry_at = Timestamp::now() + wait;
        self.record.sandbox = Sandbox::Missing { retry_at: Some(retry_at) };
        for container in self.record.containers.iter_mut().filter(|container| container.runs == 0) {
            container.state = ContainerState::Waiting(shown.clone());
        }
    }

    /// A container cannot start yet.
    pub(super) fn start_later(&mut self, index: usize, why: Reason) {
        let wait = self.blocked.entry(index).or_default().blocked(&self.context.options.timing.blocked);
        let name = self.container_name(index);
        let is_known =
            matches!(&self.record.containers[index].state, ContainerState::Waiting(before) if *before == why);
        if !is_known {
            self.context.events.warning(&self.pod, Some(&name), &why.reason, why.message.clone());
        }
        self.record.containers[index].block(why, Timestamp::now() + wait);
    }

    fn ended(&mut self, index: usize, mut exit: ExitRecord) {
        let live = self.runs.remove(&index);
        let container = self.container(index);
        let stopped_by_platform = self.record.stop.is_some_and(|stop| stop.cause == StopCause::PlatformStops);
        if stopped_by_platform && !exit.platform_lost {
            // Whatever it said when it was told to stop: its work is not done, and the next life must know.
            exit.platform_lost = true;
            let _ = live.as_ref().map(|live| exit.write(&live.launch.spec.exit_file));
        }
        let mut termination = adopt::termination(&exit, Timestamp::now());
        let is_ending = self.is_ending();
        let wants_logs = container
            .and_then(|container| container.termination_message_policy)
            .is_some_and(|policy| policy == "FallbackToLogsOnError");
        termination.message = exit.start_error.or_else(|| {
            let launch = &live.as_ref()?.launch;
            let fallback = || (wants_logs && termination.exit_code != 0).then(|| exec::tail(&launch.spec.log_file));
            let said = message(&launch.termination_file()).or_else(fallback).filter(|message| !message.is_empty());
            let advised = said.map(|said| with_advice(said, launch.address));
            let hint = launch.enforced.hint().filter(|_| termination.exit_code != 0 && !is_ending);
            [advised, hint].into_iter().flatten().reduce(|said, hint| format!("{said}\n{hint}"))
        });
        self.settle(index, termination);
    }

    fn settle(&mut self, index: usize, termination: Termination) {
        let name = self.container_name(index);
        let is_ending = self.is_ending();
        let record = &mut self.record.containers[index];
        if is_ending {
            record.done = true;
            record.state = ContainerState::Terminated(termination);
            return;
        }
        if termination.reason == "StartError" {
            let message = termination.message.clone().unwrap_or_default();
            self.context.events.warning(&self.pod, Some(&name), "Failed", format!("Error: {message}"));
        }
        let delay = record.end(&self.rules.containers[index], &self.context.options.timing.restart, termination);
        if delay.is_some_and(|delay| !delay.is_zero()) {
            let pod = self.pod.metadata.name.as_deref().unwrap_or_default();
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            self.context.events.warning(&self.pod, Some(&name), "BackOff", message);
        }
    }

    fn found(&mut self, index: usize, run: u32, finding: &Finding) {
        if self.record.containers[index].restarts() != run {
            return;
        }
        let name = self.container_name(index);
        let Some(running) = self.record.containers[index].running_mut().filter(|running| running.stopping.is_none())
        else {
            return;
        };
        match (finding.kind, finding.verdict) {
            (ProbeKind::Startup, Verdict::Passing) => {
                running.started = true;
                running.ready |= !self.rules.containers[index].has_readiness_probe;
                if let Some(live) = self.runs.get(&index) {
                    live.started.send_replace(true);
                }
            }
            (ProbeKind::Startup | ProbeKind::Liveness, Verdict::Failing) => {
                let why = finding.failure.as_ref().map(|why| why.message.clone()).unwrap_or_default();
                running.condemned = Some(format!("{} probe failed: {why}", finding.kind.name()));
            }
            (ProbeKind::Startup | ProbeKind::Liveness, _) => {}
            (ProbeKind::Readiness, verdict) => {
                running.ready = verdict == Verdict::Passing;
                // A server that is still starting refuses connections: that is no reason yet, three counted failures are.
                let is_told = |why: &Reason| verdict == Verdict::Failing || why.reason != "Unhealthy";
                running.not_ready = finding.failure.clone().filter(|why| !running.ready && is_told(why));
            }
        }
        if let Some(why) = &finding.failure {
            let is_general = why.reason == "Unhealthy";
            if finding.counts || !is_general {
                let message = if is_general {
                    format!("{} probe failed: {}", finding.kind.name(), why.message)
                } else {
                    why.message.clone()
                };
                self.context.events.warning(&self.pod, Some(&name), &why.reason, message);
            }
        }
    }
}

fn message(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MESSAGE_LIMIT).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.is_empty())
}
