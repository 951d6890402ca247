//! Memory of a process tree, from /proc.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;

/// How often the sum is looked at.
const PERIOD: Duration = Duration::from_millis(200);

/// Resident bytes of one process.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Resident bytes of `roots` and all their descendants.
pub fn tree_resident_bytes(roots: &[u32]) -> u64 {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut pending = roots.to_vec();
    pending.sort_unstable();
    pending.dedup();
    let mut sum = 0;
    while let Some(pid) = pending.pop() {
        sum += resident_bytes(pid).unwrap_or(0);
        pending.extend(children.remove(&pid).unwrap_or_default());
    }
    sum
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

/// Keeps the largest sum seen until it is dropped.
pub struct PeakMemory {
    peak: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl PeakMemory {
    /// Starts to look.
    pub fn watch(roots: Vec<u32>) -> Self {
        let peak = Arc::new(AtomicU64::new(0));
        let seen = peak.clone();
        let task = tokio::spawn(async move {
            loop {
                seen.fetch_max(tree_resident_bytes(&roots), Ordering::Relaxed);
                tokio::time::sleep(PERIOD).await;
            }
        });
        Self { peak, task }
    }

    /// The largest sum so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for PeakMemory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_weighs_at_least_its_root() {
        let own = std::process::id();
        let root = resident_bytes(own).unwrap();
        assert!(root > 100_000);
        assert!(tree_resident_bytes(&[own, own]) >= root / 2);
        assert_eq!(tree_resident_bytes(&[u32::MAX]), 0);
    }
}
