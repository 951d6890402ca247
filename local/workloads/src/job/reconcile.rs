//! Reads a Job's world from the caches, asks for a plan and carries it out.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::decide::{JobPlan, decide};
use super::pod::new_pod;
use super::tally::{TRACKING, is_tracked};
use crate::batch;
use crate::call::CallError;
use crate::events::Note;
use crate::hub::Hub;
use crate::key::Key;
use crate::pods;
use crate::queue::Queue;
use crate::worker::{Next, Reconcile};

/// The Job controller.
pub(crate) struct JobReconciler {
    pub(crate) hub: Arc<Hub>,
    /// See `WorkloadOptions::job_backoff_base`.
    pub(crate) backoff_base: Duration,
}

impl Reconcile for JobReconciler {
    const NAME: &'static str = "job";

    fn queue(&self) -> &Queue {
        &self.hub.queues.jobs
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, CallError> {
        let job = self.hub.caches.jobs.get(key);
        let uid = job.as_ref().and_then(|job| job.uid());
        let pods = self.pods_named_after(key);
        let (mine, orphans): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| {
            let owner = pods::controller(&pod.metadata).map(|owner| owner.uid.as_str());
            uid.is_some() && owner == uid.as_deref()
        });
        self.release_orphans(key, &orphans).await?;
        let Some(job) = job else { return Ok(Next::Never) };
        let plan = decide(&job, &mine, self.backoff_base, Timestamp::now());
        self.execute(key, &job, &mine, plan).await
    }
}

impl JobReconciler {
    fn pods_named_after(&self, key: &Key) -> Vec<Arc<Pod>> {
        let mut pods = self.hub.caches.pods.in_namespace(&key.namespace);
        pods.retain(|pod| {
            pods::controller(&pod.metadata).is_some_and(|owner| owner.kind == "Job" && owner.name == key.name)
        });
        pods
    }

    /// Lets go of pods whose Job is gone: nobody will count them.
    async fn release_orphans(&self, key: &Key, orphans: &[Arc<Pod>]) -> Result<(), CallError> {
        let orphans: Vec<_> = orphans.iter().filter(|pod| is_tracked(pod)).collect();
        if orphans.is_empty() {
            return Ok(());
        }
        let live = self.hub.fetch::<Job>(key).await?.and_then(|job| job.uid());
        for pod in orphans {
            let owner = pods::controller(&pod.metadata).map(|owner| owner.uid.clone());
            if owner != live {
                self.release(pod, false).await?;
            }
        }
        Ok(())
    }

    async fn execute(&self, key: &Key, job: &Arc<Job>, pods: &[Arc<Pod>], plan: JobPlan) -> Result<Next, CallError> {
        let uid = job.uid().unwrap_or_default();
        if plan.delete_job {
            self.hub.delete::<Job>(key, &uid).await?;
            return Ok(Next::Event);
        }
        if let Some(status) = plan.status {
            let mut written = Job::clone(job);
            written.status = Some(status);
            self.hub.replace_status(&written).await?;
        }
        for note in plan.notes {
            self.hub.recorder.record(job.as_ref(), note);
        }
        let releases = batch::chosen(pods, &plan.release).into_iter().map(|pod| self.release(pod, false));
        let released = batch::run(releases.collect()).await;
        released.into_iter().collect::<Result<(), _>>()?;
        let discards = batch::chosen(pods, &plan.discard).into_iter().map(|pod| self.discard(job, pod));
        let discarded = batch::run(discards.collect()).await;
        discarded.into_iter().collect::<Result<(), _>>()?;
        let deletes = batch::chosen(pods, &plan.delete).into_iter().map(|pod| self.delete(job, pod));
        let deleted = batch::run(deletes.collect()).await;
        deleted.into_iter().collect::<Result<(), _>>()?;
        self.create(job, plan.create).await?;
        Ok(plan.next.map_or(Next::Event, Next::After))
    }

    /// Takes the tracking finalizer off. `unchanged` = only when the pod is still as it was read.
    async fn release(&self, pod: &Pod, unchanged: bool) -> Result<(), CallError> {
        if !is_tracked(pod) {
            return Ok(());
        }
        let rest: Vec<&String> = pod.finalizers().iter().filter(|finalizer| *finalizer != TRACKING).collect();
        let mut patch = json!({"metadata": {"finalizers": rest}});
        if unchanged {
            patch["metadata"]["resourceVersion"] = json!(pod.resource_version());
        }
        match self.hub.patch::<Pod>(&Key::of(pod), &pod.uid().unwrap_or_default(), &patch).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// A pod that ended in the meantime must still be counted, so the release is conditional.
    async fn discard(&self, job: &Job, pod: &Pod) -> Result<(), CallError> {
        self.release(pod, true).await?;
        self.delete(job, pod).await
    }

    async fn delete(&self, job: &Job, pod: &Pod) -> Result<(), CallError> {
        self.hub.delete::<Pod>(&Key::of(pod), &pod.uid().unwrap_or_default()).await?;
        self.hub.recorder.record(job, Note::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name_any())));
        Ok(())
    }

    async fn create(&self, job: &Job, count: usize) -> Result<(), CallError> {
        let pod = new_pod(job);
        for result in batch::run((0..count).map(|_| self.hub.create(&pod)).collect()).await {
            match result {
                Ok((name, _)) => {
                    self.hub.recorder.record(job, Note::normal("SuccessfulCreate", format!("Created pod: {name}")));
                }
                Err(error) => {
                    self.hub.recorder.record(job, Note::warning("FailedCreate", error.to_string()));
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
