//! Two random choices: the less loaded of two random endpoints, near-optimal without shared state
//! (Mitzenmacher, "The power of two choices in randomized load balancing", 2001).

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

/// An endpoint as the pick sees it.
pub trait Load {
    /// Requests that it works on now.
    fn in_flight(&self) -> u32;
    /// Whether it is to be avoided at this time.
    fn is_ejected(&self, now: Duration) -> bool;
}

impl<E: Load> Load for Arc<E> {
    fn in_flight(&self) -> u32 {
        self.as_ref().in_flight()
    }

    fn is_ejected(&self, now: Duration) -> bool {
        self.as_ref().is_ejected(now)
    }
}

/// Index of the endpoint to use; `avoid` was tried already. None only when there is no endpoint.
///
/// Endpoints that are ejected or tried already are used when there are no others.
pub fn pick<E: Load>(endpoints: &[E], avoid: Option<usize>, now: Duration, rng: &mut impl Rng) -> Option<usize> {
    let healthy = |index: &usize| Some(*index) != avoid && !endpoints[*index].is_ejected(now);
    let untried = |index: &usize| Some(*index) != avoid;
    two_choices(endpoints, healthy, rng)
        .or_else(|| two_choices(endpoints, untried, rng))
        .or_else(|| two_choices(endpoints, |_| true, rng))
}

fn two_choices<E: Load>(endpoints: &[E], usable: impl Fn(&usize) -> bool, rng: &mut impl Rng) -> Option<usize> {
    let candidates = || (0..endpoints.len()).filter(|index| usable(index));
    let count = candidates().count();
    if count < 2 {
        return candidates().next();
    }
    let first = rng.random_range(0..count);
    let second = (first + rng.random_range(1..count)) % count;
    let nth = |position| candidates().nth(position);
    let (first, second) = (nth(first)?, nth(second)?);
    Some(if endpoints[second].in_flight() < endpoints[first].in_flight() { second } else { first })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    struct Fixed(u32, bool);

    impl Load for Fixed {
        fn in_flight(&self) -> u32 {
            self.0
        }

        fn is_ejected(&self, _now: Duration) -> bool {
            self.1
        }
    }

    fn picks(endpoints: &[Fixed], avoid: Option<usize>) -> Vec<usize> {
        let mut rng = StdRng::seed_from_u64(7);
        (0..200).filter_map(|_| pick(endpoints, avoid, Duration::ZERO, &mut rng)).collect()
    }

    #[test]
    fn the_most_loaded_of_many_is_never_picked() {
        let picked = picks(&[Fixed(9, false), Fixed(1, false), Fixed(1, false)], None);
        assert!(!picked.contains(&0) && picked.contains(&1) && picked.contains(&2));
    }

    #[test]
    fn equal_endpoints_share_evenly() {
        let picked = picks(&[Fixed(1, false), Fixed(1, false)], None);
        let first = picked.iter().filter(|index| **index == 0).count();
        assert!((60..=140).contains(&first), "{first} of 200");
    }

    #[test]
    fn tried_and_ejected_endpoints_are_the_last_resort() {
        assert!(picks(&[Fixed(0, false), Fixed(9, false)], Some(0)).iter().all(|index| *index == 1));
        assert!(picks(&[Fixed(0, true), Fixed(9, false)], None).iter().all(|index| *index == 1));
        assert!(picks(&[Fixed(0, true), Fixed(9, false)], Some(1)).iter().all(|index| *index == 0));
        assert!(picks(&[Fixed(0, true)], Some(0)).iter().all(|index| *index == 0));
        assert!(picks(&[], None).is_empty());
    }
}
