//! What a node is told at its start.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::images::{ImageSource, OciSource};
use crate::limits::LimitMeans;
use crate::pod::backoff::BackoffRule;

/// A range of loopback addresses, such as `127.8.0.0/17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodCidr {
    first: u32,
    size: u32,
}

impl PodCidr {
    /// `None` unless `base` is a loopback address and the prefix lies between 9 and 30.
    pub fn new(base: Ipv4Addr, prefix: u8) -> Option<Self> {
        if !base.is_loopback() || !(9..=30).contains(&prefix) {
            return None;
        }
        let size = 1_u32 << (32 - u32::from(prefix));
        Some(Self { first: u32::from(base) & !(size - 1), size })
    }

    /// How many addresses pods can have: all but the first and the last.
    pub fn capacity(&self) -> u32 {
        self.size - 2
    }

    /// The address at `index`, counted from 0 to [`Self::capacity`] - 1.
    pub fn at(&self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.first + 1 + index % self.capacity())
    }

    /// The index of `address`, if it is in the range.
    pub fn index(&self, address: Ipv4Addr) -> Option<u32> {
        u32::from(address).checked_sub(self.first + 1).filter(|index| *index < self.capacity())
    }
}

impl std::fmt::Display for PodCidr {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.first), 32 - self.size.trailing_zeros())
    }
}

/// Waits of the node; the defaults are those of Kubernetes where it has them.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub restart: BackoffRule,
    pub pull: BackoffRule,
    /// Missing `ConfigMaps`, held ports and the like.
    pub blocked: BackoffRule,
    /// Grace of pods when the platform itself stops, and of pods whose object is gone.
    pub platform_grace: Duration,
    /// How often mounted `ConfigMaps` and `Secrets` are compared with the API.
    pub refresh: Duration,
    /// How often the node says that it lives, and cleans up.
    pub heartbeat: Duration,
    /// Replaces the period of every probe; for tests.
    pub probe_period: Option<Duration>,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            restart: BackoffRule::RESTART,
            pull: BackoffRule { base: seconds(2), limit: seconds(60), reset: seconds(600) },
            blocked: BackoffRule { base: Duration::from_millis(250), limit: seconds(5), reset: seconds(600) },
            platform_grace: seconds(2),
            refresh: seconds(10),
            heartbeat: seconds(60),
            probe_period: None,
        }
    }
}

/// Everything a node needs.
#[derive(Clone)]
pub struct NodeOptions {
    pub client: kube::Client,
    /// Name of the Node object.
    pub name: String,
    pub data_dir: PathBuf,
    /// The program that stands for `modelway` in commands, and that runs the shim.
    pub executable: PathBuf,
    /// Arguments that make `executable` run [`crate::shim::main`]; a label follows them.
    pub executable_args: Vec<String>,
    pub pod_cidr: PodCidr,
    /// The file that pods get as `KUBECONFIG`.
    pub kubeconfig: PathBuf,
    /// Registries (`host:port`) that are spoken to without TLS.
    pub plain_http: Vec<String>,
    /// The image reference that means `executable`.
    pub image: String,
    /// Variables that every container starts with; what the pod declares wins.
    pub environment: Vec<(String, String)>,
    pub image_source: Arc<dyn ImageSource>,
    /// Bytes of pulled images to keep beyond those in use.
    pub image_cache_limit: u64,
    /// Bytes after which a log file is rotated; twice this is kept for each run.
    pub log_limit: u64,
    pub timing: Timing,
    /// By what limits of containers are enforced; anything but the best is for tests.
    pub limits: LimitMeans,
}

impl NodeOptions {
    /// Options with the usual values for a node named `local` on `data_dir`.
    pub fn new(client: kube::Client, data_dir: PathBuf, executable: PathBuf, pod_cidr: PodCidr) -> Self {
        Self {
            client,
            name: "local".to_owned(),
            kubeconfig: data_dir.join("kubeconfig"),
            data_dir,
            executable,
            executable_args: vec!["shim".to_owned()],
            pod_cidr,
            plain_http: Vec::new(),
            image: "modelway".to_owned(),
            environment: Vec::new(),
            image_source: Arc::new(OciSource),
            image_cache_limit: 10 << 30,
            log_limit: 10 << 20,
            timing: Timing::default(),
            limits: LimitMeans::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_addresses_inside_the_range_only() {
        let cidr = PodCidr::new(Ipv4Addr::new(127, 8, 0, 0), 17).unwrap();
        assert_eq!(cidr.at(0), Ipv4Addr::new(127, 8, 0, 1));
        assert_eq!(cidr.at(cidr.capacity() - 1), Ipv4Addr::new(127, 8, 127, 254));
        assert_eq!(cidr.at(cidr.capacity()), cidr.at(0));
        assert_eq!(cidr.index(Ipv4Addr::new(127, 8, 128, 1)), None);
        assert_eq!(cidr.index(Ipv4Addr::new(127, 8, 0, 0)), None);
        assert_eq!(cidr.to_string(), "127.8.0.0/17");
        assert_eq!(PodCidr::new(Ipv4Addr::new(10, 0, 0, 0), 17), None);
    }
}
