//! Cold starts, one after another.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};

use super::platform::{Platform, WAIT, is_ready};

/// When what was seen, since the request was sent.
struct Start {
    decided: Duration,
    ready: Duration,
    answered: Duration,
}

/// `starts` cold starts: milliseconds from the request to the decision, and from the ready pod to the answer.
pub async fn measure(platform: &Platform, starts: usize) -> anyhow::Result<Value> {
    platform.apply(&super::sleeper("cold")).await?;
    let inference = platform.until("cold", is_ready).await?;
    let endpoint = inference.status.and_then(|status| status.inference_endpoint).context("no endpoint")?;
    let http = reqwest::Client::builder().timeout(WAIT).no_proxy().build()?;
    let mut seen = Vec::new();
    for index in 0..starts {
        eprintln!("cold start {} of {starts}", index + 1);
        let asleep = |predictor: &modelway_api::inference::PredictorStatus| {
            (predictor.replicas, predictor.desired_replicas) == (0, 0)
        };
        platform
            .until("cold", |inference| {
                inference.status.as_ref().is_some_and(|status| status.predictor_statuses.iter().all(asleep))
            })
            .await?;
        seen.push(one(platform, &http, &format!("{endpoint}/v2/")).await?);
    }
    let of = |what: fn(&Start) -> f64| spread(seen.iter().map(what).collect());
    Ok(json!({
        "count": starts,
        "requestToDecisionMs": of(|start| start.decided.as_secs_f64() * 1e3),
        "readyToAnswerMs": of(|start| (start.answered.as_secs_f64() - start.ready.as_secs_f64()) * 1e3),
        "requestToAnswerMs": of(|start| start.answered.as_secs_f64() * 1e3),
    }))
}

async fn one(platform: &Platform, http: &reqwest::Client, url: &str) -> anyhow::Result<Start> {
    let deployments: Api<Deployment> = Api::namespaced(platform.client.clone(), "default");
    let pods: Api<Pod> = Api::namespaced(platform.client.clone(), "default");
    let config = watcher::Config::default().fields("metadata.name=cold-a");
    let mut deployments = watcher(deployments, config).applied_objects().boxed();
    // Both watches have begun before the request is sent.
    deployments.try_next().await?.context("the watch of the Deployment ended")?;
    let config = watcher::Config::default().labels("kubedl.io/predictor-name=a,kubedl.io/inference-name=cold");
    let mut pods = watcher(pods, config).boxed();
    while !matches!(pods.try_next().await?.context("the watch of pods ended")?, watcher::Event::InitDone) {}
    let start = Instant::now();
    let decided = async {
        while let Some(deployment) = deployments.try_next().await? {
            if deployment.spec.and_then(|spec| spec.replicas).unwrap_or(0) > 0 {
                return anyhow::Ok(start.elapsed());
            }
        }
        anyhow::bail!("the watch of the Deployment ended")
    };
    let ready = async {
        while let Some(event) = pods.try_next().await? {
            let watcher::Event::Apply(pod) = event else { continue };
            let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
                return anyhow::Ok(start.elapsed());
            }
        }
        anyhow::bail!("the watch of pods ended")
    };
    let answered = async {
        let answer = http.get(url).send().await?;
        anyhow::ensure!(answer.status().is_success(), "{}", answer.status());
        answer.bytes().await?;
        anyhow::Ok(start.elapsed())
    };
    let (decided, ready, answered) = tokio::time::timeout(WAIT, async { tokio::try_join!(decided, ready, answered) })
        .await
        .context("no cold start in time")??;
    Ok(Start { decided, ready, answered })
}

fn spread(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    let at = |share: usize| values.get((values.len() * share).div_ceil(100).max(1) - 1).copied();
    json!({"p50": at(50), "p95": at(95), "max": at(100)})
}
