//! Which repositories there are.

use std::io;
use std::path::Path;

use super::{Store, names_in};
use crate::name::RepositoryName;

impl Store {
    /// Names of all repositories, sorted.
    pub(crate) fn repositories(&self) -> io::Result<Vec<RepositoryName>> {
        let mut found = Vec::new();
        collect(&self.repositories_dir(), "", &mut found)?;
        found.sort_unstable();
        Ok(found.iter().filter_map(|name| RepositoryName::parse(name)).collect())
    }
}

fn collect(dir: &Path, name: &str, found: &mut Vec<String>) -> io::Result<()> {
    let entries = names_in(dir)?;
    if !name.is_empty() && entries.iter().any(|entry| matches!(entry.as_str(), "_blobs" | "_manifests" | "_tags")) {
        found.push(name.to_owned());
    }
    for entry in entries.iter().filter(|entry| !entry.starts_with('_')) {
        let inner = if name.is_empty() { entry.clone() } else { format!("{name}/{entry}") };
        let path = dir.join(entry);
        // A repository name has at most 255 characters, so this cannot go deep.
        if path.is_dir() && inner.len() <= 255 {
            collect(&path, &inner, found)?;
        }
    }
    Ok(())
}
