//! Names, scopes and subresources of the built-in kinds.

use std::sync::{Arc, LazyLock};

use modelway_schema::Schema;

use super::{columns, definitions};
use crate::kinds::{ResourceKind, ScalePaths};

/// What distinguishes one built-in kind from another.
struct Entry {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    scope: Scope,
    status: bool,
    scale: bool,
    inert: bool,
}

#[derive(PartialEq)]
enum Scope {
    Cluster,
    Namespaced,
}

const fn namespaced(group: &'static str, kind: &'static str, plural: &'static str) -> Entry {
    Entry {
        group,
        kind,
        plural,
        short_names: &[],
        categories: &[],
        scope: Scope::Namespaced,
        status: false,
        scale: false,
        inert: false,
    }
}

const fn cluster(group: &'static str, kind: &'static str, plural: &'static str) -> Entry {
    Entry { scope: Scope::Cluster, ..namespaced(group, kind, plural) }
}

impl Entry {
    const fn short(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    const fn category(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    const fn with_status(self) -> Self {
        Self { status: true, ..self }
    }

    /// Kept so that the same manifests apply, and without effect.
    const fn inert(self) -> Self {
        Self { inert: true, ..self }
    }

    const fn with_scale(self) -> Self {
        Self { scale: true, ..self }
    }
}

/// Every kind is served in version `v1`. The core group's events come before those of `events.k8s.io`, so that clients
/// resolve the bare word to them.
const ENTRIES: &[Entry] = &[
    cluster("", "Namespace", "namespaces").short(&["ns"]).with_status(),
    cluster("", "Node", "nodes").short(&["no"]).with_status(),
    cluster("", "PersistentVolume", "persistentvolumes").short(&["pv"]).with_status(),
    namespaced("", "ConfigMap", "configmaps").short(&["cm"]),
    namespaced("", "Endpoints", "endpoints").short(&["ep"]),
    namespaced("", "Event", "events").short(&["ev"]),
    namespaced("", "PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).with_status(),
    namespaced("", "LimitRange", "limitranges").short(&["limits"]).inert(),
    namespaced("", "Pod", "pods").short(&["po"]).category(&["all"]).with_status(),
    namespaced("", "ResourceQuota", "resourcequotas").short(&["quota"]).with_status().inert(),
    namespaced("", "Secret", "secrets"),
    namespaced("", "Service", "services").short(&["svc"]).category(&["all"]).with_status(),
    namespaced("", "ServiceAccount", "serviceaccounts").short(&["sa"]),
    cluster("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
        .short(&["crd", "crds"])
        .category(&["api-extensions"])
        .with_status(),
    namespaced("apps", "Deployment", "deployments").short(&["deploy"]).category(&["all"]).with_status().with_scale(),
    namespaced("apps", "ReplicaSet", "replicasets").short(&["rs"]).category(&["all"]).with_status().with_scale(),
    namespaced("batch", "Job", "jobs").category(&["all"]).with_status(),
    namespaced("coordination.k8s.io", "Lease", "leases"),
    namespaced("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    namespaced("events.k8s.io", "Event", "events").short(&["ev"]),
    namespaced("networking.k8s.io", "NetworkPolicy", "networkpolicies").short(&["netpol"]).inert(),
    namespaced("policy", "PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]).with_status(),
    cluster("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings").inert(),
    cluster("rbac.authorization.k8s.io", "ClusterRole", "clusterroles").inert(),
    namespaced("rbac.authorization.k8s.io", "RoleBinding", "rolebindings").inert(),
    namespaced("rbac.authorization.k8s.io", "Role", "roles").inert(),
];

/// Every kind that is served without a `CustomResourceDefinition`. Schemas are parsed once a process and shared.
pub fn builtin_kinds() -> Vec<ResourceKind> {
    static KINDS: LazyLock<Vec<ResourceKind>> = LazyLock::new(|| ENTRIES.iter().map(resource_kind).collect());
    KINDS.clone()
}

/// Whether objects of this kind are kept without having any effect.
pub fn is_inert(group: &str, kind: &str) -> bool {
    ENTRIES.iter().any(|entry| entry.inert && entry.group == group && entry.kind == kind)
}

fn resource_kind(entry: &Entry) -> ResourceKind {
    let name = definitions::component_name(entry.group, "v1", entry.kind).expect("each entry has its definition");
    let structural = definitions::structural(&name);
    ResourceKind {
        group: entry.group.to_owned(),
        version: "v1".to_owned(),
        kind: entry.kind.to_owned(),
        list_kind: format!("{}List", entry.kind),
        plural: entry.plural.to_owned(),
        singular: entry.kind.to_lowercase(),
        short_names: owned(entry.short_names),
        categories: owned(entry.categories),
        namespaced: entry.scope == Scope::Namespaced,
        status_subresource: entry.status,
        scale: entry.scale.then(scale_paths),
        columns: columns::columns(entry.group, entry.kind),
        schema: Arc::new(Schema::parse_builtin(&structural).expect("the embedded schemas are structural")),
        open_api: Arc::new(definitions::definition(&name).expect("just found by its name").clone()),
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn scale_paths() -> ScalePaths {
    ScalePaths {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        // Apps kinds have a label selector object; the scale status wants its string form.
        label_selector: Some(".spec.selector".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_has_a_schema_and_open_api() {
        let kinds = builtin_kinds();
        assert_eq!(kinds.len(), ENTRIES.len());
        assert!(kinds.iter().all(|kind| kind.open_api["properties"]["metadata"].is_object()));
    }

    #[test]
    fn a_bare_plural_means_the_core_group() {
        let first = ENTRIES.iter().find(|entry| entry.plural == "events");
        assert_eq!(first.map(|entry| entry.group), Some(""));
    }
}
