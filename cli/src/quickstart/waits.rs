//! Waiting for objects, by watches, until they are as wanted or can never be.

use std::fmt::Debug;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::batch::v1::Job;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use modelway_api::model_version::ImageBuildPhase;
use modelway_api::{Inference, ModelVersion, conditions};
use serde::de::DeserializeOwned;

use crate::exit::{Failure, fail};

/// What an object says of a wait.
pub enum Verdict {
    Ready,
    /// Not yet, and what it waits for.
    Wait(String),
    /// Never, and why.
    Never(String),
}

/// Watches one object until it is ready. `waiting` hears what it waits for.
pub async fn until<K>(
    api: Api<K>,
    name: &str,
    timeout: Duration,
    judge: impl Fn(&K) -> Verdict,
    waiting: impl Fn(&str),
) -> anyhow::Result<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Default,
{
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let mut last = "it does not exist yet".to_owned();
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let watched = async {
        let mut events = watcher(api, config).default_backoff().applied_objects().boxed();
        while let Some(object) = events.try_next().await? {
            match judge(&object) {
                Verdict::Ready => return Ok(object),
                Verdict::Never(why) => return Err(fail(Failure::Failed, format!("{kind} {name}: {why}"))),
                Verdict::Wait(what) => {
                    waiting(&what);
                    last = what;
                }
            }
        }
        Err(fail(Failure::Failed, format!("the watch of {kind} {name} ended")))
    };
    let outcome = tokio::time::timeout(timeout, watched).await;
    outcome.unwrap_or_else(|_| {
        let message = format!("{kind} {name} is not ready after {} s: {last}", timeout.as_secs());
        Err(fail(Failure::TimedOut, message))
    })
}

/// A Job that is complete; a failed one never will be.
pub fn job(job: &Job) -> Verdict {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    for condition in conditions.filter(|condition| condition.status == "True") {
        match condition.type_.as_str() {
            "Complete" => return Verdict::Ready,
            "Failed" => {
                let name = job.metadata.name.as_deref().unwrap_or_default();
                let reason = condition.message.as_deref().or(condition.reason.as_deref()).unwrap_or("it failed");
                return Verdict::Never(format!("{reason}; see `modelway logs job/{name}`"));
            }
            _ => {}
        }
    }
    Verdict::Wait("the job runs".to_owned())
}

/// A version whose image is in the registry.
pub fn version(version: &ModelVersion) -> Verdict {
    let status = version.status.clone().unwrap_or_default();
    match status.image_build_phase {
        Some(ImageBuildPhase::ImageBuildSucceeded) => Verdict::Ready,
        Some(ImageBuildPhase::ImageBuildFailed) => {
            Verdict::Never(status.message.unwrap_or_else(|| "the build failed".to_owned()))
        }
        _ => Verdict::Wait(status.message.unwrap_or_else(|| "the image is being built".to_owned())),
    }
}

/// An Inference that is ready as its newest spec says.
pub fn inference(inference: &Inference) -> Verdict {
    let status = inference.status.clone().unwrap_or_default();
    if status.observed_generation != inference.metadata.generation {
        return Verdict::Wait("the controller has not seen it yet".to_owned());
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == conditions::READY);
    match ready {
        Some(ready) if ready.status == "True" => Verdict::Ready,
        Some(ready) => Verdict::Wait(format!("{}: {}", ready.reason, ready.message)),
        None => Verdict::Wait("the controller has not judged it yet".to_owned()),
    }
}
