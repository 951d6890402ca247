//! Where the clients of trials report what they measured: `api.storage.DB` over gRPC, as Morphling's clients expect it.
//!
//! A result becomes an annotation of the Trial, which is durable before the client has its answer.

mod grpc;
mod wire;

use std::collections::BTreeMap;

use axum::{
    body::{Body, to_bytes},
    extract::State,
    http::{Request, Response},
    routing::post,
};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use modelway_api::{MANAGER, labels};
use modelway_plan::{Kind, json as read, profiling::result};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{execute::CALL_TIMEOUT, informer::resource, store::Store};
use grpc::{Code, MESSAGE_MAX, Status, answer, decode};
use wire::{GetResultReply, GetResultRequest, KeyValue, SaveResultReply, SaveResultRequest};

/// Metrics that are kept of a trial.
const RESULTS_MAX: usize = 48;

/// Takes results in.
#[derive(Clone)]
pub struct Results {
    pub client: Client,
    pub store: Store,
}

impl Results {
    /// Serves for ever.
    pub async fn serve(self, listener: TcpListener) {
        let router = axum::Router::new()
            .route("/api.storage.DB/SaveResult", post(save))
            .route("/api.storage.DB/GetResult", post(get))
            .fallback(unknown)
            .with_state(self);
        if let Err(error) = axum::serve(listener, router).await {
            tracing::warn!(%error, "the port for results is closed");
        }
    }

    /// The Trial, while its own client may report.
    fn open_trial(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let trial = self.trial(namespace, name)?;
        if !trial["spec"]["clientTemplate"].is_object() {
            let message = format!("Trial {namespace}/{name} has no clientTemplate: nobody reports for it");
            return Err(Status::new(Code::FailedPrecondition, message));
        }
        let is_running =
            read::condition_holds(&trial, "Running") || !read::text(&trial, "/status/servicePod").is_empty();
        if !is_running || trial["status"]["outcome"].is_object() {
            let message = format!("Trial {namespace}/{name} is not running");
            return Err(Status::new(Code::FailedPrecondition, message));
        }
        Ok(trial)
    }

    fn trial(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let world = self.store.namespace(namespace);
        let found = world.get(Kind::Trial, namespace, name).cloned();
        found.ok_or_else(|| Status::new(Code::NotFound, format!("there is no Trial {namespace}/{name}")))
    }

    async fn keep(&self, request: SaveResultRequest) -> Result<SaveResultReply, Status> {
        let trial = self.open_trial(&request.namespace, &request.trial_name)?;
        let mut metrics = kept(&trial);
        for KeyValue { key, value } in request.results {
            if !result::is_name(&key) || value.len() > 64 {
                let message = format!("{key:?} is no name of a metric, or its value has more than 64 characters");
                return Err(Status::new(Code::InvalidArgument, message));
            }
            metrics.insert(key, value);
        }
        if metrics.len() > RESULTS_MAX {
            let message = format!("a trial has at most {RESULTS_MAX} results");
            return Err(Status::new(Code::InvalidArgument, message));
        }
        self.write(&request.namespace, &trial, &metrics).await?;
        Ok(SaveResultReply {})
    }

    async fn write(&self, namespace: &str, trial: &Value, metrics: &BTreeMap<String, String>) -> Result<(), Status> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource(Kind::Trial));
        let text = json!({ "metrics": metrics }).to_string();
        // Another Trial of that name, made meanwhile, gets none of it.
        let patch = json!({ "metadata": {
            "uid": trial["metadata"]["uid"], "annotations": { labels::tuning::RESULTS: text } } });
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let (name, patch) = (read::name(trial), Patch::Merge(patch));
        let written = tokio::time::timeout(CALL_TIMEOUT, api.patch(name, &params, &patch)).await;
        let unavailable =
            |problem: String| Status::new(Code::Unavailable, format!("the result is not kept: {problem}"));
        match written {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable(format!("no answer within {CALL_TIMEOUT:?}"))),
        }
    }
}

/// What has been reported for a trial.
fn kept(trial: &Value) -> BTreeMap<String, String> {
    let text = read::annotation(trial, labels::tuning::RESULTS).unwrap_or("{}");
    let told: Value = serde_json::from_str(text).unwrap_or_default();
    let metrics = told["metrics"].as_object().cloned().unwrap_or_default();
    metrics.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
}

/// The body of a call; the first error ends it.
async fn body<M: prost::Message + Default>(request: Request<Body>) -> Result<M, Status> {
    let bytes = to_bytes(request.into_body(), MESSAGE_MAX).await;
    let bytes = bytes.map_err(|_| Status::new(Code::InvalidArgument, "the message is too long, or broke off"))?;
    decode(&bytes)
}

async fn save(State(results): State<Results>, request: Request<Body>) -> Response<Body> {
    let outcome = match body(request).await {
        Ok(request) => results.keep(request).await,
        Err(status) => Err(status),
    };
    if let Err(status) = &outcome {
        tracing::debug!(%status, "a result was refused");
    }
    answer(outcome)
}

async fn get(State(results): State<Results>, request: Request<Body>) -> Response<Body> {
    let outcome = body::<GetResultRequest>(request).await.and_then(|request| {
        let trial = results.trial(&request.namespace, &request.trial_name)?;
        let results = kept(&trial).into_iter().map(|(key, value)| KeyValue { key, value }).collect();
        Ok(GetResultReply { namespace: request.namespace, trial_name: request.trial_name, results })
    });
    answer(outcome)
}

async fn unknown() -> Response<Body> {
    answer::<SaveResultReply>(Err(Status::new(Code::Unimplemented, "this service has SaveResult and GetResult alone")))
}
