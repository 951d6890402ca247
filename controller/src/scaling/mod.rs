//! Predictors follow their load: from the routers' stats to a number of pods.
//!
//! [`stream`] follows one router, [`follower`] holds what is known of one Inference, and [`Scaler`] looks after all of
//! them. What they decide goes into the store, where the planner of the Inference finds it.

mod follower;
mod scaler;
mod stream;

pub use scaler::Scaler;
pub use stream::{Heard, follow as follow_router};
