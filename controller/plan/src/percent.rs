//! Weights to whole percents that sum to 100.

/// Percents by largest remainder; ties go to the earlier weight. All zero when no weight is positive.
pub fn percents(weights: &[u32]) -> Vec<i32> {
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    let floor = |weight: &u32| i32::try_from(u64::from(*weight) * 100 / total).expect("a share is at most 100");
    let mut percents: Vec<i32> = weights.iter().map(floor).collect();
    let missing = 100 - percents.iter().sum::<i32>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(u64::from(weights[index]) * 100 % total));
    for &index in order.iter().take(usize::try_from(missing).unwrap_or(0)) {
        percents[index] += 1;
    }
    percents
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_splits() {
        assert_eq!(percents(&[90, 10]), [90, 10]);
        assert_eq!(percents(&[1, 1, 1]), [34, 33, 33]);
        assert_eq!(percents(&[100]), [100]);
        assert_eq!(percents(&[0, 0]), [0, 0]);
        assert_eq!(percents(&[]), [] as [i32; 0]);
    }

    proptest! {
        #[test]
        fn sums_to_100_and_stays_within_one(weights in prop::collection::vec(0_u32..=1_000_000, 1..=16)) {
            let total: u64 = weights.iter().copied().map(u64::from).sum();
            let result = percents(&weights);
            prop_assert_eq!(result.iter().sum::<i32>(), if total == 0 { 0 } else { 100 });
            for (weight, percent) in weights.iter().zip(result).filter(|_| total > 0) {
                let exact = f64::from(*weight) * 100.0 / total as f64;
                prop_assert!((exact - f64::from(percent)).abs() < 1.0);
                prop_assert!(*weight > 0 || percent == 0);
            }
        }
    }
}
