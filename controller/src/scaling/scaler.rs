//! Looks after every Inference that follows its load, while this process leads.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use modelway_plan::{
    Key,
    scale::{Moment, TICK},
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::Instant,
};

use super::{
    follower::{self, Follower},
    stream::{self, Heard},
};
use crate::{leadership::Leadership, metrics::Metrics, store::Store};

/// Changes of objects within that time are looked at together.
const GATHER: Duration = Duration::from_millis(200);
/// Words of all routers that may wait to be taken in; their senders wait beyond that.
const WORDS: usize = 1_024;
/// Words of one router that may wait.
const ROUTER_WORDS: usize = 8;

/// Which router.
type RouterKey = (Key, String);
/// What one of them tells.
type Word = (RouterKey, Heard);

/// The task.
pub struct Scaler {
    pub store: Store,
    pub leadership: Leadership,
    pub metrics: Metrics,
}

impl Scaler {
    /// Works for ever. A new leader knows nothing of the load before.
    pub async fn run(mut self) {
        loop {
            self.leadership.leading().await;
            let mut leadership = self.leadership.clone();
            let mut term = Term::new(&self.store, &self.metrics);
            tokio::select! {
                () = leadership.lost() => {}
                () = term.work() => {}
            }
            term.end();
        }
    }
}

/// One time of leading.
struct Term<'a> {
    store: &'a Store,
    metrics: &'a Metrics,
    began: Instant,
    followers: BTreeMap<Key, Follower>,
    streams: HashMap<RouterKey, (String, AbortHandle)>,
    tasks: JoinSet<()>,
    words: (mpsc::Sender<Word>, mpsc::Receiver<Word>),
}

impl<'a> Term<'a> {
    fn new(store: &'a Store, metrics: &'a Metrics) -> Self {
        Self {
            store,
            metrics,
            began: Instant::now(),
            followers: BTreeMap::new(),
            streams: HashMap::new(),
            tasks: JoinSet::new(),
            words: mpsc::channel(WORDS),
        }
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    async fn work(&mut self) {
        let mut changes = self.store.changes();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut look_at = Some(Instant::now());
        loop {
            let look = async {
                match look_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((router, heard)) = self.words.1.recv() => self.hear(&router, &heard),
                () = look => {
                    look_at = None;
                    self.look();
                }
                Ok(()) = changes.changed(), if look_at.is_none() => look_at = Some(Instant::now() + GATHER),
                _ = tick.tick() => self.decide_all(),
            }
        }
    }

    fn hear(&mut self, (key, uid): &RouterKey, heard: &Heard) {
        let now = self.now();
        let Some(follower) = self.followers.get_mut(key) else { return };
        match heard {
            Heard::Stats(stats) => {
                if follower.hear(uid, stats, now) {
                    decide(self.store, key, follower, now);
                }
            }
            Heard::Lost => follower.lose(uid, now),
        }
    }

    fn decide_all(&mut self) {
        let now = self.now();
        for (key, follower) in &mut self.followers {
            decide(self.store, key, follower, now);
        }
    }

    /// Takes in what the objects say by now.
    fn look(&mut self) {
        let now = self.now();
        let mut before = std::mem::take(&mut self.followers);
        for namespace in self.store.namespaces() {
            let world = self.store.namespace(&namespace);
            let followed = follower::followed(&world);
            if followed.is_empty() {
                continue;
            }
            let routers = follower::routers(&world, &namespace);
            for key in followed {
                let Some(inference) = world.object(&key) else { continue };
                let mut follower = before.remove(&key).unwrap_or_default();
                let pods = routers.get(key.name.as_str()).map_or(&[][..], |pods| &pods[..]);
                follower.look(&world, inference, pods, now);
                self.followers.insert(key, follower);
            }
        }
        for key in before.keys() {
            self.store.set_load(key, None);
        }
        self.follow();
    }

    /// Starts and ends streams, so that there is one for each router.
    fn follow(&mut self) {
        let followers = &self.followers;
        self.streams.retain(|(key, uid), (address, task)| {
            let router = followers.get(key).and_then(|follower| follower.routers.get(uid));
            let stays = router.is_some_and(|router| router.address == *address);
            if !stays {
                task.abort();
            }
            stays
        });
        for (key, follower) in followers {
            for (uid, router) in &follower.routers {
                let of = (key.clone(), uid.clone());
                if !self.streams.contains_key(&of) {
                    let task = self.tasks.spawn(told(of.clone(), router.address.clone(), self.words.0.clone()));
                    self.streams.insert(of, (router.address.clone(), task));
                }
            }
        }
        while self.tasks.try_join_next().is_some() {}
        self.metrics.routers_followed(self.streams.len());
    }

    fn end(self) {
        for key in self.followers.keys() {
            self.store.set_load(key, None);
        }
        self.metrics.routers_followed(0);
    }
}

fn decide(store: &Store, key: &Key, follower: &mut Follower, now: Moment) {
    let load = follower.decide(now);
    if follower.told.as_ref() != Some(&load) {
        store.set_load(key, Some(load.clone()));
        follower.told = Some(load);
    }
}

/// Follows one router and says whose words they are.
async fn told(router: RouterKey, address: String, words: mpsc::Sender<Word>) {
    let (sender, mut heard) = mpsc::channel(ROUTER_WORDS);
    let forward = async {
        while let Some(word) = heard.recv().await {
            if words.send((router.clone(), word)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = stream::follow(address, sender) => {}
        () = forward => {}
    }
}
