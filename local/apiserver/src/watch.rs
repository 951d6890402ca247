//! Watches: replay, live events, bookmarks, as JSON lines.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_stream::stream;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::Stream;
use http::header;
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use crate::Core;
use crate::kinds::ResourceKind;
use crate::query::ListParameters;
use crate::read::PAGE;
use crate::selector::Selector;
use crate::status::ApiError;
use crate::store::{Event, EventKind, HistoryError, Object, Snapshot, Subscription};
use crate::table;
use crate::versions::{self, stored_resource};
use crate::view::View;

/// Bookmarks keep a quiet watch's revision young enough to be resumed.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// Watches without a limit of their own end, as in Kubernetes, within the hour.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
/// Events that wait are sent together up to about this many bytes.
const PIECE: usize = 32 * 1024;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a watch shows and how.
struct Scope {
    kind: Arc<ResourceKind>,
    namespace: Option<String>,
    selector: Selector,
    view: View,
    /// The next table names its columns.
    first: bool,
}

/// Where a watch starts.
enum Start {
    /// With every object there is; a bookmark says when they are all there if asked for.
    Initial { marked: bool },
    /// After a revision the client has seen.
    After(u64),
}

pub fn watch(
    core: &Arc<Core>,
    kind: Arc<ResourceKind>,
    namespace: Option<String>,
    parameters: ListParameters,
    view: View,
) -> Response {
    let (subscription, snapshot) = core.store.subscribe(&stored_resource(&kind), namespace.as_deref());
    let start = match (parameters.send_initial_events, parameters.resource_version) {
        (Some(true), _) => Start::Initial { marked: true },
        (Some(false), None | Some(0)) => Start::After(snapshot.revision),
        (None, None | Some(0)) => Start::Initial { marked: false },
        (_, Some(revision)) => Start::After(revision),
    };
    let scope = Scope { kind, namespace, selector: parameters.selector, view, first: true };
    let timeout = parameters.timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let lines = lines(core.clone(), scope, start, subscription, snapshot, parameters.bookmarks, timeout);
    let body = Body::from_stream(futures::StreamExt::map(lines, Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn lines(
    core: Arc<Core>,
    mut scope: Scope,
    start: Start,
    mut subscription: Subscription,
    snapshot: Snapshot,
    bookmarks: bool,
    timeout: Duration,
) -> impl Stream<Item = Bytes> + Send {
    stream! {
        let deadline = Instant::now() + timeout;
        let mut after = snapshot.revision;
        match start {
            Start::Initial { marked } => {
                for object in snapshot.objects {
                    if scope.selector.matches(&object) {
                        yield scope.line("ADDED", &object);
                    }
                }
                if marked && bookmarks {
                    yield scope.bookmark(after, true);
                }
            }
            Start::After(revision) => {
                let mut replayed = revision;
                while replayed < after {
                    match replay(&core, &scope, replayed, after).await {
                        Ok((lines, last)) => {
                            for (kind, object) in lines {
                                yield scope.line(kind, &object);
                            }
                            replayed = last;
                        }
                        Err(error) => {
                            yield error_line(&error);
                            return;
                        }
                    }
                }
                after = after.max(revision);
            }
        }
        let mut bookmark_timer = interval_at(Instant::now() + BOOKMARK_EVERY, BOOKMARK_EVERY);
        bookmark_timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Made once: a timer and a waiter for each event would cost as much as the event.
        let mut ended = std::pin::pin!(sleep_until(deadline));
        let mut shut_down = std::pin::pin!(core.shutdown.cancelled());
        loop {
            tokio::select! {
                () = &mut shut_down => return,
                () = &mut ended => return,
                event = subscription.recv() => {
                    // Ends when this watch fell behind; the client resumes from what it has seen.
                    let Some(event) = event else { return };
                    let lines = scope.lines(event, &mut subscription, after);
                    if !lines.is_empty() {
                        yield lines;
                    }
                }
                _ = bookmark_timer.tick(), if bookmarks => {
                    // Everything up to this revision is already in the queue.
                    let revision = core.store.revision();
                    while let Ok(event) = subscription.try_recv() {
                        let lines = scope.lines(event, &mut subscription, after);
                        if !lines.is_empty() {
                            yield lines;
                        }
                    }
                    yield scope.bookmark(revision.max(after), false);
                }
            }
        }
    }
}

/// One stretch of history as lines, and the revision it reached.
async fn replay(
    core: &Core,
    scope: &Scope,
    after: u64,
    until: u64,
) -> Result<(Vec<(&'static str, Arc<Object>)>, u64), HistoryError> {
    let events = core.store.events(&stored_resource(&scope.kind), after, until, PAGE).await?;
    let full = u32::try_from(events.len()).unwrap_or(u32::MAX) >= PAGE;
    let reached = events.last().filter(|_| full).map_or(until, |event| event.object.revision);
    Ok((events.iter().filter_map(|event| scope.transform(event)).collect(), reached))
}

impl Scope {
    /// The event as seen through the scope: objects that enter or leave it are added or deleted.
    fn transform(&self, event: &Event) -> Option<(&'static str, Arc<Object>)> {
        if self.namespace.as_ref().is_some_and(|namespace| event.object.key.namespace != *namespace) {
            return None;
        }
        let now = event.kind != EventKind::Deleted && self.selector.matches(&event.object);
        let before = event.previous.as_ref().filter(|previous| self.selector.matches(previous));
        match (before, now) {
            (None, false) => None,
            (None, true) => Some(("ADDED", event.object.clone())),
            (Some(_), true) => Some(("MODIFIED", event.object.clone())),
            (Some(_), false) if event.kind == EventKind::Deleted => Some(("DELETED", event.object.clone())),
            (Some(previous), false) => Some(("DELETED", at_revision(previous, event.object.revision))),
        }
    }

    /// The event and those that wait behind it, up to a bound, as one piece: a watch that lags catches up with fewer
    /// writes. What it shows begins after `after`.
    fn lines(&mut self, first: Arc<Event>, waiting: &mut Subscription, after: u64) -> Bytes {
        let (mut lines, mut length) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(event) = next {
            if event.object.revision > after
                && let Some((kind, object)) = self.transform(&event)
            {
                let line = self.line(kind, &object);
                length += line.len();
                lines.push(line);
            }
            next = if length < PIECE { waiting.try_recv().ok() } else { None };
        }
        match lines.len() {
            0 | 1 => lines.pop().unwrap_or_default(),
            _ => lines.concat().into(),
        }
    }

    fn line(&mut self, kind: &str, object: &Object) -> Bytes {
        if self.view == View::Whole && object.api_version == self.kind.api_version() {
            let mut line = Vec::with_capacity(object.body.len() + 40);
            line.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
            line.extend_from_slice(&object.body);
            line.extend_from_slice(b"}\n");
            return line.into();
        }
        let value = versions::shown(object, &self.kind);
        let shown = match self.view {
            View::Table(include) => table::watch_table(&self.kind, &value, include, self.first, SystemTime::now()),
            View::Whole | View::Metadata => self.view.one(&self.kind, value),
        };
        self.first = false;
        json_line(kind, &shown)
    }

    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let (kind, api_version) = match self.view {
            View::Whole | View::Table(_) => (self.kind.kind.clone(), self.kind.api_version()),
            View::Metadata => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        let object = match self.view {
            View::Table(include) => table::watch_table(&self.kind, &object, include, self.first, SystemTime::now()),
            View::Whole | View::Metadata => object,
        };
        json_line("BOOKMARK", &object)
    }
}

fn json_line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

fn error_line(error: &HistoryError) -> Bytes {
    let error = match error {
        HistoryError::Compacted { .. } => ApiError::expired(error.to_string()),
        HistoryError::Disk(_) => ApiError::internal(error),
    };
    json_line("ERROR", &error.status())
}

/// The object's old state under a newer revision.
fn at_revision(object: &Object, revision: u64) -> Arc<Object> {
    let mut value = object.value();
    let moved = Object::from_value(object.key.clone(), revision, &mut value);
    Arc::new(moved.expect("a stored object is written again as it was read"))
}
