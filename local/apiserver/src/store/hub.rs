//! Hands committed events to watchers, each behind a bounded queue; one that cannot follow is cut off.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::object::Object;

/// Events a watcher may lag behind before it is cut off. It then lists and watches anew, as Kubernetes asks of clients.
const QUEUE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One committed change.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The new state; of a deletion the last one, under the deletion's revision.
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
}

/// Committed events in order. Ends when its reader fell behind or the store closed.
pub type Subscription = mpsc::Receiver<Arc<Event>>;

#[derive(Debug, Default)]
pub struct Hub {
    by_resource: HashMap<String, Vec<mpsc::Sender<Arc<Event>>>>,
    all: Vec<mpsc::Sender<Arc<Event>>>,
}

impl Hub {
    /// Events of one resource, or of all.
    pub fn subscribe(&mut self, resource: Option<&str>) -> Subscription {
        let (sender, receiver) = mpsc::channel(QUEUE);
        match resource {
            Some(resource) => {
                let senders = self.by_resource.entry(resource.to_owned()).or_default();
                senders.retain(|sender| !sender.is_closed());
                senders.push(sender);
            }
            None => self.all.push(sender),
        }
        receiver
    }

    pub fn publish(&mut self, event: &Arc<Event>) {
        if let Some(senders) = self.by_resource.get_mut(&*event.object.key.resource) {
            deliver(senders, event);
        }
        deliver(&mut self.all, event);
    }
}

fn deliver(senders: &mut Vec<mpsc::Sender<Arc<Event>>>, event: &Arc<Event>) {
    senders.retain(|sender| sender.try_send(event.clone()).is_ok());
}
