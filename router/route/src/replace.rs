//! Whether a new document may replace the one in force.

use thiserror::Error;

/// Identity of a document: generations compare within one UID.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// UID of the object; empty for a file.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
}

/// An older document than the one in force.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("generation {offered} is older than {in_force}, which is in force; generations only grow")]
pub struct OlderGeneration {
    /// The refused one.
    pub offered: i64,
    /// The one kept.
    pub in_force: i64,
}

/// Refuses an older generation of the same object.
pub fn check(in_force: Option<&Identity>, offered: &Identity) -> Result<(), OlderGeneration> {
    match in_force {
        Some(known) if known.uid == offered.uid && offered.generation < known.generation => {
            Err(OlderGeneration { offered: offered.generation, in_force: known.generation })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_an_older_generation_within_one_uid_only() {
        let identity = |uid: &str, generation| Identity { uid: uid.into(), generation };
        assert!(check(None, &identity("a", 1)).is_ok());
        assert!(check(Some(&identity("a", 2)), &identity("a", 2)).is_ok());
        assert!(check(Some(&identity("a", 2)), &identity("a", 3)).is_ok());
        assert!(check(Some(&identity("a", 2)), &identity("b", 1)).is_ok());
        let refused = check(Some(&identity("a", 2)), &identity("a", 1)).unwrap_err();
        assert_eq!(refused, OlderGeneration { offered: 1, in_force: 2 });
    }
}
