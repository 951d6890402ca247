//! Carries a plan out: one call an action, each with a deadline.

use std::{future::Future, time::Duration};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::Status,
};
use modelway_api::{MANAGER, labels};
use modelway_plan::{Action, Event, Key, Kind, json as read, world::Rejection};
use serde_json::Value;

use crate::{events::Recorder, informer::resource, store::Store};

/// Longest wait for one answer; kube retries within it.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a plan was not carried out to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// Somebody else wrote the object meanwhile; planning again with what they wrote helps.
    #[error("{0} has changed meanwhile")]
    Conflict(Key),
    /// The API server refused a manifest; remembered in the store, so that the next plan says so.
    #[error("{key} was refused: {message}")]
    Rejected { key: Key, message: String },
    /// No answer in time.
    #[error("no answer about {key} within {CALL_TIMEOUT:?}")]
    Timeout { key: Key },
    /// Anything else, worth another try later.
    #[error("{verb} {key}: {source}")]
    Call { verb: &'static str, key: Key, source: Box<kube::Error> },
    /// A plan with an object of an unknown kind.
    #[error("an action without a known kind and a name")]
    NoKey,
}

/// Carries out plans.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    store: Store,
    recorder: Recorder,
}

impl Executor {
    /// An executor over that client.
    pub fn new(client: Client, store: Store) -> Self {
        Self { recorder: Recorder::new(client.clone()), client, store }
    }

    /// Carries out one action.
    pub async fn execute(&self, action: Action) -> Result<(), ExecuteError> {
        let key = action.key().ok_or(ExecuteError::NoKey)?;
        let api = self.api(&key);
        tracing::debug!(%key, verb = verb(&action), "executing");
        match action {
            Action::Create(object) => self.create(&api, key, object).await,
            Action::Apply(object) => self.apply(&api, key, object).await,
            Action::Replace(object) => self.replace(&api, key, object).await,
            Action::Patch { patch, .. } => {
                let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                let patch = Patch::Merge(patch);
                self.settle("patch", key.clone(), api.patch(&key.name, &params, &patch)).await
            }
            Action::Status(object) => {
                let (params, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(object));
                self.settle("apply the status of", key.clone(), api.patch_status(&key.name, &params, &patch)).await
            }
            Action::Delete { uid, .. } => self.delete(&api, key, uid).await,
            Action::Event(event) => {
                self.tell(&key, &event).await;
                Ok(())
            }
        }
    }

    /// An event that gets lost is no reason to do the work again.
    async fn tell(&self, key: &Key, event: &Event) {
        match call(key, self.recorder.record(event)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%key, %error, "event not written"),
            Err(error) => tracing::debug!(%error, "event not written"),
        }
    }

    fn api(&self, key: &Key) -> Api<DynamicObject> {
        let resource = resource(key.kind);
        if key.kind == Kind::Namespace {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &key.namespace, &resource)
        }
    }

    async fn create(&self, api: &Api<DynamicObject>, key: Key, object: Value) -> Result<(), ExecuteError> {
        let applied = read::annotation(&object, labels::APPLIED).unwrap_or_default().to_owned();
        let object = dynamic(object, &key)?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        match call(&key, api.create(&params, &object)).await? {
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => Ok(()),
            answer => self.settle_or_reject("create", key, applied, answer),
        }
    }

    async fn apply(&self, api: &Api<DynamicObject>, key: Key, object: Value) -> Result<(), ExecuteError> {
        let applied = read::annotation(&object, labels::APPLIED).unwrap_or_default().to_owned();
        let params = PatchParams::apply(MANAGER).force();
        let answer = call(&key, api.patch(&key.name, &params, &Patch::Apply(&object))).await?;
        self.settle_or_reject("apply", key, applied, answer)
    }

    fn settle_or_reject(
        &self,
        verb: &'static str,
        key: Key,
        applied: String,
        answer: kube::Result<DynamicObject>,
    ) -> Result<(), ExecuteError> {
        match answer {
            Ok(_) => {
                self.store.accept(&key);
                Ok(())
            }
            Err(kube::Error::Api(status)) if is_refusal(&status) => {
                let message = status.message.clone();
                self.store.reject(key.clone(), Rejection { applied, message: message.clone() });
                Err(ExecuteError::Rejected { key, message })
            }
            Err(error) => failure(verb, key, error),
        }
    }

    async fn replace(&self, api: &Api<DynamicObject>, key: Key, object: Value) -> Result<(), ExecuteError> {
        let object = dynamic(object, &key)?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        self.settle("replace", key.clone(), api.replace(&key.name, &params, &object)).await
    }

    async fn delete(&self, api: &Api<DynamicObject>, key: Key, uid: String) -> Result<(), ExecuteError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid), resource_version: None }),
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match call(&key, api.delete(&key.name, &params)).await? {
            Ok(_) => Ok(()),
            // Gone, or another object of that name by now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => failure("delete", key, error),
        }
    }

    async fn settle(
        &self,
        verb: &'static str,
        key: Key,
        answer: impl Future<Output = kube::Result<DynamicObject>>,
    ) -> Result<(), ExecuteError> {
        match call(&key, answer).await? {
            Ok(_) => Ok(()),
            // The object went away meanwhile: there is nothing left to write.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => failure(verb, key, error),
        }
    }
}

async fn call<T>(key: &Key, answer: impl Future<Output = T>) -> Result<T, ExecuteError> {
    tokio::time::timeout(CALL_TIMEOUT, answer).await.map_err(|_| ExecuteError::Timeout { key: key.clone() })
}

fn failure(verb: &'static str, key: Key, error: kube::Error) -> Result<(), ExecuteError> {
    match error {
        kube::Error::Api(status) if status.code == 409 => Err(ExecuteError::Conflict(key)),
        source => Err(ExecuteError::Call { verb, key, source: Box::new(source) }),
    }
}

/// Whether another try of the same manifest would be refused alike.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code, 400 | 422)
}

fn dynamic(object: Value, key: &Key) -> Result<DynamicObject, ExecuteError> {
    serde_json::from_value(object).map_err(|source| ExecuteError::Call {
        verb: "encode",
        key: key.clone(),
        source: Box::new(kube::Error::SerdeError(source)),
    })
}

fn verb(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "create",
        Action::Apply(_) => "apply",
        Action::Replace(_) => "replace",
        Action::Patch { .. } => "patch",
        Action::Status(_) => "status",
        Action::Delete { .. } => "delete",
        Action::Event(_) => "event",
    }
}
