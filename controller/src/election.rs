//! Carries the election out: reads and writes the Lease, tells the rest of the process whether it leads.

use std::{future::Future, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use modelway_api::MANAGER;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    clock,
    health::Health,
    leadership::Lead,
    lease::{Claim, Election, Failure, Record, Step, Timing},
    metrics::Metrics,
};

/// Longest wait for one answer: two calls fit into the time in which a leader must renew.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// Which Lease decides who leads, and who this candidate is.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    pub namespace: String,
    pub name: String,
    /// Must differ between candidates.
    pub identity: String,
    pub timing: Timing,
}

/// One candidate at work.
pub struct Candidate {
    pub client: Client,
    pub options: LeaderElection,
    pub lead: watch::Sender<Lead>,
    pub health: Health,
    pub metrics: Metrics,
}

impl Candidate {
    /// Takes part until it is stopped, then gives the lease up.
    pub async fn run(self, stop: CancellationToken) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), &self.options.namespace);
        let mut election = Election::new(self.options.identity.clone(), self.options.timing);
        let mut holder = String::new();
        while !stop.is_cancelled() {
            match election.step(Instant::now(), clock::now()) {
                Step::Wait(until) => {
                    let until = election
                        .leading_until()
                        .filter(|end| *end > Instant::now())
                        .map_or(until, |end| end.min(until));
                    _ = tokio::time::timeout_at(until, stop.cancelled()).await;
                }
                Step::Read => {
                    let found = self.read(&api).await;
                    election.read(Instant::now(), found, rand::random());
                }
                Step::Write { claim, version } => {
                    let sent = Instant::now();
                    let answer = self.write(&api, &claim, version).await;
                    election.wrote(sent, Instant::now(), answer, rand::random());
                }
            }
            self.tell(&election, &mut holder);
        }
        self.release(&api, election).await;
    }

    fn tell(&self, election: &Election, holder: &mut String) {
        let now = Instant::now();
        let lead = election.leading_until().filter(|until| *until > now).map_or(Lead::Standby, Lead::Until);
        let before = self.lead.send_replace(lead);
        let (led, leads) = (before != Lead::Standby, lead != Lead::Standby);
        self.metrics.leader(leads);
        if led != leads {
            self.log(leads);
        }
        if election.holder() != holder {
            election.holder().clone_into(holder);
            tracing::info!(leader = holder, lease = self.options.name, "the lease has another holder");
        }
    }

    fn log(&self, leads: bool) {
        let (identity, lease) = (&self.options.identity, &self.options.name);
        if leads {
            tracing::info!(identity, lease, "this process leads");
        } else {
            tracing::warn!(identity, lease, "this process no longer leads");
        }
    }

    async fn read(&self, api: &Api<Lease>) -> Result<Option<Record>, Failure> {
        let answer = self.call("get", api.get_opt(&self.options.name)).await?;
        Ok(answer.map(record))
    }

    async fn write(&self, api: &Api<Lease>, claim: &Claim, version: Option<String>) -> Result<Record, Failure> {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let lease = lease(&self.options, claim, version);
        let name = self.options.name.as_str();
        let written = if lease.metadata.resource_version.is_some() {
            self.call("update", api.replace(name, &params, &lease)).await?
        } else {
            self.call("create", api.create(&params, &lease)).await?
        };
        Ok(record(written))
    }

    /// Gives the lease up, so that the next candidate need not wait for it to run out.
    async fn release(&self, api: &Api<Lease>, mut election: Election) {
        self.lead.send_replace(Lead::Standby);
        self.metrics.leader(false);
        let Some(Step::Write { claim, version }) = election.release(clock::now()) else { return };
        if self.write(api, &claim, version).await.is_ok() {
            tracing::info!(lease = self.options.name, "the lease is given up");
        }
    }

    async fn call<T>(&self, verb: &str, answer: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        let _busy = self.health.busy("election");
        let failure = match tokio::time::timeout(CALL_TIMEOUT, answer).await {
            Ok(Ok(answer)) => {
                self.health.election_works();
                return Ok(answer);
            }
            // Somebody else wrote, created or deleted it: reading tells who.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => return Err(Failure::Conflict),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {CALL_TIMEOUT:?}"),
        };
        let lease = format!("{}/{}", self.options.namespace, self.options.name);
        if self.health.election_fails(&format!("cannot {verb} Lease {lease}: {failure}")) {
            tracing::warn!("cannot {verb} Lease {lease}: {failure}");
        }
        Err(Failure::Unknown)
    }
}

fn record(lease: Lease) -> Record {
    let spec = lease.spec.unwrap_or_default();
    let claim = Claim {
        holder: spec.holder_identity.unwrap_or_default(),
        lease_seconds: spec.lease_duration_seconds.unwrap_or(0),
        acquired: spec.acquire_time.map(|MicroTime(time)| time),
        renewed: spec.renew_time.map(|MicroTime(time)| time),
        transitions: spec.lease_transitions.unwrap_or(0),
    };
    Record { claim, version: lease.metadata.resource_version.unwrap_or_default() }
}

fn lease(options: &LeaderElection, claim: &Claim, version: Option<String>) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(claim.holder.clone()),
        lease_duration_seconds: Some(claim.lease_seconds),
        acquire_time: claim.acquired.map(MicroTime),
        renew_time: claim.renewed.map(MicroTime),
        lease_transitions: Some(claim.transitions),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(options.name.clone()),
        namespace: Some(options.namespace.clone()),
        resource_version: version,
        ..ObjectMeta::default()
    };
    Lease { metadata, spec: Some(spec) }
}
