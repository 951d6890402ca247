//! Honest stress tests: a load generator that measures itself, and the search for the highest rate that meets
//! objectives.

pub mod load;
