//! Which cores the load generator has, and which the service: where there are two, they share none.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// For the generator.
    pub generator: Vec<usize>,
    /// For the service, at most.
    pub service: Vec<usize>,
}

impl Cores {
    /// Shares out the cores that there are; at least one. The generator needs as many as it has threads, and never half.
    pub fn share(all: &[usize], threads: usize) -> Self {
        if all.len() < 2 {
            return Self { generator: all.to_vec(), service: all.to_vec() };
        }
        let own = threads.clamp(1, all.len() / 2);
        Self { generator: all[..own].to_vec(), service: all[own..].to_vec() }
    }

    /// Whether both run on the same cores.
    pub fn shared(&self) -> bool {
        self.generator == self.service
    }

    /// Cores for a service that asks for so many; whole ones, at least one.
    pub fn of_service(&self, asked: f64) -> Vec<usize> {
        let whole = (1..self.service.len()).find(|count| *count as f64 >= asked).unwrap_or(self.service.len());
        self.service[..whole].to_vec()
    }

    /// For the record.
    pub fn describe(&self) -> String {
        if self.shared() {
            return format!("generator and service share core {}", list(&self.generator));
        }
        format!("generator: core {}, service: core {}", list(&self.generator), list(&self.service))
    }
}

/// `0, 2, 3`.
pub fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The cores that this thread may use; empty where the system does not say.
pub fn own() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Moves this thread, and the threads that it starts from now on, to these cores. Whether that worked.
pub fn keep_to(cores: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
    set.count() > 0 && sched_setaffinity(None, &set).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_and_service_are_apart_where_there_are_two_cores() {
        assert_eq!(Cores::share(&[0, 1], 1), Cores { generator: vec![0], service: vec![1] });
        assert_eq!(Cores::share(&[0, 2, 5, 7], 9), Cores { generator: vec![0, 2], service: vec![5, 7] });
        let one = Cores::share(&[3], 1);
        assert!(one.shared() && one.service == [3]);
    }

    #[test]
    fn a_service_gets_whole_cores() {
        let cores = Cores::share(&[0, 1, 2, 3], 1);
        assert_eq!(cores.of_service(0.5), [1]);
        assert_eq!(cores.of_service(2.0), [1, 2]);
        assert_eq!(cores.of_service(9.0), [1, 2, 3]);
    }

    #[test]
    fn own_cores_are_known_and_can_be_kept_to() {
        let all = own();
        assert!(!all.is_empty() && keep_to(&all));
        assert!(!keep_to(&[]));
    }
}
