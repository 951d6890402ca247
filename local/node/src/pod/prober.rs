//! Carrying out probes.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::exec;
use super::launch::Launch;
use super::probe::{ProbeAction, ProbeKind, ProbeRule, Tally, Verdict, next_look};
use super::record::Reason;
use crate::context::Shared;
use crate::listeners::{Listener, listeners};
use crate::proc;

/// What a probe has found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: ProbeKind,
    pub verdict: Verdict,
    /// Why the last look failed; `None` when it succeeded.
    pub failure: Option<Reason>,
    /// Whether a failure counts, and so is worth an event.
    pub counts: bool,
}

/// One probe of one run of a container.
pub struct Prober {
    pub context: Shared,
    pub uid: String,
    pub launch: Arc<Launch>,
    pub rule: ProbeRule,
    /// The shim above the container's processes.
    pub shim: i32,
    /// Pods on the host's own address share its listeners.
    pub host_network: bool,
}

impl Prober {
    /// Looks until the receiver is gone, and sends every finding that says something new.
    /// Liveness and readiness wait until `started` is true.
    pub async fn run(self, mut started: watch::Receiver<bool>, findings: mpsc::Sender<Finding>) {
        if self.rule.kind != ProbeKind::Startup && started.wait_for(|started| *started).await.is_err() {
            return;
        }
        let begin = Instant::now();
        let (mut tally, mut counted, mut last) = (Tally::default(), None, None);
        let mut known = Vec::new();
        loop {
            let look = next_look(&self.rule, tally.verdict(), begin.elapsed(), last.is_some(), counted);
            tokio::time::sleep(look.after).await;
            if look.counts {
                counted = Some(begin.elapsed());
            }
            let failure = self.look(&mut known).await.err();
            // A quick look in between may bring good news, never bad.
            if failure.is_none() || look.counts {
                tally.add(&self.rule, failure.is_none());
            }
            let counts = look.counts || failure.is_none();
            let finding = Finding { kind: self.rule.kind, verdict: tally.verdict(), failure, counts };
            if last.as_ref() != Some(&finding) && findings.send(finding.clone()).await.is_err() {
                return;
            }
            last = Some(finding);
            if self.rule.kind == ProbeKind::Startup && tally.verdict() == Verdict::Passing {
                return;
            }
        }
    }

    async fn look(&self, known: &mut Vec<u64>) -> Result<(), Reason> {
        let unhealthy = |message: String| Reason::new("Unhealthy", message);
        match &self.rule.action {
            ProbeAction::Unsupported { why } => Err(unhealthy(why.clone())),
            ProbeAction::Exec { command } => {
                let name = format!("probe-{}", self.rule.kind.name());
                exec::run(&self.context, &self.uid, &self.launch, &name, command, self.rule.timeout)
                    .await
                    .map_err(unhealthy)
            }
            ProbeAction::Listeners { ports } => {
                for port in ports {
                    self.check_wildcard(*port).await?;
                }
                Ok(())
            }
            ProbeAction::Tcp { host, port } => {
                let target = host.clone().unwrap_or_else(|| self.launch.address.to_string());
                self.ask(&target, *port, tcp(&target, *port), known).await
            }
            ProbeAction::Http { host, port, path, headers, tls } => {
                if *tls {
                    return Err(unhealthy(
                        "this node runs httpGet probes with scheme HTTP; use tcpSocket for HTTPS".to_owned(),
                    ));
                }
                let target = host.clone().unwrap_or_else(|| self.launch.address.to_string());
                self.ask(&target, *port, http_get(&target, *port, path, headers), known).await
            }
        }
    }

    async fn ask(
        &self,
        target: &str,
        port: u16,
        question: impl Future<Output = Result<(), String>> + Send,
        known: &mut Vec<u64>,
    ) -> Result<(), Reason> {
        let answer = tokio::time::timeout(self.rule.timeout, question).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.rule.timeout)));
        if target != self.launch.address.to_string() || self.host_network {
            return answer.map_err(|message| Reason::new("Unhealthy", message));
        }
        let (address, before) = (self.launch.address, known.clone());
        if answer.is_ok()
            && !before.is_empty()
            && blocking(move || Some(sockets_at(address, port) == before)).await == Some(true)
        {
            return Ok(());
        }
        known.clear();
        // A wrong listener explains more than the answer does.
        self.check_wildcard(port).await?;
        answer.map_err(|message| Reason::new("Unhealthy", message))?;
        let found = blocking(move || Some(sockets_at(address, port))).await.unwrap_or_default();
        self.check_owner(port).await?;
        *known = found;
        Ok(())
    }

    /// Fails when the container listens on all addresses: it would answer for every pod.
    async fn check_wildcard(&self, port: u16) -> Result<(), Reason> {
        if self.host_network {
            return Ok(());
        }
        let shim = self.shim;
        let found = blocking(move || {
            listeners(port)
                .into_iter()
                .filter(|listener| listener.address.is_unspecified())
                .find_map(|listener| proc::owner_of(listener.inode, proc::descendants(shim)))
        });
        match found.await {
            Some(pid) => {
                let message = format!(
                    "process {pid} listens on all addresses at port {port}, so it would answer for other pods: bind $(POD_IP), which is {}",
                    self.launch.address
                );
                Err(Reason::new("ListensOnAllAddresses", message))
            }
            None => Ok(()),
        }
    }

    /// Fails when somebody else answers at the pod's address.
    async fn check_owner(&self, port: u16) -> Result<(), Reason> {
        let (shim, address) = (self.shim, self.launch.address);
        let stranger = blocking(move || listener_of_another(shim, address, port)).await;
        stranger.map_or(Ok(()), |message| Err(Reason::new("PortHeldByHost", message)))
    }
}

/// Who may answer at that address.
fn listeners_at(address: Ipv4Addr, port: u16) -> Vec<Listener> {
    let mut found = listeners(port);
    found.retain(|listener| listener.address == IpAddr::V4(address) || listener.address.is_unspecified());
    found
}

/// The listening sockets at that address. While they stay the same, so do their owners: looking those up means a walk
/// through all processes, which is too much to do each second.
fn sockets_at(address: Ipv4Addr, port: u16) -> Vec<u64> {
    let mut sockets: Vec<u64> = listeners_at(address, port).iter().map(|listener| listener.inode).collect();
    sockets.sort_unstable();
    sockets
}

fn listener_of_another(shim: i32, address: Ipv4Addr, port: u16) -> Option<String> {
    let at_port = listeners_at(address, port);
    let own = proc::descendants(shim);
    if at_port.iter().any(|listener| proc::owner_of(listener.inode, own.iter().copied()).is_some()) {
        return None;
    }
    let all = || proc::processes().into_iter().map(|process| process.pid);
    let holder = at_port.iter().find_map(|listener| proc::owner_of(listener.inode, all()));
    let who = holder.map_or_else(
        || "a process outside this pod".to_owned(),
        |pid| format!("process {pid} ({}), which is not in this pod", proc::name(pid).unwrap_or_default()),
    );
    Some(format!("{address}:{port} is answered by {who}"))
}

async fn blocking<T: Send + 'static>(look: impl FnOnce() -> Option<T> + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

async fn tcp(host: &str, port: u16) -> Result<(), String> {
    TcpStream::connect((host, port))
        .await
        .map(drop)
        .map_err(|error| format!("cannot connect to {host}:{port}: {error}"))
}

async fn http_get(host: &str, port: u16, path: &str, headers: &[(String, String)]) -> Result<(), String> {
    let stream =
        TcpStream::connect((host, port)).await.map_err(|error| format!("cannot connect to {host}:{port}: {error}"))?;
    let failed = |error: hyper::Error| format!("GET http://{host}:{port}{path}: {error}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let mut request = http::Request::get(path).header("user-agent", "kube-probe/modelway").header("accept", "*/*");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header("host", format!("{host}:{port}"));
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request =
        request.body(Empty::<Bytes>::new()).map_err(|error| format!("the probe's request is not valid: {error}"))?;
    // The body is of no interest, and the connection ends with this function.
    let (answer, connection) = (pin!(sender.send_request(request)), pin!(connection));
    let answer = match select(answer, connection).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => answer.await,
    };
    let status = answer.map_err(failed)?.status();
    if status.as_u16() >= 200 && status.as_u16() < 400 {
        return Ok(());
    }
    Err(format!("HTTP probe failed with status code {}: GET http://{host}:{port}{path}", status.as_u16()))
}

/// The watch over the declared ports of a container without a readiness probe.
pub fn listeners_rule(ports: Vec<u16>) -> ProbeRule {
    ProbeRule {
        kind: ProbeKind::Readiness,
        action: ProbeAction::Listeners { ports },
        initial_delay: Duration::ZERO,
        period: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        failure_threshold: 1,
        success_threshold: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_socket_at_the_address_is_noticed() {
        let address = Ipv4Addr::new(127, 77, 0, 1);
        let first = std::net::TcpListener::bind((address, 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let before = sockets_at(address, port);
        assert_eq!((before.len(), &sockets_at(address, port)), (1, &before));
        drop(first);
        assert_ne!(sockets_at(address, port), before);
        let _second = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        assert!(!sockets_at(address, port).is_empty() && sockets_at(address, port) != before);
    }
}
