//! The last stage: an experiment looks for better settings of the grown predictor, and what it found is kept.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use modelway_api::profiling_conditions::{self as conditions, FAILED, SUCCEEDED};
use modelway_api::{ProfilingExperiment, Trial, labels, names};

use super::document::Tuning;
use super::story::Story;
use super::tuned::{self, Told};
use super::waits::{self, Verdict};
use crate::exit::{Failure, fail};
use crate::progress::Step;

/// The experiment.
pub const EXPERIMENT: &str = "digits-quickstart";
const MANIFEST: &str = include_str!("../../../examples/digits/tune.yaml");
/// Page of the report, in its `ConfigMap`.
const PAGE: &str = "report.html";
/// The same in the data folder.
pub const REPORT_FILE: &str = "tuning-report.html";
/// Time between two looks at what is on its way out.
const LOOK: Duration = Duration::from_millis(100);

impl Story {
    /// Whether an experiment of an earlier run goes on.
    pub async fn is_tuning(&self) -> anyhow::Result<bool> {
        let known = self.experiments().get_opt(EXPERIMENT).await?;
        Ok(known.is_some_and(|experiment| !is_over(&experiment)))
    }

    /// Waits for the experiment, which is made where there is none; the result of one that ended well is taken as it is.
    pub async fn tunes_grown(&self, step: &Step) -> anyhow::Result<Tuning> {
        let known = self.experiments().get_opt(EXPERIMENT).await?;
        let stored = known.as_ref().is_some_and(|known| ended_with(known, SUCCEEDED));
        let experiment = match known {
            Some(known) if stored => known,
            Some(known) if !is_over(&known) => self.follow(step).await?,
            other => {
                if let Some(failed) = other {
                    step.message("an earlier experiment failed, and is made again");
                    self.forget(&failed).await?;
                }
                self.apply(MANIFEST, "tune.yaml").await?;
                self.follow(step).await?
            }
        };
        let status = experiment.status.unwrap_or_default();
        let tuning = tuned::result(&status, &self.trials().await?);
        let mut tuning = tuning.context("the experiment succeeded and recommends nothing")?;
        tuning.report = self.report(status.report.as_deref()).await?;
        tuning.stored = stored;
        Ok(tuning)
    }

    /// Until the experiment is over; each trial that ends meanwhile is told.
    async fn follow(&self, step: &Step) -> anyhow::Result<ProfilingExperiment> {
        let config = watcher::Config::default().labels(&of_experiment());
        let seen = watcher(self.api::<Trial>(), config).default_backoff().applied_objects();
        let (mut seen, mut told) = (seen.boxed(), Told::default());
        let mut tell = |trial: &Trial| {
            if let Some(line) = told.line(trial) {
                step.note(&line);
            }
        };
        let waiting = |what: &str| step.message(what);
        let mut over = pin!(waits::until(self.experiments(), EXPERIMENT, self.timeout, judge, waiting));
        let experiment = loop {
            tokio::select! {
                experiment = &mut over => break experiment?,
                // A watch that broke off begins again; one that cannot leaves out the lines.
                Some(trial) = seen.next() => trial.iter().for_each(&mut tell),
            }
        };
        self.trials().await?.iter().for_each(tell);
        Ok(experiment)
    }

    /// In their order.
    async fn trials(&self) -> anyhow::Result<Vec<Trial>> {
        let mut trials = self.api::<Trial>().list(&ListParams::default().labels(&of_experiment())).await?.items;
        trials.sort_by_key(tuned::number);
        Ok(trials)
    }

    /// Deletes a failed experiment, and waits until its trials are gone: the names are needed again.
    async fn forget(&self, experiment: &ProfilingExperiment) -> anyhow::Result<()> {
        let uid = experiment.metadata.uid.clone();
        self.experiments().delete(EXPERIMENT, &DeleteParams::background()).await?;
        let start = Instant::now();
        loop {
            let is_there = self.experiments().get_opt(EXPERIMENT).await?.is_some_and(|found| found.metadata.uid == uid);
            if !is_there && self.trials().await?.is_empty() {
                return Ok(());
            }
            if start.elapsed() > self.timeout {
                let message = format!("ProfilingExperiment {EXPERIMENT} failed before, and is not gone yet");
                return Err(fail(Failure::TimedOut, message));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Where the report can be read: in the data folder, or, on a cluster, where it is.
    async fn report(&self, stored: Option<&str>) -> anyhow::Result<String> {
        let Some(folder) = &self.data_dir else {
            return Ok(stored.unwrap_or_default().to_owned());
        };
        let name = names::experiment_report(EXPERIMENT);
        let map = self.api::<ConfigMap>().get(&name).await?;
        let page = map.data.unwrap_or_default().remove(PAGE);
        let page = page.with_context(|| format!("configmap {name} has no {PAGE}"))?;
        let path = folder.join(REPORT_FILE);
        write(folder, &path, page).await.with_context(|| format!("cannot write the report to {}", path.display()))?;
        Ok(path.display().to_string())
    }

    fn experiments(&self) -> Api<ProfilingExperiment> {
        self.api()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn of_experiment() -> String {
    format!("{}={}", labels::EXPERIMENT, names::label_value(EXPERIMENT))
}

/// Whole, or as it was.
async fn write(folder: &Path, path: &Path, page: String) -> io::Result<()> {
    let beside: PathBuf = folder.join(format!("{REPORT_FILE}.new"));
    tokio::fs::write(&beside, page).await?;
    tokio::fs::rename(&beside, path).await
}

fn is_over(experiment: &ProfilingExperiment) -> bool {
    experiment.status.as_ref().is_some_and(|status| conditions::is_over(&status.conditions))
}

fn ended_with(experiment: &ProfilingExperiment, type_: &str) -> bool {
    experiment.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, type_))
}

fn judge(experiment: &ProfilingExperiment) -> Verdict {
    let status = experiment.status.clone().unwrap_or_default();
    let last = status.conditions.iter().rev().find(|condition| condition.status == "True");
    match last {
        Some(last) if last.type_ == SUCCEEDED => Verdict::Ready,
        Some(last) if last.type_ == FAILED => Verdict::Never(format!(
            "{}: {}; see `modelway get trials`, and run the quickstart again",
            last.reason, last.message
        )),
        _ => Verdict::Wait(tuned::waiting(&status)),
    }
}
