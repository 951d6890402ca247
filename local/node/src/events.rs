//! Events about pods: repeated ones are counted, not repeated; telling must never hold up doing.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::context::call;

/// How many events wait at most; beyond that they are dropped.
const QUEUE: usize = 256;
/// How many kinds of events are remembered for counting.
const REMEMBERED: usize = 4096;
/// The same event is written at most this often.
const QUIET: Duration = Duration::from_secs(5);

/// One thing to tell.
#[derive(Debug, Clone)]
struct Notice {
    about: ObjectReference,
    warning: bool,
    reason: String,
    message: String,
    at: Timestamp,
}

/// Where workers put events.
#[derive(Debug, Clone)]
pub struct EventSink {
    queue: mpsc::Sender<Notice>,
}

impl EventSink {
    /// A normal event about `pod`, or one of its containers.
    pub fn normal(&self, pod: &Pod, container: Option<&str>, reason: &str, message: impl Into<String>) {
        self.put(pod, container, false, reason, message.into());
    }

    /// A warning about `pod`, or one of its containers.
    pub fn warning(&self, pod: &Pod, container: Option<&str>, reason: &str, message: impl Into<String>) {
        self.put(pod, container, true, reason, message.into());
    }

    fn put(&self, pod: &Pod, container: Option<&str>, warning: bool, reason: &str, message: String) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            uid: pod.metadata.uid.clone(),
            field_path: container.map(|name| format!("spec.containers{{{name}}}")),
            resource_version: None,
        };
        let notice = Notice { about, warning, reason: reason.to_owned(), message, at: Timestamp::now() };
        if self.queue.try_send(notice).is_err() {
            tracing::debug!(reason, "an event was dropped: too many are waiting");
        }
    }
}

/// The writing side: a sink, and the future that writes until all sinks are gone.
pub fn recorder(client: Client, node: String) -> (EventSink, impl Future<Output = ()>) {
    let (queue, mut notices) = mpsc::channel(QUEUE);
    let run = async move {
        let mut seen = Seen::default();
        while let Some(notice) = notices.recv().await {
            if let Some(step) = seen.step(&notice)
                && let Err(error) = write(&client, &node, &notice, &step).await
            {
                tracing::debug!(%error, reason = notice.reason, "an event could not be written");
            }
        }
    };
    (EventSink { queue }, run)
}

/// How to write a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    name: String,
    count: i32,
}

/// What was told before.
#[derive(Debug, Default)]
struct Seen {
    counts: HashMap<String, (i32, Timestamp)>,
}

impl Seen {
    /// `None` when the same thing was written a moment ago; it is counted all the same.
    fn step(&mut self, notice: &Notice) -> Option<Step> {
        if self.counts.len() >= REMEMBERED {
            self.counts.clear();
        }
        let name = event_name(notice);
        let (count, written) = self.counts.entry(name.clone()).or_insert((0, notice.at));
        *count = count.saturating_add(1);
        if *count > 1 && notice.at < *written + QUIET {
            return None;
        }
        *written = notice.at;
        Some(Step { name, count: *count })
    }
}

/// The same thing told twice has the same name, also after a restart of the platform.
fn event_name(notice: &Notice) -> String {
    let mut hash = Sha256::new();
    let about = &notice.about;
    for part in [about.uid.as_deref(), about.field_path.as_deref(), Some(&notice.reason), Some(&notice.message)] {
        hash.update(part.unwrap_or_default());
        hash.update([0]);
    }
    let pod: String = about.name.as_deref().unwrap_or_default().chars().take(230).collect();
    format!("{pod}.{}", hex::encode(&hash.finalize()[..8]))
}

async fn write(client: &Client, node: &str, notice: &Notice, step: &Step) -> Result<(), kube::Error> {
    let namespace = notice.about.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let count = if step.count > 1 { Some(step.count) } else { create(&api, node, namespace, notice, step).await? };
    if let Some(count) = count {
        let patch = serde_json::json!({"count": count, "lastTimestamp": Time(notice.at)});
        call(api.patch(&step.name, &PatchParams::default(), &Patch::Merge(patch))).await?;
    }
    Ok(())
}

/// Returns the count to patch when an event of that name was there already.
async fn create(
    api: &Api<Event>,
    node: &str,
    namespace: &str,
    notice: &Notice,
    step: &Step,
) -> Result<Option<i32>, kube::Error> {
    let at = Some(Time(notice.at));
    let event = Event {
        metadata: ObjectMeta {
            name: Some(step.name.clone()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: notice.about.clone(),
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(notice.reason.clone()),
        message: Some(notice.message.chars().take(1024).collect()),
        count: Some(step.count),
        first_timestamp: at.clone(),
        last_timestamp: at,
        source: Some(EventSource { component: Some("modelway-node".to_owned()), host: Some(node.to_owned()) }),
        reporting_component: Some("modelway-node".to_owned()),
        reporting_instance: Some(node.to_owned()),
        ..Event::default()
    };
    match call(api.create(&PostParams::default(), &event)).await {
        Ok(created) => {
            tracing::debug!(event = created.name_any(), reason = notice.reason, "event");
            Ok(None)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let before = call(api.get(&step.name)).await?;
            Ok(Some(before.count.unwrap_or(1).saturating_add(1)))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(message: &str, second: i64) -> Notice {
        Notice {
            about: ObjectReference { name: Some("p".into()), uid: Some("u".into()), ..ObjectReference::default() },
            warning: true,
            reason: "BackOff".into(),
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn counts_repeats_and_keeps_quiet_for_a_while() {
        let mut seen = Seen::default();
        assert_eq!(seen.step(&notice("a", 0)).unwrap().count, 1);
        assert_eq!(seen.step(&notice("a", 1)), None);
        assert_eq!(seen.step(&notice("b", 1)).unwrap().count, 1);
        assert_eq!(seen.step(&notice("a", 10)).unwrap().count, 3);
    }

    #[test]
    fn one_thing_has_one_name() {
        assert_eq!(event_name(&notice("a", 0)), event_name(&notice("a", 9)));
        assert_ne!(event_name(&notice("a", 0)), event_name(&notice("b", 0)));
    }
}
