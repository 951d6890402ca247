//! The workload controllers that a cluster would have: Job, `ReplicaSet`, Deployment, Service,
//! `EndpointSlice`, `PersistentVolumeClaim`, and the forwarder that makes a Service's address answer.
//!
//! Each controller is a pure decider (objects and time in, plan out) and a thin shell that reads caches and writes.

mod adopt;
mod batch;
mod budget;
mod cache;
mod call;
mod claim;
mod deployment;
mod endpoints;
mod events;
mod forwarder;
mod hub;
mod informer;
mod job;
mod key;
mod pods;
mod queue;
mod replica_set;
mod routes;
mod run;
mod selector;
mod service;
mod worker;

pub use run::{WorkloadError, WorkloadOptions, run};
pub use service::{CidrError, Ipv4Cidr};
