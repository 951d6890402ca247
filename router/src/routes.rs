//! The snapshot that requests load, and the one place that replaces it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use modelway_api::route_table::{ArmState, RouteTableSpec};
use modelway_route::arm::ArmNow;
use modelway_route::pace;
use modelway_route::replace::{self, Identity};
use modelway_route::table::CompiledArm;
use modelway_route::{ArmIndex, RouteKey, Table, compile};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::{ArmReport, ConfigReport, Refused};
use crate::endpoint::Endpoint;
use crate::meter::{ArmMeter, Metrics};

/// Endpoints of a Service by port name, as its slices say.
pub type ServiceEndpoints = BTreeMap<String, crate::source::slices::Ports>;

/// Everything that a request needs to know, at one moment.
pub struct Routes {
    /// Decisions.
    pub table: Table,
    /// In the table's order.
    pub arms: Vec<Arm>,
}

/// What a request needs of an arm besides the table.
pub struct Arm {
    /// Its counters.
    pub meter: Arc<ArmMeter>,
    /// Endpoints that can take requests.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Value of `x-modelway-arm`.
    pub name_header: Option<HeaderValue>,
    /// Value of `x-modelway-model`.
    pub model_header: Option<HeaderValue>,
}

impl Routes {
    /// An arm as the decider sees it.
    pub fn now(&self, arm: ArmIndex) -> ArmNow {
        ArmNow { state: self.table.arms[arm.get()].state, ready: !self.arms[arm.get()].endpoints.is_empty() }
    }

    /// Whether an arm has this endpoint.
    pub fn admits(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.arms.iter().flat_map(|arm| &arm.endpoints).any(|admitted| Arc::ptr_eq(admitted, endpoint))
    }

    /// Lets those go that wait for an arm that can answer now; arms that are no longer there let nobody go.
    fn open_lanes(&self, before: Option<&Self>) {
        for gone in before.into_iter().flat_map(|before| &before.arms) {
            if !self.arms.iter().any(|arm| Arc::ptr_eq(&arm.meter, &gone.meter)) {
                gone.meter.lane.open(0, 0);
            }
        }
        for (arm, runtime) in self.table.arms.iter().zip(&self.arms) {
            let endpoints = if arm.state == ArmState::Broken { 0 } else { runtime.endpoints.len() };
            runtime.meter.lane.open(pace::window(arm.capacity, endpoints), endpoints);
        }
    }
}

/// Holds the snapshot in force; everything that changes it goes through here.
pub struct RouteState {
    current: ArcSwapOption<Routes>,
    changes: watch::Sender<u64>,
    inputs: Mutex<Inputs>,
    key: RouteKey,
    metrics: Arc<Metrics>,
    /// Of the table in force, the low bits: part of every request's name.
    epoch: AtomicU32,
}

#[derive(Default)]
struct Inputs {
    table: Option<InForce>,
    services: ServiceEndpoints,
    services_known: bool,
    endpoints: HashMap<String, Arc<Endpoint>>,
    refused: Option<Refused>,
    problems: BTreeMap<Part, String>,
}

/// A document that passed every check.
struct InForce {
    identity: Identity,
    document: RouteTableSpec,
    table: Table,
}

/// A part of the configuration that can be out of reach by itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// The route table.
    Table,
    /// The endpoints of its Services.
    Endpoints,
}

impl RouteState {
    /// No table yet.
    pub fn new(key: RouteKey, metrics: Arc<Metrics>) -> Self {
        let (current, changes) = (ArcSwapOption::empty(), watch::Sender::new(0));
        Self { current, changes, inputs: Mutex::default(), key, metrics, epoch: AtomicU32::new(0) }
    }

    /// The snapshot in force.
    pub fn load(&self) -> Option<Arc<Routes>> {
        self.current.load_full()
    }

    /// Told of every new snapshot.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Epoch of the table in force, the low 32 bits.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Relaxed)
    }

    /// The key of the assignment hash.
    pub fn key(&self) -> &RouteKey {
        &self.key
    }

    /// Puts a document in force, or keeps the last good one and says why.
    pub fn offer(&self, uid: &str, document: &RouteTableSpec) -> Result<(), Refused> {
        let mut inputs = self.inputs.lock();
        inputs.problems.remove(&Part::Table);
        match self.check(&inputs, uid, document) {
            Ok(Some(offered)) => {
                let (generation, arms) = (offered.table.generation, offered.table.arms.len());
                tracing::info!(generation, arms, "route table in force");
                self.metrics.generation.set(generation);
                self.epoch.store(u32::try_from(offered.table.epoch & 0xffff_ffff).unwrap_or_default(), Relaxed);
                inputs.table = Some(offered);
                inputs.refused = None;
                self.rebuild(&mut inputs);
                Ok(())
            }
            Ok(None) => {
                inputs.refused = None;
                Ok(())
            }
            Err(reason) => {
                let refused = Refused { generation: document.generation, reason };
                if inputs.refused.as_ref() != Some(&refused) {
                    tracing::warn!(generation = refused.generation, reason = refused.reason, "route table refused");
                }
                inputs.refused = Some(refused.clone());
                Err(refused)
            }
        }
    }

    /// None when the document is the one in force.
    fn check(&self, inputs: &Inputs, uid: &str, document: &RouteTableSpec) -> Result<Option<InForce>, String> {
        let identity = Identity { uid: uid.to_owned(), generation: document.generation };
        let in_force = inputs.table.as_ref();
        if in_force.is_some_and(|known| known.identity == identity && known.document == *document) {
            return Ok(None);
        }
        replace::check(in_force.map(|known| &known.identity), &identity).map_err(|error| error.to_string())?;
        let table = compile(document, &self.key).map_err(|error| error.to_string())?;
        Ok(Some(InForce { identity, document: document.clone(), table }))
    }

    /// Endpoints of all watched Services, as a whole.
    pub fn set_services(&self, services: ServiceEndpoints) {
        let mut inputs = self.inputs.lock();
        if inputs.services_known && inputs.services == services {
            return;
        }
        inputs.services = services;
        inputs.services_known = true;
        self.rebuild(&mut inputs);
    }

    /// Something is wrong with a source, or no longer; the snapshot stays.
    pub fn set_problem(&self, part: Part, problem: Option<String>) {
        let mut inputs = self.inputs.lock();
        if inputs.problems.get(&part) == problem.as_ref() {
            return;
        }
        match problem {
            Some(problem) => {
                tracing::warn!(problem, "configuration source");
                inputs.problems.insert(part, problem);
            }
            None => {
                inputs.problems.remove(&part);
            }
        }
    }

    /// Whether there is a table, and its endpoints were asked for.
    pub fn is_ready(&self) -> bool {
        let inputs = self.inputs.lock();
        let asked = |table: &Table| inputs.services_known || table.arms.iter().all(|arm| arm.service.is_none());
        inputs.table.as_ref().is_some_and(|known| asked(&known.table))
    }

    /// For the admin port.
    pub fn report(&self, draining: bool) -> ConfigReport {
        let inputs = self.inputs.lock();
        let mut report = ConfigReport {
            refused: inputs.refused.clone(),
            source_problems: inputs.problems.values().cloned().collect(),
            draining,
            ..ConfigReport::default()
        };
        if let (Some(InForce { identity, table, .. }), Some(routes)) = (&inputs.table, self.load()) {
            report.inference = Some(table.inference.clone());
            report.generation = Some(table.generation);
            report.epoch = Some(table.epoch);
            report.uid = Some(identity.uid.clone());
            report.arms = table.arms.iter().zip(&routes.arms).map(arm_report).collect();
        }
        report
    }

    /// Closes connections that were kept too long.
    pub fn sweep(&self) {
        for arm in self.load().iter().flat_map(|routes| &routes.arms) {
            arm.endpoints.iter().for_each(|endpoint| endpoint.pool.sweep());
        }
    }

    fn rebuild(&self, inputs: &mut Inputs) {
        let Some(InForce { table, .. }) = &inputs.table else {
            return;
        };
        let mut kept = HashMap::new();
        let mut arms = Vec::with_capacity(table.arms.len());
        for arm in &table.arms {
            let mut endpoints = Vec::new();
            for address in addresses(arm, &inputs.services) {
                let known = inputs.endpoints.get(&address).cloned();
                let make = || known.unwrap_or_else(|| Arc::new(Endpoint::new(address.clone())));
                let endpoint = kept.entry(address.clone()).or_insert_with(make);
                endpoints.push(endpoint.clone());
            }
            arms.push(Arm {
                meter: self.metrics.arm(&table.inference, &arm.name),
                endpoints,
                name_header: HeaderValue::from_str(&arm.name).ok(),
                model_header: arm.model.as_deref().and_then(|model| HeaderValue::from_str(model).ok()),
            });
        }
        let routes = Arc::new(Routes { table: table.clone(), arms });
        inputs.endpoints = kept;
        let before = self.current.swap(Some(routes.clone()));
        // Before the others hear of it: whoever has the first turn goes first.
        routes.open_lanes(before.as_deref());
        self.changes.send_modify(|version| *version += 1);
    }
}

fn addresses(arm: &CompiledArm, services: &ServiceEndpoints) -> Vec<String> {
    let mut addresses = arm.endpoints.clone();
    if let Some(ports) = arm.service.as_ref().and_then(|service| services.get(service)) {
        addresses.extend(ports.of(arm.port_name.as_deref()).iter().cloned());
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn arm_report((arm, runtime): (&CompiledArm, &Arm)) -> ArmReport {
    ArmReport {
        name: arm.name.clone(),
        weight: arm.weight,
        state: arm.state,
        endpoints: runtime.endpoints.iter().map(|endpoint| endpoint.address.clone()).collect(),
    }
}
