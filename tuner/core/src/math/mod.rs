//! The numerical ground: normal distribution, Cholesky factor, ranks.

pub mod cholesky;
pub mod normal;
