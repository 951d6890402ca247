//! What keeps the controller from its work: for probes, for conditions of objects, for the log.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use modelway_api::Reason;
use modelway_plan::Kind;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Work that takes longer is stuck: a plan has tens of calls at most, each with a limit of seconds.
const STUCK: Duration = Duration::from_mins(5);

/// The state of watches, definitions and tasks. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    busy: HashMap<u64, (&'static str, Instant)>,
    next: u64,
    /// By kind and namespace, which is empty for a watch of all namespaces.
    watches: BTreeMap<(Kind, String), Watch>,
    definitions: BTreeMap<(Kind, Aspect), String>,
    election: Option<String>,
}

/// What may be wrong with a definition.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Aspect {
    /// The kind is not served.
    Served,
    /// Fields are missing.
    Schema,
}

#[derive(Debug, Default)]
struct Watch {
    is_listed: bool,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    message: String,
    is_forbidden: bool,
}

/// Why a key cannot be planned now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Obstacle {
    /// The first list is on its way.
    Unlisted(Kind),
    /// Somebody has to change something first.
    Told { reason: Reason, message: String },
}

/// Work that is under way; it has ended when this is dropped.
#[derive(Debug)]
pub struct Busy {
    health: Health,
    number: u64,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.health.0.lock().busy.remove(&self.number);
    }
}

impl Health {
    /// Notes that a task has begun a piece of work.
    #[must_use]
    pub fn busy(&self, task: &'static str) -> Busy {
        let mut inner = self.0.lock();
        inner.next += 1;
        let number = inner.next;
        inner.busy.insert(number, (task, Instant::now()));
        Busy { health: self.clone(), number }
    }

    /// Tasks that do not come to an end.
    pub fn stuck(&self) -> Vec<String> {
        let inner = self.0.lock();
        let stuck = inner.busy.values().filter(|(_, since)| since.elapsed() > STUCK);
        stuck.map(|(task, since)| format!("{task} has been busy for {} s", since.elapsed().as_secs())).collect()
    }

    /// Everything that keeps the controller from all of its work.
    pub fn problems(&self) -> Vec<String> {
        let inner = self.0.lock();
        let watches = inner.watches.iter().filter_map(|((kind, namespace), watch)| watch.problem(*kind, namespace));
        watches.chain(inner.definitions.values().cloned()).chain(inner.election.clone()).collect()
    }

    /// A watch is about to begin.
    pub fn watch_begins(&self, kind: Kind, namespace: &str) {
        self.0.lock().watches.entry((kind, namespace.to_owned())).or_default();
    }

    /// A kind has been listed, or is known not to be served. Returns whether that takes an obstacle away.
    pub fn watch_works(&self, kind: Kind, namespace: &str) -> bool {
        let watch = Watch { is_listed: true, failure: None };
        let before = self.0.lock().watches.insert((kind, namespace.to_owned()), watch);
        before.and_then(|before| before.failure).is_some_and(|failure| failure.is_forbidden)
    }

    /// A list or watch failed. Returns whether that is news.
    pub fn watch_fails(&self, kind: Kind, namespace: &str, message: String, is_forbidden: bool) -> bool {
        let mut inner = self.0.lock();
        let watch = inner.watches.entry((kind, namespace.to_owned())).or_default();
        let is_news = watch.failure.as_ref().is_none_or(|before| before.message != message);
        watch.failure = Some(Failure { message, is_forbidden });
        is_news
    }

    /// Whether a kind has ever been listed.
    pub fn is_listed(&self, kind: Kind, namespace: &str) -> bool {
        self.0.lock().watches.get(&(kind, namespace.to_owned())).is_some_and(|watch| watch.is_listed)
    }

    /// What is wrong with a kind's definition, or that nothing is. Returns whether that is news.
    pub fn definition(&self, kind: Kind, aspect: Aspect, problem: Option<&str>) -> bool {
        let definitions = &mut self.0.lock().definitions;
        let before = match problem {
            Some(problem) => definitions.insert((kind, aspect), problem.to_owned()),
            None => definitions.remove(&(kind, aspect)),
        };
        let is_news = before.as_deref() != problem;
        match problem {
            Some(problem) if is_news => tracing::warn!(kind = kind.as_str(), "{problem}"),
            None if is_news => tracing::info!(kind = kind.as_str(), ?aspect, "the definition is fine now"),
            _ => {}
        }
        is_news
    }

    /// Whether anything is wrong with a kind's definition.
    pub fn has_definition_problem(&self, kind: Kind) -> bool {
        self.0.lock().definitions.keys().any(|(wrong, _)| *wrong == kind)
    }

    /// The election gets answers.
    pub fn election_works(&self) {
        self.0.lock().election = None;
    }

    /// The election gets no answers. Returns whether that is news.
    pub fn election_fails(&self, message: &str) -> bool {
        self.0.lock().election.replace(format!("leader election: {message}")).is_none()
    }

    /// Why a key that needs those kinds in that namespace cannot be planned now.
    pub fn obstacle(&self, needs: &[Kind], namespace: &str) -> Option<Obstacle> {
        let inner = self.0.lock();
        let wrong = inner.definitions.iter().find(|((kind, _), _)| needs.contains(kind));
        if let Some((_, message)) = wrong {
            return Some(Obstacle::Told { reason: Reason::DefinitionOutdated, message: message.clone() });
        }
        let watches = needs.iter().flat_map(|&kind| {
            let places = [(kind, String::new()), (kind, namespace.to_owned())];
            let found: Vec<&Watch> = places.iter().filter_map(|place| inner.watches.get(place)).collect();
            found.into_iter().map(move |watch| (kind, watch))
        });
        watches.into_iter().find_map(|(kind, watch)| watch.obstacle(kind))
    }
}

impl Watch {
    fn obstacle(&self, kind: Kind) -> Option<Obstacle> {
        match &self.failure {
            Some(failure) if failure.is_forbidden => {
                let message = format!("the controller cannot see {}: {}", kind.names().3, failure.message);
                Some(Obstacle::Told { reason: Reason::AccessDenied, message })
            }
            _ if !self.is_listed => Some(Obstacle::Unlisted(kind)),
            _ => None,
        }
    }

    /// A watch that has been interrupted comes back by itself; one that is forbidden or never began does not.
    fn problem(&self, kind: Kind, namespace: &str) -> Option<String> {
        let (plural, place) = (kind.names().3, if namespace.is_empty() { "all namespaces" } else { namespace });
        match &self.failure {
            Some(failure) if failure.is_forbidden || !self.is_listed => {
                Some(format!("{plural} in {place}: {}", failure.message))
            }
            None if !self.is_listed => Some(format!("{plural} in {place}: not listed yet")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_watch_is_an_obstacle_where_it_is_needed() {
        let health = Health::default();
        health.watch_begins(Kind::Pod, "a");
        assert_eq!(health.obstacle(&[Kind::Pod], "a"), Some(Obstacle::Unlisted(Kind::Pod)));
        assert!(health.watch_fails(Kind::Pod, "a", "cannot list pods".to_owned(), true));
        assert!(!health.watch_fails(Kind::Pod, "a", "cannot list pods".to_owned(), true), "no news");
        let obstacle = health.obstacle(&[Kind::Job, Kind::Pod], "a");
        let Some(Obstacle::Told { reason: Reason::AccessDenied, message }) = obstacle else { panic!("{obstacle:?}") };
        assert!(message.contains("cannot list pods"), "{message}");
        assert_eq!(health.obstacle(&[Kind::Pod], "b"), None, "another namespace's watch");
        assert_eq!(health.obstacle(&[Kind::Job], "a"), None);
        health.watch_works(Kind::Pod, "a");
        assert_eq!(health.obstacle(&[Kind::Pod], "a"), None);
        assert!(health.problems().is_empty());
    }

    #[test]
    fn an_interrupted_watch_is_no_problem_and_an_old_definition_is_one() {
        let health = Health::default();
        health.watch_works(Kind::Job, "");
        health.watch_fails(Kind::Job, "", "connection reset".to_owned(), false);
        assert!(health.problems().is_empty());
        assert!(health.definition(Kind::Model, Aspect::Schema, Some("too old")));
        assert_eq!(health.problems(), ["too old"]);
        assert!(health.definition(Kind::Model, Aspect::Schema, None));
        assert!(!health.definition(Kind::Model, Aspect::Schema, None));
    }

    #[tokio::test(start_paused = true)]
    async fn work_without_end_is_stuck() {
        let health = Health::default();
        let busy = health.busy("worker");
        assert!(health.stuck().is_empty());
        tokio::time::advance(STUCK * 2).await;
        assert_eq!(health.stuck().len(), 1);
        drop(busy);
        assert!(health.stuck().is_empty());
    }
}
