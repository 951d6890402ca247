//! Exact bounds of a share from a sample (Clopper and Pearson 1934).

/// Steps of the bisections: more than the digits of a double.
const STEPS: u32 = 100;

/// Largest share that `hits` of `total` leave possible with this confidence (one-sided), in [0, 1].
pub fn upper_bound(hits: u64, total: u64, confidence: f64) -> f64 {
    if hits >= total {
        return 1.0;
    }
    // P(X <= hits) = 1 - I_p(hits + 1, total - hits) falls with p.
    let (a, b) = (hits as f64 + 1.0, (total - hits) as f64);
    bisect(|share| incomplete_beta(a, b, share) < confidence)
}

/// Smallest share that `hits` of `total` leave possible with this confidence (one-sided), in [0, 1].
pub fn lower_bound(hits: u64, total: u64, confidence: f64) -> f64 {
    if hits == 0 || total == 0 {
        return 0.0;
    }
    let hits = hits.min(total);
    // P(X >= hits) = I_p(hits, total - hits + 1) grows with p.
    let (a, b) = (hits as f64, (total - hits) as f64 + 1.0);
    bisect(|share| incomplete_beta(a, b, share) < 1.0 - confidence)
}

/// Requests without a single miss that certify the share `allowance` of misses with this confidence.
pub fn requests_needed(allowance: f64, confidence: f64) -> u64 {
    if allowance <= 0.0 {
        return u64::MAX;
    }
    super::super::units::whole((libm::log(1.0 - confidence) / libm::log(1.0 - allowance)).ceil())
}

/// Where `below` turns from true to false.
fn bisect(below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The regularised incomplete beta function at `share`, by its continued fraction (DLMF 8.17.22).
fn incomplete_beta(a: f64, b: f64, share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return share.clamp(0.0, 1.0);
    }
    // The fraction converges fast only on this side of the mean.
    if share > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - share);
    }
    let scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
    let front = scale + a * libm::log(share) + b * libm::log1p(-share);
    (libm::exp(front) / a * fraction(a, b, share)).clamp(0.0, 1.0)
}

/// The continued fraction itself (modified Lentz: numerators and denominators as ratios, which never overflow).
fn fraction(a: f64, b: f64, share: f64) -> f64 {
    // O(sqrt(max(a, b))) terms are needed; this is enough for 10^8 requests.
    const MAX_TERMS: u32 = 20_000;
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut above, mut below) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * share / (a + 1.0)));
    let mut result = below;
    for term in (1..MAX_TERMS).map(f64::from) {
        let start = a + 2.0 * term;
        let even = term * (b - term) * share / ((start - 1.0) * start);
        let odd = -(a + term) * (a + b + term) * share / (start * (start + 1.0));
        let mut factor = 1.0;
        for coefficient in [even, odd] {
            below = 1.0 / away_from_zero(1.0 + coefficient * below);
            above = away_from_zero(1.0 + coefficient / above);
            factor = below * above;
            result *= factor;
        }
        if (factor - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn bounds_without_hits_have_a_closed_form() {
        close(upper_bound(0, 59, 0.95), 1.0 - 0.05_f64.powf(1.0 / 59.0));
        close(lower_bound(20, 20, 0.95), 0.05_f64.powf(1.0 / 20.0));
    }

    #[test]
    fn bounds_agree_with_the_sum_of_the_binomial_distribution() {
        // P(X <= 3) of 50 at the upper bound must be 5 %, P(X >= 3) at the lower one too.
        let term = |k: i32, p: f64| {
            let choose: f64 = (0..k).map(|i| f64::from(50 - i) / f64::from(i + 1)).product();
            choose * p.powi(k) * (1.0 - p).powi(50 - k)
        };
        let upper = upper_bound(3, 50, 0.95);
        close((0..=3).map(|k| term(k, upper)).sum(), 0.05);
        let lower = lower_bound(3, 50, 0.95);
        close(1.0 - (0..3).map(|k| term(k, lower)).sum::<f64>(), 0.05);
    }

    #[test]
    fn a_million_requests_are_judged_like_the_normal_distribution() {
        let spread = (0.05 * 0.95 / 1e6_f64).sqrt();
        let upper = upper_bound(50_000, 1_000_000, 0.95);
        assert!((upper - 0.05 - 1.645 * spread).abs() < 0.05 * spread, "{upper}");
    }

    #[test]
    fn the_least_requests_are_the_known_ones() {
        assert_eq!((requests_needed(0.05, 0.95), requests_needed(0.01, 0.95)), (59, 299));
        assert!(upper_bound(0, 59, 0.95) <= 0.05 && upper_bound(0, 58, 0.95) > 0.05);
    }

    #[test]
    fn the_corners_are_shares() {
        assert!(upper_bound(0, 0, 0.95) > 0.999 && upper_bound(5, 5, 0.95) > 0.999);
        assert!(lower_bound(0, 5, 0.95) < 0.001 && lower_bound(0, 0, 0.95) < 0.001);
    }
}
