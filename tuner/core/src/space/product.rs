//! Which combinations of levels are candidates.

use super::Parameter;

/// Above this many combinations a well-spread subset stands for all: a model over more costs seconds a suggestion.
pub const MAX_CANDIDATES: usize = 10_000;

/// Sobol points drawn for the subset at most; some fall on the same combination.
const MAX_POINTS: u32 = 1 << 16;

pub(super) fn candidates(parameters: &[Parameter], seed: u64) -> Vec<Vec<usize>> {
    let total = parameters.iter().map(|parameter| parameter.levels.len() as f64).product::<f64>();
    if total > MAX_CANDIDATES as f64 { subset(parameters, seed) } else { all(parameters) }
}

/// The last parameter changes fastest.
fn all(parameters: &[Parameter]) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for parameter in parameters {
        let longer = |row: Vec<usize>| {
            (0..parameter.levels.len()).map(move |level| row.iter().copied().chain([level]).collect())
        };
        rows = rows.into_iter().flat_map(longer).collect();
    }
    rows
}

/// Owen-scrambled Sobol points, each rounded down to its combination.
fn subset(parameters: &[Parameter], seed: u64) -> Vec<Vec<usize>> {
    let mut seen = std::collections::BTreeSet::new();
    let mut rows = Vec::new();
    for index in 0..MAX_POINTS {
        let row: Vec<usize> = (0u32..)
            .zip(parameters)
            .map(|(dimension, parameter)| level_at(sobol(index, dimension, seed), parameter.levels.len()))
            .collect();
        if seen.insert(row.clone()) {
            rows.push(row);
        }
        if rows.len() == MAX_CANDIDATES {
            break;
        }
    }
    rows
}

/// A coordinate in `[0, 1)`. Dimensions past the table's end begin again with another scramble.
pub(crate) fn sobol(index: u32, dimension: u32, seed: u64) -> f64 {
    let (block, dimension) = (dimension / sobol_burley::NUM_DIMENSIONS, dimension % sobol_burley::NUM_DIMENSIONS);
    let [b0, b1, b2, b3, b4, b5, b6, b7] = seed.to_le_bytes();
    let folded = u32::from_le_bytes([b0, b1, b2, b3]) ^ u32::from_le_bytes([b4, b5, b6, b7]).rotate_left(13);
    f64::from(sobol_burley::sample(index, dimension, folded.wrapping_add(block)))
}

/// The level in which a coordinate of `[0, 1)` falls.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the number of levels")]
pub(crate) fn level_at(coordinate: f64, levels: usize) -> usize {
    ((coordinate * levels as f64) as usize).min(levels.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(parameters: usize, levels: i64) -> Vec<Parameter> {
        (0..parameters).map(|index| Parameter::integer(&format!("p{index}"), 1, levels, 1).unwrap()).collect()
    }

    #[test]
    fn huge_product_becomes_a_spread_subset_without_repeats() {
        let rows = candidates(&wide(8, 16), 7);
        assert_eq!(rows.len(), MAX_CANDIDATES);
        let unique: std::collections::BTreeSet<_> = rows.iter().collect();
        assert_eq!(unique.len(), rows.len());
        for parameter in 0..8 {
            for level in 0..16 {
                let count = rows.iter().filter(|row| row[parameter] == level).count();
                assert!((400..=850).contains(&count), "level {level} of parameter {parameter}: {count} of 10,000");
            }
        }
    }

    #[test]
    fn subset_follows_its_seed() {
        let parameters = wide(5, 12);
        assert_eq!(candidates(&parameters, 1), candidates(&parameters, 1));
        assert_ne!(candidates(&parameters, 1), candidates(&parameters, 2));
    }

    /// Each block of 2^k scrambled points hits each of 2^k equal intervals exactly once: the (0, 1)-net property.
    #[test]
    fn scrambled_points_are_stratified() {
        for dimension in 0..6 {
            let mut hits = [0; 16];
            (0..16).for_each(|index| hits[level_at(sobol(index, dimension, 42), 16)] += 1);
            assert_eq!(hits, [1; 16], "dimension {dimension}");
        }
    }

    #[test]
    fn more_parameters_than_sobol_dimensions_do_not_panic() {
        let rows = candidates(&wide(300, 2), 3);
        assert_eq!(rows.len(), MAX_CANDIDATES);
        assert_eq!(rows[0].len(), 300);
    }
}
