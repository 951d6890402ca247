//! The kinds that are served without a `CustomResourceDefinition`: schemas, defaults, checks and columns.
//!
//! For a built-in kind the order on every write is: [`drop_nulls`] on what the client sent, defaults of the schema,
//! [`default_object`], validation by the schema, [`validate_object`].

mod catalog;
mod columns;
mod defaults;
mod definitions;
mod events;
mod job_defaults;
mod job_validation;
mod labels;
mod pod_columns;
mod pod_defaults;
mod pod_validation;
mod quantity;
mod validation;
mod workload_columns;

pub use catalog::{builtin_kinds, is_inert};
pub use defaults::{default_object, drop_nulls};
pub use definitions::{component_name, definition, describe};
pub use events::{from_core_event, to_core_event};
pub use labels::selects;
pub use quantity::is_any_malformed as has_malformed_quantity;
pub use validation::validate_object;
