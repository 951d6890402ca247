//! The bound on nesting: deeper values are refused before any recursion walks them.

use serde_json::Value;

/// `serde_json` reads at most 127 levels, so a deeper object could be stored but never read again.
pub(crate) const MAX_VALUE_DEPTH: usize = 120;

/// The bound on the nesting of schemas.
pub(crate) const MAX_SCHEMA_DEPTH: usize = 64;

/// Whether the value nests deeper than [`MAX_VALUE_DEPTH`].
pub(crate) fn too_deep(value: &Value) -> bool {
    deeper_than(value, MAX_VALUE_DEPTH)
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Object(map) => map.values().any(|child| deeper_than(child, below)),
        Value::Array(list) => list.iter().any(|child| deeper_than(child, below)),
        _ => false,
    }
}
