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
/// One more knob.
const CPU: &str = "    - category: resource
      parameters:
        - name: cpu
          parameterType: discrete
          feasibleSpace: {list: [SIZES]}
";
/// Page of the report, in its `ConfigMap`.
const PAGE: &str = "report.html";
/// The same in the data folder.
pub const REPORT_FILE: &str = "tuning-report.html";
/// Powers of two, up to 512 cores.
const MOST_SIZES: u32 = 10;
/// With fewer there is nothing to choose.
const LEAST_CORES: usize = 3;
/// Time between two looks at what is on its way out.
const LOOK: Duration = Duration::from_millis(100);

/// The experiment; where there are cores to choose from, how many of them is tuned as well. One core is the load
/// generator's own.
fn manifest(cores: usize) -> String {
    if cores < LEAST_CORES {
        return MANIFEST.to_owned();
    }
    let most = cores - 1;
    let mut sizes: Vec<usize> = (0..MOST_SIZES).map(|power| 1 << power).take_while(|size| *size < most).collect();
    sizes.push(most);
    let list: Vec<String> = sizes.iter().map(|size| format!("\"{size}\"")).collect();
    MANIFEST.replacen("  objective:\n", &format!("{}  objective:\n", CPU.replace("SIZES", &list.join(", "))), 1)
}

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
                // Nodes of a cluster are of sizes that nobody knows here.
                let cores = self.data_dir.as_ref().and_then(|_| std::thread::available_parallelism().ok());
                self.apply(&manifest(cores.map_or(1, usize::from)), "tune.yaml").await?;
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

#[cfg(test)]
mod tests {
    use modelway_api::trial::Category;

    use super::*;

    fn sizes(cores: usize) -> Option<Vec<String>> {
        let experiment: ProfilingExperiment = serde_saphyr::from_str(&manifest(cores)).unwrap();
        let mut groups = experiment.spec.tunable_parameters.into_iter();
        assert_eq!(groups.next().map(|group| group.parameters.len()), Some(3));
        groups.next().map(|mut group| {
            assert!(group.category == Category::Resource && group.parameters.len() == 1);
            group.parameters.remove(0).feasible_space.list
        })
    }

    #[test]
    fn cores_are_a_knob_where_there_are_some_to_choose_from() {
        assert_eq!((sizes(1), sizes(2)), (None, None));
        assert_eq!(sizes(3).unwrap(), ["1", "2"]);
        assert_eq!(sizes(4).unwrap(), ["1", "2", "3"]);
        assert_eq!(sizes(16).unwrap(), ["1", "2", "4", "8", "15"]);
        assert_eq!(sizes(17).unwrap(), ["1", "2", "4", "8", "16"]);
    }
}
