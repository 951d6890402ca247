//! What can be wrong with parameters.

/// Why a space cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// Nothing to tune.
    #[error("there is no parameter to tune: name at least one")]
    NoParameter,
    /// Two parameters share a name.
    #[error("parameter {name} is there twice: give each its own name")]
    SameName { name: String },
    /// A parameter without values.
    #[error("parameter {parameter} has no value: give a list, or min and max")]
    NoLevel { parameter: String },
    /// A field that is no number.
    #[error("parameter {parameter}: {field} is {value:?}, which is not a finite number")]
    NotANumber { parameter: String, field: &'static str, value: String },
    /// A field that is no whole number.
    #[error("parameter {parameter}: {field} is {value:?}, which is not a whole number: use parameterType double")]
    NotWhole { parameter: String, field: &'static str, value: String },
    /// A range that ends before it begins.
    #[error("parameter {parameter}: min {min} is above max {max}")]
    MinAboveMax { parameter: String, min: String, max: String },
    /// A step that never arrives.
    #[error("parameter {parameter}: step {step} never reaches max: use a step above 0")]
    Step { parameter: String, step: String },
    /// A range with more values than can be tried.
    #[error("parameter {parameter} has {levels} values, above the limit of {limit}: use a larger step")]
    TooManyLevels { parameter: String, levels: f64, limit: usize },
    /// A descriptor that does not fit its values.
    #[error("parameter {parameter}: {problem}")]
    Scale { parameter: String, problem: &'static str },
    /// A type that we do not know.
    #[error("parameter {parameter} has the type {found:?}: use int, double, discrete or categorical")]
    UnknownType { parameter: String, found: String },
    /// A table without rows.
    #[error("there is no candidate: give at least one row")]
    NoCandidate,
    /// Every candidate was cut.
    #[error("no candidate is possible: each is above a known limit; allow smaller values")]
    AllImpossible,
    /// A row of the wrong length.
    #[error("a row has {found} values for {expected} parameters")]
    RowLength { found: usize, expected: usize },
    /// A value that the parameter does not have.
    #[error("parameter {parameter} has no value {value:?}")]
    UnknownLevel { parameter: String, value: String },
}
