//! The control plane goes away for a while; whoever asks for predictions does not notice.

use std::time::Duration;

use super::installed::installed;
use super::scene::{endpoint, inference, job, load, no_request_failed, play};

#[tokio::test]
async fn an_etcd_that_hangs_and_an_api_server_that_restarts_lose_no_request() {
    let Some(installed) = installed().await else { return };
    let _alone = installed.alone().await;
    play(installed, "outage", async |installed, flow| {
        flow.apply(&job("train", "centroid")).await?;
        flow.apply(&inference(&["{name: a, model: {name: digits, job: train}}"])).await?;
        let endpoint = endpoint(flow).await?;
        let users = load(&endpoint);
        installed.cluster.pause_etcd()?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        installed.cluster.resume_etcd()?;
        installed.cluster.restart_apiserver().await?;
        // And work goes on.
        let second = "{name: b, model: {name: digits, job: train}, trafficWeight: 100}";
        let both = inference(&["{name: a, model: {name: digits, job: train}}", second]);
        let mut applied = flow.apply(&both).await;
        for _ in 0..60 {
            if applied.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            applied = flow.apply(&both).await;
        }
        applied?;
        flow.until("digits", |inference: &modelway_api::Inference| {
            inference.status.as_ref().and_then(|status| status.split.as_deref()) == Some("50/50")
        })
        .await?;
        no_request_failed(users).await?;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_registry_that_is_away_delays_a_version_and_loses_nothing() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "noregistry", async |installed, flow| {
        // Nothing listens there.
        let away = installed.cluster.registry()?.host.replace(":5000", ":5999");
        let named = format!("{{modelway.io/model: digits, modelway.io/image-repo: {away}/lost/digits}}");
        flow.apply(&job("train", "centroid").replace("{modelway.io/model: digits}", &named)).await?;
        let uid = flow
            .until("train", |job: &k8s_openapi::api::batch::v1::Job| {
                job.status.as_ref().is_some_and(|status| status.succeeded == Some(1))
            })
            .await?
            .metadata
            .uid
            .unwrap_or_default();
        let told = |version: &modelway_api::ModelVersion| {
            let message = version.status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default();
            message.contains("failed") && message.contains(":5999")
        };
        flow.until(&modelway_api::names::model_version("train", &uid), told).await?;
        Ok(())
    })
    .await;
}
