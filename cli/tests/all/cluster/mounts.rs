//! A registry with its own certificate authority and a password; models as image volumes and pulled by the pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use modelway_api::Inference;
use modelway_tests::cluster::Registry;
use modelway_tests::flows::condition;

use super::installed::installed;
use super::scene::{endpoint, inference, job, load, no_request_failed, play, published};

#[tokio::test]
async fn a_private_registry_feeds_image_volumes_and_pulling_pods() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "mounts", async |installed, flow| {
        let registry = installed.cluster.registry_tls()?;
        flow.apply(&credentials(&registry)?).await?;
        let repository = format!("{}/private/digits", registry.host);
        let named = format!("{{modelway.io/model: digits, modelway.io/image-repo: {repository}}}");
        flow.apply(&job("train", "centroid").replace("{modelway.io/model: digits}", &named)).await?;
        let image = published(flow, "train").await?.status.and_then(|status| status.image).unwrap_or_default();
        anyhow::ensure!(image.starts_with(&repository), "image {image}");
        flow.apply(&inference(&[
            "{name: volume, modelMount: ImageVolume, pullSecret: regcred, model: {name: digits, job: train}}",
            "{name: pull, modelMount: Pull, model: {name: digits, job: train}}",
            "{name: auto, pullSecret: regcred, model: {name: digits, job: train}}",
        ]))
        .await?;
        let endpoint = endpoint(flow).await?;
        no_request_failed(load(&endpoint)).await?;
        for (predictor, pulls) in [("volume", false), ("pull", true), ("auto", false)] {
            let selector = format!("kubedl.io/predictor-name={predictor}");
            let pods = flow.api::<Pod>().list(&ListParams::default().labels(&selector)).await?.items;
            let specs = pods.into_iter().filter_map(|pod| pod.spec);
            for spec in specs {
                let has_puller = spec.init_containers.is_some_and(|containers| !containers.is_empty());
                anyhow::ensure!(has_puller == pulls, "predictor {predictor} pulls: {has_puller}");
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn an_image_that_was_deleted_is_named_and_old_pods_go_on() {
    let Some(installed) = installed().await else { return };
    let _others = installed.together().await;
    play(installed, "deleted", async |installed, flow| {
        flow.apply(&job("first", "centroid")).await?;
        flow.apply(&job("second", "wide")).await?;
        flow.apply(&inference(&["{name: only, model: {name: digits, job: first}}"])).await?;
        let endpoint = endpoint(flow).await?;
        let image = published(flow, "second").await?.status.and_then(|status| status.image).unwrap_or_default();
        let (name, digest) = image.split_once('@').unwrap_or_default();
        let registry = installed.cluster.registry()?.host;
        let name = name.trim_start_matches(&registry);
        let url = format!("http://{registry}/v2{name}/manifests/{digest}");
        let answer = reqwest::Client::builder().no_proxy().build()?.delete(url).send().await?;
        anyhow::ensure!(answer.status().is_success(), "the registry keeps the image: {}", answer.status());
        let users = load(&endpoint);
        flow.apply(&inference(&["{name: only, model: {name: digits, job: second}}"])).await?;
        let told = |inference: &Inference| {
            condition(inference, "Ready").is_some_and(|(_, reason, _)| reason == "ImagePullBackOff")
        };
        let inference = flow.until("digits", told).await?;
        let (.., message) = condition(&inference, "Ready").unwrap_or_default();
        anyhow::ensure!(message.contains(digest), "{message}");
        no_request_failed(users).await?;
        Ok(())
    })
    .await;
}

/// The login, with the registry's authority beside it.
fn credentials(registry: &Registry) -> anyhow::Result<String> {
    let (user, password) = registry.login.unwrap_or_default();
    let host = &registry.host;
    let auths = serde_json::json!({"auths": {host: {"username": user, "password": password}}}).to_string();
    let authority = registry.authority.as_ref().map(std::fs::read).transpose()?.unwrap_or_default();
    Ok(format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: regcred}}\ntype: kubernetes.io/dockerconfigjson\ndata:\n  .dockerconfigjson: {}\n  ca.crt: {}\n",
        STANDARD.encode(auths),
        STANDARD.encode(authority)
    ))
}
