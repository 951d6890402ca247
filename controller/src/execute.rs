//! Carries a plan out: one call an action, each with a deadline, and only while this process leads.

use std::{future::Future, time::Duration};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::Status,
};
use modelway_api::{MANAGER, labels};
use modelway_plan::{Action, Event, Key, Kind, json as read, plan::HANDOVER_MANAGER, world::Rejection};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    clock,
    events::Recorder,
    informer::resource,
    leadership::{Leadership, NotLeading},
    store::Store,
};

/// Longest wait for one answer; kube retries within it.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// Why a plan was not carried out to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// Somebody else wrote the object meanwhile; planning again with what they wrote helps.
    #[error("{0} has changed meanwhile")]
    Conflict(Key),
    /// The API server refused a manifest; remembered in the store, so that the next plan says so.
    #[error("{key} was refused: {message}")]
    Rejected {
        key: Key,
        message: String,
        /// The same manifest had been refused before: its planner takes no notice.
        is_again: bool,
    },
    /// The API server refused another write.
    #[error("cannot {verb} {key}: {message}")]
    Denied { verb: &'static str, key: Key, message: String },
    /// No answer in time.
    #[error("no answer about {key} within {CALL_TIMEOUT:?}")]
    Timeout { key: Key },
    /// Anything else, worth another try later.
    #[error("{verb} {key}: {source}")]
    Call { verb: &'static str, key: Key, source: Box<kube::Error> },
    /// A plan with an object of an unknown kind.
    #[error("an action without a known kind and a name")]
    NoKey,
    /// Another process does the work.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

impl ExecuteError {
    /// A stable word for metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "conflict",
            Self::Rejected { .. } => "rejected",
            Self::Denied { .. } => "denied",
            Self::Timeout { .. } => "timeout",
            Self::Call { .. } | Self::NoKey => "failed",
            Self::NotLeading(_) => "not_leading",
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Duration {
        let Self::Call { source, .. } = self else { return Duration::ZERO };
        let kube::Error::Api(status) = &**source else { return Duration::ZERO };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Duration::from_secs(u64::from(seconds)).min(RETRY_AFTER_MAX)
    }
}

/// Carries out plans.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    store: Store,
    recorder: Recorder,
    leadership: Leadership,
}

impl Executor {
    /// An executor over that client.
    pub fn new(client: Client, store: Store, leadership: Leadership) -> Self {
        Self { recorder: Recorder::new(client.clone()), client, store, leadership }
    }

    /// Carries out one action.
    pub async fn execute(&self, action: Action) -> Result<(), ExecuteError> {
        let key = action.key().ok_or(ExecuteError::NoKey)?;
        let api = self.api(&key);
        tracing::debug!(%key, verb = verb(&action), "executing");
        match action {
            Action::Create(object) => self.create(&api, key, object).await,
            Action::Apply(object) => self.apply(&api, key, object).await,
            Action::HandOver(object) => {
                let params = PatchParams::apply(HANDOVER_MANAGER).force();
                self.settle("hand over", key.clone(), api.patch(&key.name, &params, &Patch::Apply(object))).await
            }
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
            Action::Event(event) => self.tell(&key, &event).await,
        }
    }

    /// An event that gets lost is no reason to do the work again.
    async fn tell(&self, key: &Key, event: &Event) -> Result<(), ExecuteError> {
        match self.call(key, self.recorder.record(event)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%key, %error, "event not written"),
            Err(error @ ExecuteError::NotLeading(_)) => return Err(error),
            Err(error) => tracing::debug!(%error, "event not written"),
        }
        Ok(())
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
        match self.call(&key, api.create(&params, &object)).await? {
            Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => Ok(()),
            answer => self.settle_or_reject("create", key, applied, answer),
        }
    }

    async fn apply(&self, api: &Api<DynamicObject>, key: Key, object: Value) -> Result<(), ExecuteError> {
        let applied = read::annotation(&object, labels::APPLIED).unwrap_or_default().to_owned();
        let params = PatchParams::apply(MANAGER).force();
        let answer = self.call(&key, api.patch(&key.name, &params, &Patch::Apply(&object))).await?;
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
                // Quotas and permissions change; what a schema refuses once, it refuses again.
                let may_pass = status.code == 403;
                let rejection = Rejection { applied, message: message.clone(), may_pass, at: clock::now() };
                let is_again = self.store.reject(key.clone(), rejection);
                Err(ExecuteError::Rejected { key, message, is_again })
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
        match self.call(&key, api.delete(&key.name, &params)).await? {
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
        match self.call(&key, answer).await? {
            Ok(_) => Ok(()),
            // The object went away meanwhile: there is nothing left to write.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => failure(verb, key, error),
        }
    }

    /// The one way to the API server for writes: it begins while this process leads and is given up before it may not.
    async fn call<T>(&self, key: &Key, answer: impl Future<Output = T>) -> Result<T, ExecuteError> {
        let now = Instant::now();
        let limit = now + CALL_TIMEOUT;
        let limit = self.leadership.permit(now)?.map_or(limit, |until| until.min(limit));
        tokio::time::timeout_at(limit, answer).await.map_err(|_| ExecuteError::Timeout { key: key.clone() })
    }
}

fn failure(verb: &'static str, key: Key, error: kube::Error) -> Result<(), ExecuteError> {
    match error {
        kube::Error::Api(status) if status.code == 409 => Err(ExecuteError::Conflict(key)),
        kube::Error::Api(status) if status.code == 403 => {
            Err(ExecuteError::Denied { verb, key, message: status.message.clone() })
        }
        source => Err(ExecuteError::Call { verb, key, source: Box::new(source) }),
    }
}

/// Whether the manifest is at fault, or what the namespace or the controller may have.
fn is_refusal(status: &Status) -> bool {
    matches!(status.code, 400 | 403 | 422)
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
        Action::HandOver(_) => "hand over",
        Action::Replace(_) => "replace",
        Action::Patch { .. } => "patch",
        Action::Status(_) => "status",
        Action::Delete { .. } => "delete",
        Action::Event(_) => "event",
    }
}
