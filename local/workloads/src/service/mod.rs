//! Services: each gets an address of its own from the service block, for as long as it lives.

mod allocate;
mod decide;
mod reconcile;

pub use allocate::{CidrError, Ipv4Cidr};
pub(crate) use reconcile::ServiceReconciler;
