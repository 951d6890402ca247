//! Which resource a path names. Repository names contain slashes, so paths are read from their end.

use crate::name::RepositoryName;

/// A resource of the distribution API; references are not yet checked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Base,
    Catalog,
    Tags(RepositoryName),
    Blob(RepositoryName, String),
    Uploads(RepositoryName),
    Upload(RepositoryName, String),
    Manifest(RepositoryName, String),
    Referrers(RepositoryName, String),
}

/// Why a path names nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RouteError {
    BadName(String),
    Unknown,
}

impl Route {
    pub(crate) fn parse(path: &str) -> Result<Self, RouteError> {
        let rest = match path.strip_prefix("/v2") {
            Some("" | "/") => return Ok(Self::Base),
            Some("/_catalog") => return Ok(Self::Catalog),
            Some(rest) => rest.strip_prefix('/').ok_or(RouteError::Unknown)?,
            None => return Err(RouteError::Unknown),
        };
        let (head, last) = rest.rsplit_once('/').ok_or(RouteError::Unknown)?;
        let named = |name: &str| RepositoryName::parse(name).ok_or_else(|| RouteError::BadName(name.to_owned()));
        if let Some(name) = head.strip_suffix("/blobs/uploads") {
            let name = named(name)?;
            return Ok(if last.is_empty() { Self::Uploads(name) } else { Self::Upload(name, last.to_owned()) });
        }
        let (name, kind) = head.rsplit_once('/').ok_or(RouteError::Unknown)?;
        match (kind, last) {
            ("tags", "list") => Ok(Self::Tags(named(name)?)),
            ("blobs", "uploads") => Ok(Self::Uploads(named(name)?)),
            ("blobs", digest) => Ok(Self::Blob(named(name)?, digest.to_owned())),
            ("manifests", reference) => Ok(Self::Manifest(named(name)?, reference.to_owned())),
            ("referrers", digest) => Ok(Self::Referrers(named(name)?, digest.to_owned())),
            _ => Err(RouteError::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> RepositoryName {
        RepositoryName::parse(text).expect("a good name")
    }

    #[test]
    fn reads_paths_from_their_end() {
        let cases = [
            ("/v2/", Route::Base),
            ("/v2", Route::Base),
            ("/v2/_catalog", Route::Catalog),
            ("/v2/a/b/tags/list", Route::Tags(name("a/b"))),
            ("/v2/a/blobs/uploads/", Route::Uploads(name("a"))),
            ("/v2/a/blobs/uploads", Route::Uploads(name("a"))),
            ("/v2/a/blobs/uploads/x", Route::Upload(name("a"), "x".to_owned())),
            ("/v2/a/blobs/b/blobs/d", Route::Blob(name("a/blobs/b"), "d".to_owned())),
            ("/v2/a/manifests/latest", Route::Manifest(name("a"), "latest".to_owned())),
            ("/v2/a/referrers/d", Route::Referrers(name("a"), "d".to_owned())),
        ];
        for (path, expected) in cases {
            assert_eq!(Route::parse(path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn refuses_other_paths() {
        assert_eq!(Route::parse("/v2/A/tags/list"), Err(RouteError::BadName("A".to_owned())));
        for path in ["/", "/v1/", "/v2x", "/v2/a", "/v2/a/b", "/v2/a/b/c"] {
            assert_eq!(Route::parse(path), Err(RouteError::Unknown), "{path}");
        }
    }
}
