//! Conflicts between managers, and how they read.

use super::fields::FieldSet;
use super::managed::Entry;
use super::{Manager, Operation};

/// A field that another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, as Kubernetes prints it: `"kubectl" using apps/v1 at 2024-01-02T03:04:05Z`.
    pub manager: String,
    /// The field, such as `.spec.replicas`.
    pub field: String,
}

/// The conflicts of a write with every other manager's entry.
pub(super) fn conflicts(entries: &[Entry], own: &Manager, written: &FieldSet) -> Vec<Conflict> {
    let others = entries.iter().filter(|entry| !super::managed::is_same(&entry.manager, own));
    others
        .flat_map(|entry| {
            let manager = shown(entry);
            let fields = entry.fields.intersection(written).paths();
            fields.into_iter().map(move |field| Conflict { manager: manager.clone(), field })
        })
        .collect()
}

fn shown(entry: &Entry) -> String {
    let Manager { name, operation, subresource, api_version } = &entry.manager;
    let subresource = subresource.as_ref().map(|name| format!(" with subresource {name:?}")).unwrap_or_default();
    match (operation, &entry.time) {
        (Operation::Apply, _) => format!("{name:?}{subresource}"),
        (Operation::Update, None) => format!("{name:?}{subresource} using {api_version}"),
        (Operation::Update, Some(time)) => format!("{name:?}{subresource} using {api_version} at {time}"),
    }
}

/// The text of a refused apply.
pub(super) fn text(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.field);
    }
    let mut lines = Vec::new();
    let mut last = None;
    for conflict in conflicts {
        if last != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager));
            last = Some(&conflict.manager);
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
