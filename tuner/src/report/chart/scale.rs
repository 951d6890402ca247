//! From values to places on a chart, and the ticks between.

/// An axis is logarithmic when its largest value is so many times its smallest.
const LOGARITHMIC_FROM: f64 = 30.0;

/// Ticks at most; five numbers fit beside a narrow chart.
const MOST_TICKS: usize = 6;

/// Maps values onto a length in the chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    from: f64,
    to: f64,
}

impl Scale {
    /// Holds all values with a little room, from the place `from` to the place `to`. Values that are not finite do not
    /// count; without any, it is from 0 to 1.
    pub fn over(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Self {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if values.is_empty() {
            return Self { low: 0.0, high: 1.0, logarithmic: false, from, to };
        }
        if low > 0.0 && high / low >= LOGARITHMIC_FROM {
            let room = (0.05 * (high.ln() - low.ln())).exp();
            let (low, high) = ((low / room).max(f64::MIN_POSITIVE), (high * room).min(f64::MAX));
            return Self { low, high, logarithmic: true, from, to };
        }
        let spread = if high > low { high - low } else { high.abs().max(1e-9) };
        // From zero when that costs little: lengths can then be compared.
        let bottom = if low >= 0.0 && low < spread { 0.0 } else { low - 0.08 * spread };
        Self { low: bottom, high: high + 0.08 * spread, logarithmic: false, from, to }
    }

    /// Place of a value, held within the axis.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(f64::MIN_POSITIVE).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Where the axis ends.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Round values within the axis, in rising order.
    pub fn ticks(&self) -> Vec<f64> {
        if self.logarithmic { self.logarithmic_ticks() } else { self.even_ticks(MOST_TICKS - 1) }
    }

    fn even_ticks(&self, wanted: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / wanted as f64);
        let first = (self.low / step).ceil();
        let ticks = (0..=MOST_TICKS * 2).map(|index| (first + index as f64) * step);
        ticks.take_while(|tick| *tick <= self.high + step * 1e-9).map(|tick| tick + 0.0).collect()
    }

    /// 1, 2, 5 of every decade, or 1 alone, or every so many decades.
    fn logarithmic_ticks(&self) -> Vec<f64> {
        let decades = |multiples: &[f64], stride: i32| -> Vec<f64> {
            let powers = (-300..=300).filter(|power| power % stride == 0);
            let each = powers.flat_map(|power| multiples.iter().map(move |multiple| multiple * 10f64.powi(power)));
            each.filter(|tick| (self.low..=self.high).contains(tick)).collect()
        };
        let choices: [(&[f64], i32); 6] =
            [(&[1.0, 2.0, 5.0], 1), (&[1.0, 3.0], 1), (&[1.0], 1), (&[1.0], 2), (&[1.0], 5), (&[1.0], 50)];
        let fitting = choices.iter().map(|(multiples, stride)| decades(multiples, *stride));
        fitting.into_iter().find(|ticks| ticks.len() <= MOST_TICKS).unwrap_or_default()
    }
}

/// The next of 1, 2, 2.5, 5, 10 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let multiple = [1.0, 2.0, 2.5, 5.0].into_iter().find(|multiple| multiple * power >= step * (1.0 - 1e-9));
    multiple.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let scale = Scale::over([0.0, 412.0], 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 100.0, 200.0, 300.0, 400.0]);
        let scale = Scale::over([0.101, 0.109], 0.0, 100.0);
        assert!(scale.ticks().len() >= 3 && scale.ticks().iter().all(|tick| (0.1..0.11).contains(tick)));
    }

    #[test]
    fn wide_ranges_are_logarithmic() {
        let scale = Scale::over([1.0, 1000.0], 0.0, 100.0);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.place(31.62) - 50.0).abs() < 0.1);
    }

    #[test]
    fn strange_values_make_no_strange_places() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![-3.0, -3.0], vec![1e-300, 1e300]] {
            let scale = Scale::over(values.clone(), 10.0, 90.0);
            let ticks = scale.ticks();
            assert!(ticks.len() <= 2 * MOST_TICKS, "{values:?}");
            for value in [0.0, -1.0, 1e9, f64::NEG_INFINITY] {
                assert!((10.0..=90.0).contains(&scale.place(value)), "{values:?} {value}");
            }
        }
    }

    #[test]
    fn screens_grow_downwards() {
        let scale = Scale::over([0.0, 10.0], 200.0, 0.0);
        assert!(scale.place(9.0) < scale.place(1.0));
    }
}
