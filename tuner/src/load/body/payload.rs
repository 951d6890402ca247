//! Bodies of requests, by their number.

use std::path::Path;

use super::{Filling, Table, Template};
use crate::load::LoadError;
use crate::load::units::index;

/// Bytes that all files of a folder may have together.
const MAX_BYTES: u64 = 1 << 30;

/// Where the body of a request comes from.
#[derive(Clone, Debug)]
pub enum Payload {
    /// No body.
    Empty,
    /// A text with placeholders.
    Template(Template),
    /// Several bodies, in turn; at least one.
    Several(Vec<Vec<u8>>),
}

impl Payload {
    /// Several bodies, in turn.
    pub fn several(bodies: Vec<Vec<u8>>) -> Result<Self, LoadError> {
        if bodies.is_empty() {
            return Err(LoadError::Input("there is no body to send".to_owned()));
        }
        Ok(Self::Several(bodies))
    }

    /// Every file of a folder is a body, in the order of their names; folders in it and hidden files are left out.
    pub fn folder(path: &Path) -> Result<Self, LoadError> {
        let entries = std::fs::read_dir(path).map_err(|source| LoadError::file(path, &source))?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| is_body(path)).collect();
        files.sort();
        let mut left = MAX_BYTES;
        let mut bodies = Vec::new();
        for file in &files {
            let length = std::fs::metadata(file).map_err(|source| LoadError::file(file, &source))?.len();
            left = left.checked_sub(length).ok_or_else(|| {
                LoadError::Input(format!("{}: its files have more than {} MiB", path.display(), MAX_BYTES >> 20))
            })?;
            bodies.push(std::fs::read(file).map_err(|source| LoadError::file(file, &source))?);
        }
        Self::several(bodies).map_err(|_| LoadError::Input(format!("{}: has no files", path.display())))
    }

    /// Whether every request has the same body.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Template(template) => template.is_fixed(),
            Self::Several(bodies) => bodies.len() == 1,
        }
    }

    /// Appends the body of request `sequence`.
    pub fn fill(&self, sequence: u64, seed: u64, table: Option<&Table>, into: &mut Vec<u8>) {
        match self {
            Self::Empty => {}
            Self::Template(template) => template.fill(sequence, seed, table, Filling::Body, into),
            Self::Several(bodies) => into.extend_from_slice(&bodies[index(sequence % bodies.len() as u64)]),
        }
    }
}

fn is_body(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    path.is_file() && !hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_folder_take_turns_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b", "two"), ("a", "one"), (".hidden", "no")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::create_dir(folder.path().join("c")).unwrap();
        let payload = Payload::folder(folder.path()).unwrap();
        let body = |sequence| {
            let mut bytes = Vec::new();
            payload.fill(sequence, 1, None, &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!([body(0), body(1), body(2)], ["one", "two", "one"]);
    }

    #[test]
    fn an_empty_or_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Payload::folder(folder.path()).unwrap_err().to_string().contains("has no files"));
        assert!(Payload::folder(&folder.path().join("gone")).unwrap_err().to_string().contains("gone"));
    }
}
