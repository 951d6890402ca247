//! What is believed about a metric before anything is measured.

/// A log-normal density over a positive number: its logarithm has this mean and standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    /// Mean of the logarithm.
    pub mean: f64,
    /// Standard deviation of the logarithm.
    pub sd: f64,
}

impl LogNormal {
    /// Centred (in the median) at this number; most of the mass within a factor of `exp(sd)` of it.
    pub fn around(median: f64, sd: f64) -> Self {
        Self { mean: libm::log(median), sd }
    }

    /// Negative log density of the logarithm, up to a constant, and its derivative.
    pub fn penalty(&self, logarithm: f64) -> (f64, f64) {
        let z = (logarithm - self.mean) / self.sd;
        (0.5 * z * z, z / self.sd)
    }
}

/// Priors of all hyper-parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priors {
    /// Length-scales of the Matern part; each column spans `[0, 1]`.
    pub length: LogNormal,
    /// Standard deviation of the Matern part.
    pub signal: LogNormal,
    /// Standard deviation of each slope of the linear trend.
    pub slope: LogNormal,
    /// Standard deviation of the effect that each group of columns has by itself.
    pub additive: LogNormal,
    /// Standard deviation of the noise that the trials do not know of themselves.
    pub noise: LogNormal,
    /// Standard deviation of the constant; fixed.
    pub constant: f64,
}

impl Priors {
    /// For a metric whose changes over the space are about `scale`: 1 for logarithms (a factor of e).
    ///
    /// Length-scales grow with the square root of the number of dimensions, so that the typical distance between two
    /// candidates stays the same in length-scales (Hvarfner, Hellsten, Nardi, "Vanilla Bayesian Optimization Performs
    /// Great in High Dimensions", 2024).
    pub fn new(dimensions: usize, scale: f64) -> Self {
        let root = (dimensions.max(1) as f64).sqrt();
        Self {
            length: LogNormal::around(0.8 * root, 1.2),
            signal: LogNormal::around(0.5 * scale, 0.8),
            slope: LogNormal::around(scale, 0.8),
            additive: LogNormal::around(0.3 * scale, 0.8),
            noise: LogNormal::around(0.02 * scale, 1.0),
            constant: 3.0 * scale,
        }
    }
}
