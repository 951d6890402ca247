//! Putting the container's first process under its limits: what it starts later inherits them.

use std::fs::{File, OpenOptions};
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::ShimLimits;

/// Limits with everything looked up, so that a forked child needs system calls only.
pub struct Confinement {
    /// Those through which a process joins a control group.
    groups: Vec<File>,
    cores: Option<CpuSet>,
    data: Option<Rlimit>,
}

impl Confinement {
    pub fn open(limits: &ShimLimits) -> io::Result<Self> {
        let open = |path: &std::path::PathBuf| {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("its control group {} cannot be joined: {error}", path.display()))
            };
            OpenOptions::new().write(true).open(path).map_err(named)
        };
        let mut cores = CpuSet::new();
        for core in limits.cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
            cores.set(*core);
        }
        Ok(Self {
            groups: limits.groups.iter().map(open).collect::<io::Result<_>>()?,
            cores: (cores.count() > 0).then_some(cores),
            data: limits.data_bytes.map(|bytes| below_own(bytes, getrlimit(Resource::Data))),
        })
    }

    /// For the child between fork and exec: makes system calls, allocates nothing.
    pub fn apply(&self) -> io::Result<()> {
        for group in &self.groups {
            // The kernel reads 0 as "whoever writes".
            rustix::io::write(group, b"0")?;
        }
        if let Some(cores) = &self.cores {
            sched_setaffinity(None, cores)?;
        }
        if let Some(data) = self.data {
            setrlimit(Resource::Data, data)?;
        }
        Ok(())
    }
}

/// The hard limit goes down with the soft one, so that the container cannot raise it; a lower one of our own stays.
fn below_own(bytes: u64, own: Rlimit) -> Rlimit {
    let bytes = own.maximum.map_or(bytes, |maximum| maximum.min(bytes));
    Rlimit { current: Some(bytes), maximum: Some(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_never_goes_above_our_own() {
        let own = |maximum| Rlimit { current: None, maximum };
        assert_eq!(below_own(10, own(None)).maximum, Some(10));
        assert_eq!(below_own(10, own(Some(5))).current, Some(5));
    }

    #[test]
    fn a_group_that_is_gone_is_named() {
        let limits = ShimLimits { groups: vec!["/no/such/group".into()], ..ShimLimits::default() };
        let error = Confinement::open(&limits).err().unwrap();
        assert!(error.to_string().contains("/no/such/group"), "{error}");
    }
}
