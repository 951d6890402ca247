//! One Gaussian process: a constant, a linear trend and a Matern-5/2 part, with a length-scale per dimension.
//!
//! Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, chapters 2 and 5.

mod covariance;
mod fit;
mod likelihood;
mod nearness;
mod posterior;
mod prior;

pub use covariance::{Covariance, Pairs};
pub use fit::{fit, fit_noises};
pub use likelihood::{Data, likelihood, matrix};
pub use nearness::Nearness;
pub use posterior::{GaussianProcess, Prediction};
pub use prior::{LogNormal, Priors};
