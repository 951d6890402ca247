//! The forwarder: listens on each Service's address and passes connections on to its endpoints.

mod connection;
mod holder;
mod listeners;
mod pick;
mod reconcile;
mod table;

pub(crate) use listeners::{Limits, Listeners};
pub(crate) use reconcile::ForwardReconciler;
