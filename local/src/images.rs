//! Images of this platform's own registry, also under the addresses that it had before.
//!
//! An image is named by its registry's address. When the port changes (it was taken, or the user wants another), what
//! was published under the old one must still be found: the digest says that it is the same.

use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use modelway_node::images::{ImageSource, OciSource, PullError};

/// Pulls from the registry's present address what names a former one.
#[derive(Clone, Debug)]
pub struct OwnRegistry {
    former: Vec<String>,
    present: String,
}

impl OwnRegistry {
    /// `former` and `present` are ports of 127.0.0.1.
    pub fn new(former: &[u16], present: u16) -> Self {
        let address = |port: &u16| format!("127.0.0.1:{port}");
        Self { former: former.iter().map(address).collect(), present: address(&present) }
    }

    fn present_name(&self, reference: &str) -> String {
        match reference.split_once('/') {
            Some((host, rest)) if self.former.iter().any(|former| former == host) => format!("{}/{rest}", self.present),
            _ => reference.to_owned(),
        }
    }
}

impl ImageSource for OwnRegistry {
    fn pull<'a>(
        &'a self,
        reference: &'a str,
        cache: &'a Path,
        plain_http: bool,
    ) -> BoxFuture<'a, Result<PathBuf, PullError>> {
        Box::pin(async move { OciSource.pull(&self.present_name(reference), cache, plain_http).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_addresses_of_the_own_registry_are_found_at_the_present_one() {
        let images = OwnRegistry::new(&[5000, 6000], 7000);
        assert_eq!(images.present_name("127.0.0.1:6000/default/a@sha256:0"), "127.0.0.1:7000/default/a@sha256:0");
        for other in ["127.0.0.1:7000/a:1", "example.com/127.0.0.1:5000/a", "127.0.0.1:60001/a", "a"] {
            assert_eq!(images.present_name(other), other);
        }
    }
}
