//! What a router is started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use modelway_route::RouteKey;

use crate::keep_alive;

/// How to start a router.
#[derive(Clone)]
pub struct RouterOptions {
    /// Where clients come in; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where health, metrics, configuration and stats are.
    pub admin: SocketAddr,
    /// Where the route table comes from.
    pub source: Source,
    /// Key of the assignment hash. Without one a random key is made, and units change arms with every start.
    pub key: Option<RouteKey>,
    /// After the stop signal: how long new connections are still accepted, until whoever sends them knows better.
    pub drain: Duration,
    /// After `drain`: how long requests in flight may take to finish.
    pub deadline: Duration,
    /// How long a request that waits for its predictor, and understands server-sent events, hears nothing: then its
    /// response starts, with a comment each time that this is over again.
    pub quiet: Duration,
    /// Bounds on what one client may use.
    pub limits: Limits,
}

/// Where the route table comes from.
#[derive(Clone)]
pub enum Source {
    /// `RouteTable` and `EndpointSlices` of an API server.
    Kube {
        /// Client of that server.
        client: kube::Client,
        /// Namespace of the table and the slices.
        namespace: String,
        /// Name of the Inference, which is the name of its table.
        inference: String,
    },
    /// A YAML or JSON file with static endpoints, read again when it changes.
    File(PathBuf),
}

/// Bounds on what one client may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From the first byte of a request's head to its last.
    pub header_read: Duration,
    /// How long a connection may wait for its next request.
    pub keep_alive: Duration,
    /// Header lines of a request.
    pub headers: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Bytes of a request's body; none = no bound.
    pub body_bytes: Option<u64>,
    /// Connections of all clients.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_read: Duration::from_secs(10),
            // Above the 60 s of the usual load balancers, so that they close first and never race with us.
            keep_alive: Duration::from_secs(75),
            headers: 100,
            head_bytes: 64 * 1024,
            body_bytes: None,
            connections: 16_384,
        }
    }
}

impl RouterOptions {
    /// Options with the usual times and limits.
    pub fn new(listen: SocketAddr, admin: SocketAddr, source: Source) -> Self {
        Self {
            listen,
            admin,
            source,
            key: None,
            drain: Duration::from_secs(5),
            deadline: Duration::from_secs(25),
            quiet: keep_alive::QUIET,
            limits: Limits::default(),
        }
    }
}
