//! Why an experiment or a trial cannot begin.

use modelway_tune::{experiment, space::SpaceError, spec::SpecError};

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The candidates are wrong.
    #[error("tunableParameters: {0}")]
    Space(#[from] SpaceError),
    /// The objective, the constraints or the costs are wrong.
    #[error("objective: {0}")]
    Spec(#[from] SpecError),
    /// Another part of the question is.
    #[error(transparent)]
    Question(#[from] experiment::QuestionError),
    /// More parameters than can be learned.
    #[error(
        "tunableParameters: there are {count} parameters, above the limit of {limit}: leave out those that matter least"
    )]
    TooManyParameters { count: usize, limit: usize },
    /// A value of a resource that is no quantity.
    #[error("tunableParameters: parameter {parameter}: {field} is {value:?}, which is no quantity such as 500m or 2Gi")]
    NotAQuantity { parameter: String, field: &'static str, value: String },
    /// Every candidate asks for more than any node has.
    #[error("tunableParameters: each of the {count} candidates asks for more than any node has: {largest}")]
    NoRoom { count: usize, largest: String },
    /// A field that cannot be read.
    #[error("{field} is {value:?}: {wanted}")]
    Field { field: String, value: String, wanted: &'static str },
    /// A field that is missing.
    #[error("{field} is missing: {wanted}")]
    Missing { field: &'static str, wanted: &'static str },
}

impl QuestionError {
    /// A field that cannot be read.
    pub fn field(field: impl Into<String>, value: &str, wanted: &'static str) -> Self {
        Self::Field { field: field.into(), value: value.chars().take(128).collect(), wanted }
    }
}
