//! A router's life: bind, follow the source, serve, drain.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use modelway_api::route_table::RetryBudget;
use modelway_route::RouteKey;
use modelway_route::retry::Budget;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::activity::Activity;
use crate::hold::HoldGate;
use crate::listener::Acceptor;
use crate::meter::Metrics;
use crate::options::{Limits, RouterOptions, Source};
use crate::routes::RouteState;
use crate::upstream::Connections;
use crate::{admin, clock, hold, source};

/// How often kept connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);

/// Why a router cannot run.
#[derive(Debug, Error)]
pub enum RouterError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({flag}): {source}; choose another address or stop what holds it")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Option that names it.
        flag: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Metrics cannot be set up.
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// The admin port stopped.
    #[error("the admin port {address} stopped: {source}")]
    Admin {
        /// Its address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// What every request and every admin call sees.
pub struct Shared {
    /// The configuration.
    pub routes: Arc<RouteState>,
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// Requests that wait.
    pub hold: Arc<HoldGate>,
    /// Whether anything happens.
    pub activity: Activity,
    /// Connections to endpoints.
    pub connections: Connections,
    /// Whether the router is going away.
    pub draining: AtomicBool,
    /// How long a request that waits hears nothing, if it understands that.
    pub quiet: Duration,
    /// Bounds on clients.
    pub limits: Limits,
    /// Requests with an arm so far.
    pub requests: AtomicU64,
    /// Random at each start.
    pub boot_id: String,
    budget: Mutex<Option<Budget>>,
}

impl Shared {
    /// Takes a repeat out of the budget.
    pub fn withdraw(&self, limits: RetryBudget) -> bool {
        let (requests, now) = (self.requests.load(Relaxed), clock::now());
        let mut budget = self.budget.lock();
        budget.get_or_insert_with(|| Budget::new(limits, requests, now)).withdraw(limits, requests, now)
    }
}

/// A router with its sockets open.
pub struct Router {
    listener: TcpListener,
    admin: TcpListener,
    address: SocketAddr,
    admin_address: SocketAddr,
    options: RouterOptions,
    shared: Arc<Shared>,
}

/// Binds and serves until the token is cancelled and the requests in flight are answered.
pub async fn run(options: RouterOptions, token: CancellationToken) -> Result<(), RouterError> {
    Router::bind(options).await?.serve(token).await
}

impl Router {
    /// Opens the sockets; nothing is served yet.
    pub async fn bind(options: RouterOptions) -> Result<Self, RouterError> {
        let (listener, address) = listen(options.listen, "--listen").await?;
        let (admin, admin_address) = listen(options.admin, "--admin").await?;
        let key = options.key.unwrap_or_else(|| {
            tracing::warn!("no route key: users change arms with every start of the router; give it --key-file");
            RouteKey::new(rand::random())
        });
        let metrics = Arc::new(Metrics::new()?);
        let shared = Arc::new(Shared {
            routes: Arc::new(RouteState::new(key, metrics.clone())),
            metrics,
            hold: Arc::new(HoldGate::new()),
            activity: Activity::new(),
            connections: Connections { tasks: TaskTracker::new(), kill: CancellationToken::new() },
            draining: AtomicBool::new(false),
            quiet: options.quiet,
            limits: options.limits,
            requests: AtomicU64::new(0),
            boot_id: format!("{:016x}", rand::random::<u64>()),
            budget: Mutex::new(None),
        });
        Ok(Self { listener, admin, address, admin_address, options, shared })
    }

    /// Where clients come in.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where health, metrics, configuration and stats are.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Serves until the token is cancelled and the requests in flight are answered.
    pub async fn serve(self, token: CancellationToken) -> Result<(), RouterError> {
        let Self { listener, admin, address, admin_address, options, shared } = self;
        tracing::info!(%address, admin = %admin_address, "router listens");
        let background = CancellationToken::new();
        let _end_background = background.clone().drop_guard();
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(options.source, shared.clone(), background.clone()));
        tasks.spawn(hold::keep_pace(shared.hold.clone(), shared.metrics.clone(), background.clone()));
        tasks.spawn(housekeeping(shared.clone(), background.clone()));
        let admin = admin::serve(admin, shared.clone(), background.clone());
        let served = Acceptor::new(listener, shared.clone()).run(token, options.drain, options.deadline);
        let result = tokio::select! {
            () = served => Ok(()),
            Err(source) = admin => Err(RouterError::Admin { address: admin_address, source }),
        };
        background.cancel();
        shared.connections.kill.cancel();
        tasks.join_all().await;
        shared.connections.tasks.close();
        // Killed above, so this is a matter of scheduling; a bound all the same.
        let _ = tokio::time::timeout(SWEEP, shared.connections.tasks.wait()).await;
        result
    }
}

async fn listen(address: SocketAddr, flag: &'static str) -> Result<(TcpListener, SocketAddr), RouterError> {
    let failed = |source| RouterError::Bind { address, flag, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

async fn follow(from: Source, shared: Arc<Shared>, token: CancellationToken) {
    let routes = shared.routes.clone();
    match from {
        Source::File(path) => source::file::follow(path, routes, token).await,
        Source::Kube { client, namespace, inference } => {
            source::kube::Follow::new(client, namespace, inference, routes).run(token).await;
        }
    }
}

async fn housekeeping(shared: Arc<Shared>, token: CancellationToken) {
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => shared.routes.sweep(),
        }
    }
}
