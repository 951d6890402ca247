//! Waits that differ, so that many things that began together do not go on in step.

use std::time::Duration;

/// `wait`, up to a fifth shorter or longer.
pub fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.8 + 0.4 * rand::random::<f64>())
}
