//! The standard normal distribution, also far out in its tails.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// `ln(sqrt(2 pi))`.
pub const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_7;

/// `ln` of the density.
pub fn ln_pdf(z: f64) -> f64 {
    -0.5 * z * z - LN_SQRT_2PI
}

/// Density.
pub fn pdf(z: f64) -> f64 {
    libm::exp(ln_pdf(z))
}

/// Distribution function.
pub fn cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// `ln` of the distribution function, finite down to `z = -1e150`.
pub fn ln_cdf(z: f64) -> f64 {
    if z > -5.0 {
        libm::log(cdf(z))
    } else {
        // erfc(x) = exp(-x^2) erfcx(x), and the square is known exactly.
        let x = -z * FRAC_1_SQRT_2;
        -x * x + libm::log(0.5 * scaled_erfc(x))
    }
}

/// Below which number this share (between 0 and 1) of a mixture of normal distributions lies: `(weight, mean, standard
/// deviation)` each, with weights that sum to one.
pub fn mixture_quantile(parts: &[(f64, f64, f64)], share: f64) -> f64 {
    let below = |at: f64| -> f64 {
        parts.iter().map(|(weight, mean, sd)| weight * cdf((at - mean) / sd.max(f64::MIN_POSITIVE))).sum()
    };
    let mut low = parts.iter().map(|(_, mean, sd)| mean - 40.0 * sd).fold(f64::INFINITY, f64::min);
    let mut high = parts.iter().map(|(_, mean, sd)| mean + 40.0 * sd).fold(f64::NEG_INFINITY, f64::max);
    for _ in 0..100 {
        let middle = low + 0.5 * (high - low);
        if below(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The inverse Mills ratio `pdf(z) / cdf(z)`.
pub fn hazard(z: f64) -> f64 {
    libm::exp(ln_pdf(z) - ln_cdf(z))
}

/// `exp(x^2) erfc(x)` for `x > 3`, by its continued fraction (Abramowitz and Stegun 7.1.14), evaluated from its end.
fn scaled_erfc(x: f64) -> f64 {
    let tail = (1..=60).rev().fold(x, |tail, k| x + 0.5 * f64::from(k) / tail);
    1.0 / (tail * PI.sqrt())
}

/// `ln(phi(z) + z Phi(z))`: the logarithm of the expected improvement of a standard normal over `-z`.
///
/// Numerically stable for any `z` after Ament, Daulton, Eriksson, Balandat, Bakshy, "Unexpected Improvements to
/// Expected Improvement for Bayesian Optimization", 2023, equation 9.
pub fn ln_improvement(z: f64) -> f64 {
    if z > -1.0 {
        return libm::log(pdf(z) + z * cdf(z));
    }
    if z > -50.0 {
        // phi(z) + z Phi(z) = phi(z) (1 - |z| Phi(z) / phi(z)), where the ratio is the scaled error function.
        let x = -z * FRAC_1_SQRT_2;
        let ratio = if x > 3.0 { scaled_erfc(x) } else { libm::exp(x * x) * libm::erfc(x) };
        return ln_pdf(z) + libm::log1p(z * (PI / 2.0).sqrt() * ratio);
    }
    // The factor is 1/z^2 - 3/z^4 + 15/z^6 ... by the asymptotic series of the Mills ratio.
    let inverse = 1.0 / (z * z);
    ln_pdf(z) - 2.0 * libm::log(-z) + libm::log1p(inverse * (15.0 * inverse - 3.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} is not {expected}");
    }

    #[test]
    fn quantile_of_a_mixture_is_where_its_parts_say() {
        close(mixture_quantile(&[(1.0, 3.0, 2.0)], 0.975), 3.0 + 2.0 * 1.959_963_984_540_054);
        close(mixture_quantile(&[(0.5, -1.0, 1.0), (0.5, 1.0, 1.0)], 0.5), 0.0);
        // Far apart, a quarter of all is half of the first; a number that is certain is all its own quantiles.
        close(mixture_quantile(&[(0.5, 0.0, 1.0), (0.5, 1e6, 1.0)], 0.25), 0.0);
        close(mixture_quantile(&[(0.3, 7.0, 0.0), (0.7, 7.0, 0.0)], 0.025), 7.0);
    }

    /// `python -c "from scipy.stats import norm; print([norm.logcdf(z) for z in (-40,-10,-5,-1,0,2,8)])"`
    #[test]
    fn logarithm_of_the_distribution_function_is_scipys() {
        let known = [
            (-40.0, -804.608_442_013_754_1),
            (-10.0, -53.231_285_151_512_47),
            (-5.0, -15.064_998_393_988_727),
            (-1.0, -1.841_021_645_009_263_7),
            (0.0, -std::f64::consts::LN_2),
            (2.0, -0.023_012_909_328_963_488),
        ];
        for (z, expected) in known {
            close(ln_cdf(z), expected);
        }
        assert!(ln_cdf(-1e9).is_finite() && ln_cdf(40.0) <= 0.0);
    }

    /// `log(quad(lambda t: (t + z) * norm.pdf(t), -z, -z + 12, epsabs=0, epsrel=1e-13)[0])` by scipy.
    #[test]
    fn improvement_is_the_integral() {
        let known = [
            (2.0, 0.697_383_545_788_228_1),
            (0.0, -0.918_938_533_204_672_6),
            (-1.0, -2.485_121_025_712_641_3),
            (-3.0, -7.869_686_059_603_028),
            (-6.0, -22.578_879_392_169_796),
            (-10.0, -55.553_122_036_122_35),
        ];
        for (z, expected) in known {
            close(ln_improvement(z), expected);
        }
    }

    #[test]
    fn improvement_joins_its_pieces() {
        for seam in [-1.0, -3.0 * std::f64::consts::SQRT_2, -50.0] {
            let (below, above) = (ln_improvement(seam - 1e-9), ln_improvement(seam + 1e-9));
            assert!((below - above).abs() < 1e-6, "at {seam}: {below} and {above}");
        }
    }

    #[test]
    fn improvement_rises_and_stays_finite() {
        let values: Vec<f64> = (-4000..200).map(|step| ln_improvement(f64::from(step) * 0.05)).collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ln_improvement(-1e8).is_finite());
    }
}
