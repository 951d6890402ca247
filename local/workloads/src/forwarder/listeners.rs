//! The listening sockets of all Services and the connections they accepted.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::forward;
use super::pick::Backends;
use super::table::Targets;
use crate::key::Key;

/// Connections the kernel keeps while we are busy.
const BACKLOG: u32 = 1024;
/// Accepting goes on after this when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds of the forwarder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at a time; more wait in the kernel.
    pub(crate) connections: usize,
    /// Connections that wait for an endpoint at a time; more are closed.
    pub(crate) held: usize,
}

pub(crate) struct Listeners {
    open: Mutex<HashMap<SocketAddr, Listener>>,
    connections: Arc<Semaphore>,
    held: Arc<Semaphore>,
    tasks: TaskTracker,
    token: CancellationToken,
}

struct Listener {
    service: Key,
    backends: watch::Sender<Arc<Backends>>,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

/// A port that could not be opened.
#[derive(Debug)]
pub(crate) struct NotBound {
    pub(crate) address: SocketAddr,
    pub(crate) error: io::Error,
}

impl Listeners {
    /// Everything stops when the token is cancelled.
    pub(crate) fn new(limits: Limits, token: CancellationToken) -> Self {
        Self {
            open: Mutex::new(HashMap::new()),
            connections: Arc::new(Semaphore::new(limits.connections)),
            held: Arc::new(Semaphore::new(limits.held)),
            tasks: TaskTracker::new(),
            token,
        }
    }

    /// Makes the listeners of one Service match the table. Connections that are already open stay open.
    pub(crate) async fn apply(&self, service: &Key, table: &BTreeMap<SocketAddr, Targets>) -> Vec<NotBound> {
        self.close_others(service, table).await;
        let mut failed = Vec::new();
        for (address, targets) in table {
            if self.update(service, *address, targets) {
                continue;
            }
            match bind(*address) {
                Ok(listener) => self.start(service, *address, listener, targets),
                Err(error) => failed.push(NotBound { address: *address, error }),
            }
        }
        failed
    }

    async fn close_others(&self, service: &Key, table: &BTreeMap<SocketAddr, Targets>) {
        let closing: Vec<Listener> = {
            let mut open = self.open.lock();
            let gone: Vec<SocketAddr> = open
                .iter()
                .filter(|(address, listener)| listener.service == *service && !table.contains_key(*address))
                .map(|(address, _)| *address)
                .collect();
            gone.iter().filter_map(|address| open.remove(address)).collect()
        };
        for listener in closing {
            listener.stop.cancel();
            // The socket is closed when the task has ended; the address may be wanted again at once.
            let _ = listener.accepting.await;
        }
    }

    /// Tells an open listener its endpoints; `false` when there is none of this Service.
    fn update(&self, service: &Key, address: SocketAddr, targets: &Targets) -> bool {
        let open = self.open.lock();
        let Some(listener) = open.get(&address).filter(|listener| listener.service == *service) else { return false };
        listener.backends.send_modify(|known| {
            *known = Arc::new(known.update(&targets.ready, &targets.draining));
        });
        true
    }

    fn start(&self, service: &Key, address: SocketAddr, listener: TcpListener, targets: &Targets) {
        let first = Arc::new(Backends::default().update(&targets.ready, &targets.draining));
        let (backends, receiver) = watch::channel(first);
        let stop = self.token.child_token();
        let accepting = self.tasks.spawn(accept(Accepting {
            listener,
            backends: receiver,
            connections: self.connections.clone(),
            held: self.held.clone(),
            tasks: self.tasks.clone(),
            stop: stop.clone(),
            all: self.token.clone(),
        }));
        self.open.lock().insert(address, Listener { service: service.clone(), backends, stop, accepting });
    }

    /// Waits until every task has ended; call it after the token was cancelled.
    pub(crate) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Rebinding after a restart must not wait for old connections in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

struct Accepting {
    listener: TcpListener,
    backends: watch::Receiver<Arc<Backends>>,
    connections: Arc<Semaphore>,
    held: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
    all: CancellationToken,
}

async fn accept(accepting: Accepting) {
    let Accepting { listener, backends, connections, held, tasks, stop, all } = accepting;
    loop {
        let next = async {
            let permit = connections.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            next = next => next,
        };
        // The semaphore is never closed.
        let Ok(permit) = permit else { return };
        match accepted {
            Ok((client, _)) => {
                let (backends, held, all) = (backends.clone(), held.clone(), all.clone());
                tasks.spawn(async move {
                    let _permit = permit;
                    tokio::select! {
                        () = all.cancelled() => {}
                        () = forward(client, backends, held) => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed; it goes on");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
