//! Quantiles and the paired test.

/// The value that at least this share of values does not exceed.
pub fn quantile(values: &[usize], share: f64) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (0..sorted.len()).find(|index| (index + 1) as f64 >= share * sorted.len() as f64);
    at.map_or(0, |at| sorted[at])
}

/// Two-sided exact sign test of paired values, ties left out: wins, losses and the p-value.
pub fn sign_test(ours: &[usize], theirs: &[usize]) -> (usize, usize, f64) {
    let wins = ours.iter().zip(theirs).filter(|(ours, theirs)| ours < theirs).count();
    let losses = ours.iter().zip(theirs).filter(|(ours, theirs)| ours > theirs).count();
    let (pairs, fewer) = (wins + losses, wins.min(losses));
    let mut tail = 0.0;
    let mut term = 0.5f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX));
    for index in 0..=fewer {
        tail += term;
        term *= (pairs - index) as f64 / (index + 1) as f64;
    }
    (wins, losses, (2.0 * tail).min(1.0))
}
