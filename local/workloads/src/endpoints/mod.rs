//! `EndpointSlices`: which pods stand behind a Service, on which ports, and whether they take traffic.

mod decide;
mod endpoint;
mod reconcile;

pub(crate) use reconcile::EndpointsReconciler;
