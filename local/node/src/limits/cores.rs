//! Which cores a container with a CPU limit gets where nothing finer than whole cores can be enforced.

use std::collections::BTreeMap;

use super::share::Share;

/// The cores of this machine and who has which.
#[derive(Debug)]
pub struct CorePool {
    cores: Vec<usize>,
    /// Pod uid and container name to cores.
    leases: BTreeMap<(String, String), Vec<usize>>,
}

impl CorePool {
    pub fn new(cores: Vec<usize>) -> Self {
        Self { cores, leases: BTreeMap::new() }
    }

    /// As many whole cores of the share as `milli` thousandths need, those with the fewest other containers; the same ones as before
    /// for a container that had some.
    pub fn lease(&mut self, uid: &str, container: &str, milli: u64, share: Option<Share>) -> Vec<usize> {
        let key = (uid.to_owned(), container.to_owned());
        if let Some(cores) = self.leases.get(&key) {
            return cores.clone();
        }
        let wanted = usize::try_from(milli.div_ceil(1000)).unwrap_or(usize::MAX).max(1);
        let mut load: Vec<(usize, usize)> = self.share(share).iter().map(|core| (self.holders(*core), *core)).collect();
        load.sort_unstable();
        let mut chosen: Vec<usize> = load.into_iter().take(wanted).map(|(_, core)| core).collect();
        chosen.sort_unstable();
        self.leases.insert(key, chosen.clone());
        chosen
    }

    /// The cores of a share.
    pub fn share(&self, share: Option<Share>) -> &[usize] {
        share.map_or(&self.cores, |share| share.among(&self.cores))
    }

    fn holders(&self, core: usize) -> usize {
        self.leases.values().filter(|cores| cores.contains(&core)).count()
    }

    /// Takes back what the containers of a pod have.
    pub fn release(&mut self, uid: &str) {
        self.leases.retain(|(owner, _), _| owner != uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_up_to_whole_cores() {
        let mut pool = CorePool::new(vec![0, 1, 2, 3]);
        assert_eq!(pool.lease("p", "a", 1500, None).len(), 2);
        assert_eq!(pool.lease("p", "b", 1, None).len(), 1);
        assert_eq!(pool.lease("p", "c", 90_000, None), [0, 1, 2, 3]);
    }

    #[test]
    fn pods_get_different_cores_while_there_are_enough() {
        let mut pool = CorePool::new(vec![2, 3, 6, 7]);
        assert_eq!(pool.lease("p", "a", 2000, None), [2, 3]);
        assert_eq!(pool.lease("q", "a", 1000, None), [6]);
        assert_eq!(pool.lease("r", "a", 1000, None), [7]);
        assert_eq!(pool.lease("q", "a", 1000, None), [6], "the same as before");
        assert_eq!(pool.lease("g", "a", 500, Some(Share::Last)), [7], "whoever else has it");
        pool.release("p");
        assert_eq!(pool.lease("s", "a", 2000, None), [2, 3]);
    }

    proptest! {
        #[test]
        fn spreads_so_that_no_core_has_two_more_than_another(count in 1_usize..9, limits in proptest::collection::vec(1_u64..9000, 0..40)) {
            let mut pool = CorePool::new((0..count).collect());
            for (pod, milli) in limits.iter().enumerate() {
                let cores = pool.lease(&pod.to_string(), "a", *milli, None);
                prop_assert_eq!(cores.len(), usize::try_from(milli.div_ceil(1000)).unwrap().min(count));
            }
            let load: Vec<usize> = (0..count).map(|core| pool.holders(core)).collect();
            prop_assert!(load.iter().max().unwrap() - load.iter().min().unwrap() <= 1, "{:?}", load);
        }
    }
}
