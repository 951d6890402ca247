//! Field paths as Kubernetes prints them.

use std::fmt::Write as _;

/// The path of a field below `parent`.
pub(crate) fn field(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// The path of a map's value below `parent`.
pub(crate) fn key(parent: &str, name: &str) -> String {
    format!("{parent}[{name}]")
}

/// The path of a list's element below `parent`.
pub(crate) fn index(parent: &str, index: usize) -> String {
    let mut path = parent.to_owned();
    // Writing to a string cannot fail.
    let _ = write!(path, "[{index}]");
    path
}

/// The word for a path in an error: the whole object has none.
pub(crate) fn shown(path: &str) -> String {
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}
