//! Decides the next step of a claim.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod};
use kube::ResourceExt;

use crate::pods;

/// Keeps a claim while pods use it.
pub(crate) const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The next step; each is one write, and the claim is looked at again after it.
#[derive(Debug, PartialEq)]
pub(crate) enum ClaimStep {
    Nothing,
    /// Put the protection on.
    Protect,
    /// Give it its volume.
    Bind {
        volume: String,
    },
    /// Make the folder, then write this status.
    Report(Box<PersistentVolumeClaimStatus>),
    /// Somebody still uses it; pod events wake it.
    WaitForPods,
    /// Remove the folder, then take the protection off.
    Remove,
}

pub(crate) fn decide<P: AsRef<Pod>>(claim: &PersistentVolumeClaim, pods: &[P]) -> ClaimStep {
    let protected = claim.finalizers().iter().any(|finalizer| finalizer == PROTECTION);
    if claim.metadata.deletion_timestamp.is_some() {
        return match (protected, is_used(claim, pods)) {
            (false, _) => ClaimStep::Nothing,
            (true, true) => ClaimStep::WaitForPods,
            (true, false) => ClaimStep::Remove,
        };
    }
    if !protected {
        return ClaimStep::Protect;
    }
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.volume_name.is_none_or(|volume| volume.is_empty()) {
        return ClaimStep::Bind { volume: format!("local-{}", claim.uid().unwrap_or_default()) };
    }
    let mut status = claim.status.clone().unwrap_or_default();
    status.phase = Some("Bound".into());
    status.access_modes = spec.access_modes;
    status.capacity = spec.resources.and_then(|resources| resources.requests);
    if claim.status.as_ref() == Some(&status) { ClaimStep::Nothing } else { ClaimStep::Report(Box::new(status)) }
}

fn is_used<P: AsRef<Pod>>(claim: &PersistentVolumeClaim, pods: &[P]) -> bool {
    let name = claim.name_any();
    pods.iter().map(AsRef::as_ref).any(|pod| !pods::is_terminal(pod) && claims_of(pod).contains(&name))
}

/// Names of the claims that a pod mounts.
pub(crate) fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone())).collect()
}

/// The claim's folder below the data directory, unless a name in it is not one plain path component.
pub(crate) fn folder(claim: &PersistentVolumeClaim) -> Option<String> {
    let (namespace, name, uid) = (claim.namespace()?, claim.name_any(), claim.uid()?);
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
    };
    [&namespace, &name, &uid].into_iter().all(|part| plain(part)).then(|| format!("volumes/{namespace}/{name}-{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn claim(metadata: &Value, volume: Option<&str>) -> PersistentVolumeClaim {
        let mut all = json!({"name": "output", "namespace": "default", "uid": "u1"});
        all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        from_value(json!({
            "metadata": all,
            "spec": {
                "volumeName": volume,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}
            }
        }))
        .unwrap()
    }

    fn pod(phase: &str) -> std::sync::Arc<Pod> {
        let pod = json!({
            "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "output"}}]},
            "status": {"phase": phase}
        });
        std::sync::Arc::new(from_value(pod).unwrap())
    }

    const NOBODY: [std::sync::Arc<Pod>; 0] = [];

    #[test]
    fn protects_then_binds_then_reports_then_rests() {
        assert_eq!(decide(&claim(&json!({}), None), &NOBODY), ClaimStep::Protect);
        let protected = json!({"finalizers": [PROTECTION]});
        assert_eq!(decide(&claim(&protected, None), &NOBODY), ClaimStep::Bind { volume: "local-u1".into() });
        let mut bound = claim(&protected, Some("local-u1"));
        let ClaimStep::Report(status) = decide(&bound, &NOBODY) else { panic!("expected a report") };
        assert_eq!(status.phase.as_deref(), Some("Bound"));
        assert_eq!(status.capacity.as_ref().unwrap()["storage"].0, "1Gi");
        bound.status = Some(*status);
        assert_eq!(decide(&bound, &NOBODY), ClaimStep::Nothing);
    }

    #[test]
    fn stays_until_no_running_pod_uses_it() {
        let deleted = json!({"finalizers": [PROTECTION], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let claim = claim(&deleted, Some("local-u1"));
        assert_eq!(decide(&claim, &[pod("Running")]), ClaimStep::WaitForPods);
        assert_eq!(decide(&claim, &[pod("Succeeded")]), ClaimStep::Remove);
    }

    #[test]
    fn a_folder_never_leaves_the_data_directory() {
        assert_eq!(folder(&claim(&json!({}), None)).as_deref(), Some("volumes/default/output-u1"));
        assert_eq!(folder(&claim(&json!({"name": ".."}), None)), None);
        assert_eq!(folder(&claim(&json!({"uid": "a/b"}), None)), None);
    }
}
