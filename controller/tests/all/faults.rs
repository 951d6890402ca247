//! A client that loses, delays, refuses and cuts, by a seeded plan; and that remembers what was asked of the server.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use axum::body::Body as Answer;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

/// One request that reached the server.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    pub path: String,
    pub is_watch: bool,
    pub code: u16,
    /// Who asked.
    pub client: String,
    /// Who held the lease when it arrived.
    pub leader: String,
}

impl Seen {
    pub fn is_write(&self) -> bool {
        self.method != Method::GET && !self.path.contains("/leases")
    }
}

/// What goes wrong, how often, of 100 requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storm {
    /// 401: the token has expired.
    pub expired: u32,
    /// 429 with Retry-After.
    pub busy: u32,
    /// 500.
    pub broken: u32,
    /// 409 to writes.
    pub conflict: u32,
    /// The request is carried out and its answer lost.
    pub lost: u32,
    /// The request never arrives.
    pub dropped: u32,
    /// Watches end after up to that long.
    pub cut_after: Option<Duration>,
}

impl Storm {
    pub const HEAVY: Self = Self {
        expired: 0,
        busy: 4,
        broken: 4,
        conflict: 4,
        lost: 4,
        dropped: 4,
        cut_after: Some(Duration::from_millis(400)),
    };
}

/// The plan and the memory, shared by the clients of one server.
#[derive(Clone)]
pub struct Faults(Arc<Mutex<Inner>>);

struct Inner {
    rng: StdRng,
    storm: Storm,
    /// By method and resource: the words of a 403.
    forbidden: HashMap<(Method, String), String>,
    seen: Vec<Seen>,
    leader: String,
    /// Clients that die with their first write.
    mortal: HashSet<String>,
    dead: HashSet<String>,
}

enum Fate {
    Pass { cut_after: Option<Duration>, is_lost: bool },
    Answer(Value),
    Dropped,
}

impl Faults {
    pub fn new(seed: u64) -> Self {
        println!("seed of the faults: {seed}");
        Self(Arc::new(Mutex::new(Inner {
            rng: StdRng::seed_from_u64(seed),
            storm: Storm::default(),
            forbidden: HashMap::new(),
            seen: Vec::new(),
            leader: String::new(),
            mortal: HashSet::new(),
            dead: HashSet::new(),
        })))
    }

    pub fn storm(&self, storm: Storm) {
        self.0.lock().storm = storm;
    }

    /// Refuses a method on a resource from now on, with those words.
    pub fn forbid(&self, method: Method, resource: &str, message: &str) {
        self.0.lock().forbidden.insert((method, resource.to_owned()), message.to_owned());
    }

    pub fn allow(&self, method: Method, resource: &str) {
        self.0.lock().forbidden.remove(&(method, resource.to_owned()));
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.0.lock().seen.clone()
    }

    pub fn forget(&self) {
        self.0.lock().seen.clear();
    }

    pub fn leader(&self) -> String {
        self.0.lock().leader.clone()
    }

    /// That client is dead once a write of it was carried out: no answer comes, and nothing more is sent.
    pub fn dies_with_its_first_write(&self, client: &str) {
        self.0.lock().mortal.insert(client.to_owned());
    }

    pub fn is_dead(&self, client: &str) -> bool {
        self.0.lock().dead.contains(client)
    }

    /// A client through the faults; `name` is who asks.
    pub fn client(&self, inner: &Client, name: &str) -> Client {
        let (inner, faults, name) = (inner.clone(), self.clone(), name.to_owned());
        let namespace = inner.default_namespace().to_owned();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, faults, name) = (inner.clone(), faults.clone(), name.clone());
            async move { faults.send(&inner, &name, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, inner: &Client, client: &str, request: Request<Body>) -> Result<Response<Answer>, Lost> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        if self.is_dead(client) {
            std::future::pending::<()>().await;
        }
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let fate = self.0.lock().fate(&method, &path, is_watch);
        let (cut_after, is_lost) = match fate {
            Fate::Pass { cut_after, is_lost } => (cut_after, is_lost),
            Fate::Answer(status) => {
                self.note(Seen::new(&method, &path, is_watch, code(&status), client), None);
                return Ok(answer(&status));
            }
            Fate::Dropped => return Err(Lost),
        };
        let leader = self.leader();
        let response = inner.send(request).await.map_err(|_| Lost)?;
        let (head, body) = response.into_parts();
        let seen = Seen { leader, ..Seen::new(&method, &path, is_watch, head.status.as_u16(), client) };
        if is_watch {
            self.note(seen, None);
            let frames = http_body_util::BodyDataStream::new(body);
            let cut = async move {
                match cut_after {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
            };
            return Ok(Response::from_parts(head, Answer::from_stream(frames.take_until(Box::pin(cut)))));
        }
        let bytes = body.collect().await.map_err(|_| Lost)?.to_bytes();
        self.note(seen, serde_json::from_slice(&bytes).ok().as_ref());
        if self.is_dead(client) {
            std::future::pending::<()>().await;
        }
        if is_lost { Err(Lost) } else { Ok(Response::from_parts(head, Answer::from(bytes))) }
    }

    /// A successful write of the lease makes its holder the leader.
    fn note(&self, seen: Seen, body: Option<&Value>) {
        let mut inner = self.0.lock();
        if seen.path.contains("/leases") && seen.method != Method::GET && seen.code < 300 {
            let holder = body.and_then(|body| body["spec"]["holderIdentity"].as_str());
            holder.unwrap_or_default().clone_into(&mut inner.leader);
        }
        if seen.is_write() && seen.code < 300 && inner.mortal.contains(&seen.client) {
            inner.dead.insert(seen.client.clone());
        }
        inner.seen.push(seen);
    }
}

impl Seen {
    fn new(method: &Method, path: &str, is_watch: bool, code: u16, client: &str) -> Self {
        Self {
            method: method.clone(),
            path: path.to_owned(),
            is_watch,
            code,
            client: client.to_owned(),
            leader: String::new(),
        }
    }
}

impl Inner {
    fn fate(&mut self, method: &Method, path: &str, is_watch: bool) -> Fate {
        let forbidden = self.forbidden.iter().find(|((wrong, resource), _)| {
            let parts: Vec<&str> = path.split('/').collect();
            wrong == method && parts.contains(&resource.as_str())
        });
        if let Some((_, message)) = forbidden {
            return Fate::Answer(status(403, "Forbidden", message));
        }
        let storm = self.storm;
        let cut_after = storm.cut_after.map(|most| self.rng.random_range(Duration::ZERO..most));
        let (roll, mut before) = (self.rng.random_range(0..100), 0);
        let mut hits = |percent: u32| {
            before += percent;
            (before - percent..before).contains(&roll)
        };
        if hits(storm.expired) {
            return Fate::Answer(status(401, "Unauthorized", "Unauthorized"));
        }
        if hits(storm.busy) {
            let mut status = status(429, "TooManyRequests", "the server is busy");
            status["details"] = json!({"retryAfterSeconds": 1});
            return Fate::Answer(status);
        }
        if hits(storm.broken) {
            return Fate::Answer(status(500, "InternalError", "etcdserver: leader changed"));
        }
        if hits(storm.conflict) && matches!(*method, Method::PUT | Method::PATCH) {
            return Fate::Answer(status(409, "Conflict", "the object has been modified"));
        }
        if hits(storm.dropped) {
            return Fate::Dropped;
        }
        Fate::Pass { cut_after, is_lost: !is_watch && hits(storm.lost) }
    }
}

/// The answer never came.
#[derive(Debug, thiserror::Error)]
#[error("connection reset")]
pub struct Lost;

fn code(status: &Value) -> u16 {
    u16::try_from(status["code"].as_u64().unwrap()).unwrap()
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})
}

fn answer(status: &Value) -> Response<Answer> {
    let builder = Response::builder().status(code(status)).header("content-type", "application/json");
    builder.body(Answer::from(status.to_string())).unwrap()
}
