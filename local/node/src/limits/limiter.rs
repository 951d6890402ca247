//! What the node asks when it starts a container, and tells when a pod is gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};
use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::cores::CorePool;
use super::detect::{LimitMeans, Site, candidates, hierarchies};
use super::files::{Controller, Version, kill_count_file};
use super::group::{GroupError, Hierarchy, join, processes_file, remove_tree};
use super::own::OwnGroups;
use super::record;
use super::resources::{Limit, Resources};
use super::share::Share;
use super::verdict::{Enforced, Verdict};
use crate::shim::ShimLimits;

/// Looks at whether a killed process has left its group, at the end of the platform.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// What the node has to limit its containers with.
#[derive(Debug)]
pub struct Limiter {
    means: LimitMeans,
    hierarchies: Vec<Hierarchy>,
    cores: Option<Mutex<CorePool>>,
    /// Pods whose groups could not be removed yet.
    left: Mutex<BTreeSet<String>>,
}

/// What a container starts with, and what that enforces.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    pub shim: ShimLimits,
    pub enforced: Enforced,
}

impl Limiter {
    /// Finds out what works. `command` starts a process that lives until it is killed. Blocks for some milliseconds.
    pub fn detect(means: LimitMeans, data_dir: &Path, cores: u64, command: &[PathBuf]) -> Self {
        let hierarchies = found(means, data_dir, cores, command).unwrap_or_else(|error| {
            tracing::warn!(%error, folder = %data_dir.display(), "cannot note control groups, so none are used");
            Vec::new()
        });
        let cores = (means != LimitMeans::Off).then(own_cores).flatten().map(|cores| Mutex::new(CorePool::new(cores)));
        Self { means, hierarchies, cores, left: Mutex::default() }
    }

    /// Makes ready what limits the container. What cannot be done is not an error: the pod's status says it.
    pub fn place(&self, pod: &Pod, container: &Container) -> Placement {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let (resources, of_pod) = (Resources::of(container), Resources::of_pod(pod));
        let mut placement = Placement::default();
        for hierarchy in &self.hierarchies {
            match hierarchy.place(uid, &of_pod, &container.name, &resources) {
                Ok(folder) => join_group(&mut placement, hierarchy, &folder, &resources),
                Err(error) => tracing::warn!(%error, uid, container = container.name, "a control group was not used"),
            }
        }
        let Placement { shim, enforced } = &mut placement;
        let share = Share::of(pod);
        enforced.share = share.map(|share| self.keep_apart(shim, share));
        if let (Some(limit), None) = (&resources.cpu, &enforced.cpu) {
            enforced.cpu = Some(self.pin(shim, uid, &container.name, limit, share));
        }
        if let (Some(limit), None) = (&resources.memory, &enforced.memory) {
            enforced.memory = Some(self.cap(shim, limit));
        }
        placement
    }

    fn keep_apart(&self, shim: &mut ShimLimits, share: Share) -> Verdict {
        let Some(pool) = &self.cores else { return Verdict::no_share(share.word()) };
        shim.cores = pool.lock().share(Some(share)).to_vec();
        Verdict::share(share.word(), &shim.cores)
    }

    fn pin(&self, shim: &mut ShimLimits, uid: &str, container: &str, limit: &Limit, share: Option<Share>) -> Verdict {
        let Some(pool) = &self.cores else { return Verdict::none("cpu", limit) };
        shim.cores = pool.lock().lease(uid, container, limit.value, share);
        Verdict::affinity(limit, &shim.cores)
    }

    fn cap(&self, shim: &mut ShimLimits, limit: &Limit) -> Verdict {
        if self.means == LimitMeans::Off {
            return Verdict::none("memory", limit);
        }
        shim.data_bytes = Some(limit.value);
        Verdict::rlimit(limit)
    }

    /// Takes back what a pod had; its processes are gone, or will be in a moment.
    pub fn release(&self, uid: &str) {
        if let Some(pool) = &self.cores {
            pool.lock().release(uid);
        }
        self.left.lock().insert(uid.to_owned());
        self.tidy();
    }

    /// Removes the groups that could not be removed before.
    pub fn tidy(&self) {
        self.left.lock().retain(|uid| {
            // Every hierarchy is tried, whatever came of the one before.
            let failed = self.hierarchies.iter().filter(|hierarchy| hierarchy.remove_pod(uid).is_err()).count();
            failed > 0
        });
    }

    /// Removes all groups; what cannot be removed is swept later.
    pub async fn close(&self) {
        let removed = || self.hierarchies.iter().map(|one| remove_tree(&one.base)).filter(Result::is_err).count() == 0;
        for _ in 0..ATTEMPTS {
            if removed() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        tracing::debug!("some control groups are left; they go at the next start");
    }

    /// What this machine enforces, for people.
    pub fn summary(&self) -> String {
        let by = |controller: Controller, otherwise: &'static str| {
            let found = self.hierarchies.iter().find(|hierarchy| hierarchy.has(controller));
            match found.map(|hierarchy| hierarchy.version) {
                Some(Version::V2) => "cgroup v2",
                Some(Version::V1) => "cgroup v1",
                None if self.means == LimitMeans::Off => "nothing",
                None => otherwise,
            }
        };
        let (cpu, memory) = (by(Controller::Cpu, "whole cores"), by(Controller::Memory, "RLIMIT_DATA"));
        format!("CPU limits by {cpu}, memory limits by {memory}")
    }
}

fn join_group(placement: &mut Placement, hierarchy: &Hierarchy, folder: &Path, resources: &Resources) {
    let Placement { shim, enforced } = placement;
    shim.groups.push(processes_file(folder));
    let by_group =
        |name: &str, limit: &Option<Limit>| limit.as_ref().map(|limit| Verdict::group(hierarchy.version, name, limit));
    if hierarchy.has(Controller::Cpu) {
        enforced.cpu = by_group("cpu", &resources.cpu);
    }
    if hierarchy.has(Controller::Memory) {
        enforced.memory = by_group("memory", &resources.memory);
        shim.kill_count = Some(folder.join(kill_count_file(hierarchy.version)));
    }
}

fn found(means: LimitMeans, data_dir: &Path, cores: u64, command: &[PathBuf]) -> std::io::Result<Vec<Hierarchy>> {
    if matches!(means, LimitMeans::Affinity | LimitMeans::Off) {
        return Ok(Vec::new());
    }
    let (own, name) = (OwnGroups::read(), record::base_name(data_dir)?);
    record::write(data_dir, &candidates(&own, &name))?;
    let trial = |folder: &Path| try_out(folder, command);
    Ok(hierarchies(means, &Site { own: &own, name: &name, cores, trial: &trial }))
}

/// Moves a process into the group: rights that one has to make a group are not always enough to fill it.
fn try_out(folder: &Path, command: &[PathBuf]) -> Result<(), GroupError> {
    let failed = |source| GroupError::Trial { path: folder.to_owned(), source };
    let (program, arguments) = command.split_first().ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let joined = join(folder, child.id());
    let ended = child.kill().and_then(|()| child.wait());
    joined.and(ended.map(drop).map_err(failed))
}

/// The cores that this process may use; none on a machine with more than can be named here.
fn own_cores() -> Option<Vec<usize>> {
    let set = sched_getaffinity(None).ok()?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    (!cores.is_empty()).then_some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn placed(means: LimitMeans) -> Placement {
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::detect(means, folder.path(), 2, &[]);
        let container = json!({"name": "a", "resources": {"limits": {"cpu": "200m", "memory": "64Mi"}}});
        let pod: Pod =
            from_value(json!({"metadata": {"uid": "u"}, "spec": {"containers": [container.clone()]}})).unwrap();
        limiter.place(&pod, &from_value(container).unwrap())
    }

    #[test]
    fn without_control_groups_a_limit_is_cores_and_bytes() {
        let placement = placed(LimitMeans::Affinity);
        assert_eq!((placement.shim.cores.len(), placement.shim.data_bytes), (1, Some(64 << 20)));
        assert_eq!((placement.shim.groups.len(), placement.shim.kill_count), (0, None));
    }

    #[test]
    fn a_pod_gets_the_cores_that_it_asks_for() {
        let Some(all) = own_cores() else { return };
        let folder = tempfile::tempdir().unwrap();
        let limiter = Limiter::detect(LimitMeans::Affinity, folder.path(), 2, &[]);
        let cores = |word: &str, limits: serde_json::Value| {
            let container = json!({"name": "a", "resources": {"limits": limits}});
            let metadata = json!({"uid": word, "annotations": {"modelway.io/cores": word}});
            let pod: Pod = from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).unwrap();
            limiter.place(&pod, &from_value(container).unwrap()).shim.cores
        };
        assert_eq!(cores("last", json!({})), Share::Last.among(&all));
        assert_eq!(cores("last", json!({"cpu": "64"})), Share::Last.among(&all));
        assert_eq!(cores("all-but-last", json!({})), Share::AllButLast.among(&all));
    }

    #[test]
    fn nothing_is_enforced_where_limits_are_off() {
        let placement = placed(LimitMeans::Off);
        assert_eq!(placement.shim, ShimLimits::default());
        let text = placement.enforced.memory.map(|verdict| verdict.text);
        assert_eq!(text.as_deref(), Some("memory 64Mi not enforced"));
    }
}
