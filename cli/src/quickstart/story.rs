//! The stages, in order: train, publish, serve, traffic, new weights, sleep and wake, better settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, ResourceExt};
use modelway_api::{Inference, ModelVersion, names};

use super::document::{Document, Version};
use super::tally::Tally;
use super::traffic::{self, Planned};
use super::tuned;
use super::waits;
use super::way::Way;
use crate::commands::{Mode, apply_documents};
use crate::objects::parse_documents;
use crate::progress::{self, Progress, Step};

pub const MODEL: &str = "digits";
pub const JOBS: [&str; 2] = ["digits-v1", "digits-v2"];
const JOBS_MANIFEST: &str = include_str!("../../../examples/digits/manifests/jobs.yaml");
pub const INFERENCE_MANIFEST: &str = include_str!("../../../examples/digits/manifests/inference.yaml");
/// The predictor whose share grows.
pub const GROWN: &str = "v2";
/// How long new weights may take to show in the answers.
const REWEIGHT: Duration = Duration::from_secs(10);

/// What the stages need.
pub struct Story {
    pub client: Client,
    pub namespace: String,
    /// Image of the training jobs; Modelway's own on one machine.
    pub image: String,
    pub progress: Progress,
    pub start: Instant,
    /// For each wait.
    pub timeout: Duration,
    pub users: u32,
    pub seed: u64,
    /// Whether better settings are looked for.
    pub tunes: bool,
    /// Folder for the report; none on a cluster.
    pub data_dir: Option<PathBuf>,
}

/// A version, with when its job and then its image were seen to be done.
struct Outcome {
    trained: Instant,
    version: Version,
    published: Instant,
}

impl Story {
    /// Tells it all, or up to the first answer.
    pub async fn tell(&self, first_answer_only: bool, document: &mut Document) -> anyhow::Result<()> {
        self.train_and_publish(document).await?;
        let inference = self.serve(document).await?;
        let client = self.traffic_client(&inference, document).await?;
        client.ask(Planned { user: 0, image: 0 }).await.context("the first request failed")?;
        document.seconds.insert("firstAnswer", self.start.elapsed().as_secs_f64());
        if first_answer_only {
            return Ok(());
        }
        // What an earlier run began is finished before there is traffic that would disturb it.
        if self.tunes && self.is_tuning().await? {
            self.tuning(document).await?;
        }
        self.traffic(&client, document).await?;
        if self.tunes && document.tuning.is_none() {
            self.tuning(document).await?;
        }
        Ok(())
    }

    async fn train_and_publish(&self, document: &mut Document) -> anyhow::Result<()> {
        let start = Instant::now();
        let step = self.progress.step("train");
        self.apply(JOBS_MANIFEST, "manifests/jobs.yaml").await?;
        let (first, second) = tokio::join!(self.train_one(JOBS[0], &step), self.train_one(JOBS[1], &step));
        let (first, second) = (first?, second?);
        let trained = first.trained.max(second.trained);
        let train = trained - start;
        let publish = first.published.max(second.published) - trained;
        document.versions = vec![first.version, second.version];
        document.seconds.insert("train", train.as_secs_f64());
        document.seconds.insert("publish", publish.as_secs_f64());
        step.done_in(train, "two jobs complete: digits-v1 (nearest centroid), digits-v2 (wide)");
        let bytes: i64 = document.versions.iter().map(|version| version.size_bytes).sum();
        let result = format!("two model images, {:.1} MB, in the registry", bytes as f64 / 1e6);
        progress::stage("publish", &result, publish);
        Ok(())
    }

    /// One job, from its start to its image in the registry.
    async fn train_one(&self, name: &str, step: &Step) -> anyhow::Result<Outcome> {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &self.namespace);
        let before = jobs.get_opt(name).await?.is_some_and(|job| matches!(waits::job(&job), waits::Verdict::Ready));
        let waiting = |what: &str| step.message(&format!("{name}: {what}"));
        let job = waits::until(jobs, name, self.timeout, waits::job, waiting).await?;
        let trained = Instant::now();
        let version = names::model_version(name, &job.uid().unwrap_or_default());
        let api: Api<ModelVersion> = Api::namespaced(self.client.clone(), &self.namespace);
        let status =
            waits::until(api, &version, self.timeout, waits::version, waiting).await?.status.unwrap_or_default();
        let published = Instant::now();
        let version = Version {
            name: version,
            image: status.image.unwrap_or_default(),
            size_bytes: status.size_bytes.unwrap_or(0),
            seconds_from_job_end: (!before).then(|| (published - trained).as_secs_f64()),
        };
        Ok(Outcome { trained, version, published })
    }

    async fn serve(&self, document: &mut Document) -> anyhow::Result<Inference> {
        let stage = Instant::now();
        let step = self.progress.step("serve");
        self.apply(INFERENCE_MANIFEST, "manifests/inference.yaml").await?;
        let inference = self.inference_ready(&step).await?;
        let status = inference.status.clone().unwrap_or_default();
        document.endpoint = status.inference_endpoint.context("the Inference is ready but has no endpoint")?;
        document.seconds.insert("serve", stage.elapsed().as_secs_f64());
        let split = status.split.unwrap_or_default();
        step.done(&format!("{} splits {split} between v1 and v2", document.endpoint));
        Ok(inference)
    }

    async fn inference_ready(&self, step: &Step) -> anyhow::Result<Inference> {
        let api: Api<Inference> = Api::namespaced(self.client.clone(), &self.namespace);
        waits::until(api, MODEL, self.timeout, waits::inference, |what| step.message(what)).await
    }

    async fn traffic(&self, client: &traffic::Client, document: &mut Document) -> anyhow::Result<()> {
        let stage = Instant::now();
        let mut tally = Tally::default();
        let requests = traffic::plan(self.users, client.images(), self.seed);
        let step = self.progress.bar("traffic", requests.len() as u64);
        let mut done = 0;
        client
            .ask_all(requests, |answer| {
                done += 1;
                step.position(done);
                match answer {
                    Ok(answer) => tally.before(&answer),
                    Err(error) => failed(&mut tally, &error),
                }
            })
            .await;
        step.done(&format!("{done} requests of {} users", self.users));
        document.seconds.insert("traffic", stage.elapsed().as_secs_f64());

        let stage = Instant::now();
        let step = self.progress.step("reweight");
        self.reweight(client, &mut tally, &step).await?;
        document.seconds.insert("reweight", stage.elapsed().as_secs_f64());
        let traffic = tally.traffic();
        step.done(&format!(
            "90/10 -> 50/50 under traffic: {} users moved, {} requests failed",
            traffic.moved_on_reweight, traffic.errors
        ));
        document.arms = tally.arms();
        document.traffic = Some(traffic);
        self.scaling(client, &tally, document).await
    }

    async fn scaling(&self, client: &traffic::Client, tally: &Tally, document: &mut Document) -> anyhow::Result<()> {
        let stage = Instant::now();
        let step = self.progress.step("scaling");
        let users = tally.last_users_on(GROWN);
        let scaling = self.sleeps_and_wakes(client, &users, &step).await?;
        document.seconds.insert("scaling", stage.elapsed().as_secs_f64());
        let most = scaling.replicas.iter().map(|point| point.ready).max().unwrap_or(0);
        step.done(&format!(
            "v2 slept, woke in {:.0} ms, had {most} pods for {} requests, sleeps again; {} failed",
            scaling.cold_start_ms, scaling.requests, scaling.errors
        ));
        document.scaling = Some(scaling);
        Ok(())
    }

    async fn tuning(&self, document: &mut Document) -> anyhow::Result<()> {
        let stage = Instant::now();
        let step = self.progress.step("tuning");
        let tuning = self.tunes_grown(&step).await?;
        document.seconds.insert("tuning", stage.elapsed().as_secs_f64());
        step.done(&tuned::headline(&tuning));
        document.tuning = Some(tuning);
        Ok(())
    }

    /// Applies 50/50 while users go on, waits until the first of them moves, then asks once for every user.
    async fn reweight(&self, client: &traffic::Client, tally: &mut Tally, step: &Step) -> anyhow::Result<()> {
        let manifest = INFERENCE_MANIFEST
            .replace("trafficWeight: 90", "trafficWeight: 50")
            .replace("trafficWeight: 10", "trafficWeight: 50");
        self.apply(&manifest, "manifests/inference.yaml").await?;
        let once = traffic::plan_once(self.users, client.images(), self.seed);
        let deadline = Instant::now() + REWEIGHT;
        let before = tally.users_on(GROWN);
        let mut moved = false;
        for chunk in once.chunks(200).cycle() {
            if moved || Instant::now() > deadline {
                break;
            }
            client
                .ask_all(chunk.to_vec(), |answer| match answer {
                    Ok(answer) => {
                        moved |= answer.arm == GROWN && !before.contains(&answer.user);
                        tally.during(&answer, GROWN);
                    }
                    Err(error) => failed(tally, &error),
                })
                .await;
        }
        step.message("one request of every user under the new weights");
        self.inference_ready(step).await?;
        client
            .ask_all(once, |answer| match answer {
                Ok(answer) => tally.after(&answer, GROWN),
                Err(error) => failed(tally, &error),
            })
            .await;
        Ok(())
    }

    /// Applies a manifest of the example in the story's namespace.
    pub async fn apply(&self, manifest: &str, name: &str) -> anyhow::Result<()> {
        let manifest = manifest.replace(&modelway_api::image(), &self.image);
        let documents = parse_documents(&manifest, &format!("examples/digits/{name}"))?;
        apply_documents(&self.client, &self.namespace, &documents, Mode { force: true, dry_run: false }).await?;
        Ok(())
    }

    /// Sends to the Inference, and knows its predictors by their digests.
    async fn traffic_client(&self, inference: &Inference, document: &mut Document) -> anyhow::Result<traffic::Client> {
        let status = inference.status.clone().unwrap_or_default();
        let arms: BTreeMap<String, String> = status
            .predictor_statuses
            .into_iter()
            .filter_map(|predictor| {
                let digest = predictor.model_digest?;
                Some((digest.rsplit('@').next().unwrap_or_default().to_owned(), predictor.name))
            })
            .collect();
        let way = Way::find(&self.client, &self.namespace, MODEL, &document.endpoint).await?;
        document.path = way.name();
        Ok(traffic::Client::new(way, arms))
    }
}

fn failed(tally: &mut Tally, error: &anyhow::Error) {
    tracing::warn!(%error, "a request failed");
    tally.error();
}
