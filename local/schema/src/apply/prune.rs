//! What goes when a manager no longer applies it: fields nobody else owns.

use serde_json::Value;

use super::extract::extract_stored;
use super::fields::FieldSet;
use super::remove::remove;
use crate::node::Node;

/// Takes what the manager applied last and applies no longer out of the merged object.
///
/// `last` is the manager's former set, `owned` everything all managers own now.
pub(super) fn prune(node: &Node, merged: &Value, last: &FieldSet, owned: &FieldSet) -> Value {
    let named = |set: &FieldSet| set.with_named_fields(node);
    let last = named(last);
    let all = named(&extract_stored(node, merged));
    let left = |object: &Value| named(&extract_stored(node, object));
    let pruned = remove(node, merged, &last);
    // Others' fields below a removed one come back with all that is above them.
    let pruned = remove(node, merged, &all.difference(&left(&pruned).union(&named(owned))));
    // And what the manager never applied stays.
    remove(node, merged, &all.difference(&left(&pruned)).intersection(&last))
}
