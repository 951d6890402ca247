//! What requests carry: texts with placeholders, rows of tables, files, tensors.

mod payload;
mod table;
mod template;
mod tensors;

pub use payload::Payload;
pub use table::Table;
pub use template::{Filling, Template};
pub use tensors::{Metadata, TensorMetadata, TensorOptions, infer_requests};
