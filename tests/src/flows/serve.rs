//! The whole path: two jobs, two images, a split, new weights, a new version, all under traffic.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use modelway_api::{Inference, Model, ModelVersion};

use super::load::Load;
use super::support::Flow;

const JOBS: &str = include_str!("../../../examples/digits/manifests/jobs.yaml");
const INFERENCE: &str = include_str!("../../../examples/digits/manifests/inference.yaml");
const USERS: u32 = 300;

/// Publishes both jobs once each, serves 90/10, reweights and rolls without a failed request.
pub async fn publishes_serves_reweights_and_rolls(flow: &Flow) -> anyhow::Result<()> {
    // The Inference comes first: it waits for the jobs that it names.
    flow.apply(INFERENCE).await?;
    flow.apply(JOBS).await?;
    let inference = flow.ready("digits").await?;
    let digests = published(flow).await?;
    ensure!(percents(&inference) == [90, 10], "percents {:?}", percents(&inference));
    let endpoint = flow.endpoint("digits").await?;
    reweights(flow, &endpoint, &digests).await?;
    routers_roll(flow, &endpoint).await?;
    rolls(flow, &endpoint, &digests).await
}

/// Digests of v1 and v2, after checking names and the Model's latest version.
async fn published(flow: &Flow) -> anyhow::Result<[String; 2]> {
    let mut digests = Vec::new();
    for job in ["digits-v1", "digits-v2"] {
        let uid = flow.api::<Job>().get(job).await?.metadata.uid.context("the job has no UID")?;
        let name = modelway_api::names::model_version(job, &uid);
        let version: ModelVersion = flow.api::<ModelVersion>().get(&name).await?;
        let status = version.status.context("the version has no status")?;
        let image = status.image.context("the version has no image")?;
        ensure!(image.contains("@sha256:"), "image {image} is not named by digest");
        digests.push(image.rsplit('@').next().unwrap_or_default().to_owned());
    }
    let versions: Api<ModelVersion> = flow.api();
    let count = versions.list(&ListParams::default()).await?.items.len();
    ensure!(count == 2, "{count} versions of two jobs");
    let model: Model = flow.api::<Model>().get("digits").await?;
    let latest = model.status.and_then(|status| status.latest_version).context("the model has no latest version")?;
    ensure!(latest.model_version.starts_with("mv-digits-v"), "latest version {latest:?}");
    digests.try_into().map_err(|_| anyhow::anyhow!("two digests"))
}

fn percents(inference: &Inference) -> Vec<i32> {
    let predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
    predictors.map(|predictor| predictor.traffic_percent).collect()
}

async fn reweights(flow: &Flow, endpoint: &str, [v1, v2]: &[String; 2]) -> anyhow::Result<()> {
    let load = Load::start(endpoint, "digits", USERS, 4)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = load.stop().await?;
    ensure!(before.failures.is_empty(), "failed requests: {:?}", before.failures);
    let both: Vec<u32> = before.users_on(v1).intersection(&before.users_on(v2)).copied().collect();
    ensure!(both.is_empty(), "users on two arms: {both:?}");

    let load = Load::start(endpoint, "digits", USERS, 4)?;
    flow.apply(
        &INFERENCE.replace("trafficWeight: 90", "trafficWeight: 50").replace("trafficWeight: 10", "trafficWeight: 50"),
    )
    .await?;
    flow.until("digits", |inference: &Inference| percents(inference) == [50, 50]).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = load.stop().await?;
    ensure!(after.failures.is_empty(), "failed requests: {:?}", after.failures);
    for user in before.users_on(v2) {
        ensure!(!after.users_on(v1).contains(&user), "user {user} left the arm that grew");
    }
    let moved = after.users_on(v2).difference(&before.users_on(v2)).count();
    // Expected: 40 % of 300. Four deviations of the binomial either side.
    ensure!((86..=154).contains(&moved), "{moved} users moved into the grown arm");
    Ok(())
}

/// The routers get new pods; the URL and everybody who uses it stay.
async fn routers_roll(flow: &Flow, endpoint: &str) -> anyhow::Result<()> {
    let router = ListParams::default().labels("app.kubernetes.io/component=router");
    let names = async || -> anyhow::Result<Vec<String>> {
        let pods = flow.api::<Pod>().list(&router).await?;
        Ok(pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect())
    };
    let before = names().await?;
    let load = Load::start(endpoint, "digits", USERS, 4)?;
    flow.apply(&format!("{INFERENCE}  router:\n    resources:\n      requests: {{cpu: 10m}}\n")).await?;
    let start = Instant::now();
    loop {
        let now = names().await?;
        if !now.is_empty() && now.iter().all(|name| !before.contains(name)) {
            break;
        }
        ensure!(start.elapsed() < Duration::from_secs(90), "the routers did not roll: {before:?} -> {now:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let report = load.stop().await?;
    ensure!(report.failures.is_empty(), "failed requests: {:?}", report.failures);
    let after = flow.endpoint("digits").await?;
    ensure!(after == endpoint, "the URL changed from {endpoint} to {after}");
    Ok(())
}

/// v1 gets the wide model: its pods roll, nobody notices but by the model's name.
async fn rolls(flow: &Flow, endpoint: &str, [_, v2]: &[String; 2]) -> anyhow::Result<()> {
    let load = Load::start(endpoint, "digits", USERS, 4)?;
    let start = Instant::now();
    flow.apply(&INFERENCE.replace("job: digits-v1", "job: digits-v2")).await?;
    let served = |inference: &Inference| {
        let predictors = inference.status.iter().flat_map(|status| &status.predictor_statuses);
        let mut digests = predictors.map(|predictor| predictor.model_digest.as_deref().unwrap_or_default());
        digests.all(|digest| digest.ends_with(v2.as_str()))
    };
    flow.until("digits", served).await?;
    let seconds = start.elapsed().as_secs_f64();
    flow.ready("digits").await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let report = load.stop().await?;
    ensure!(report.failures.is_empty(), "failed requests: {:?}", report.failures);
    tracing::info!(seconds, answers = report.answers, "rolled");
    let late = Load::start(endpoint, "digits", 50, 2)?.stop().await?;
    ensure!(
        late.users_on(v2).len() == 50,
        "after the roll only {} of 50 users are on the new model",
        late.users_on(v2).len()
    );
    Ok(())
}
