//! Request paths: `/api/v1/...` and `/apis/GROUP/VERSION/...` read into a target.

/// What a path points at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

impl Target {
    /// `None` when the path is not one of resources. Segments are already free of percent escapes in any valid name.
    pub fn parse(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let mut target = Self { group: group.to_owned(), version: version.to_owned(), ..Self::default() };
        let rest = match rest {
            // `/namespaces/x` and its own subresources are about the namespace itself.
            ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => rest,
            ["namespaces", namespace, rest @ ..] => {
                target.namespace = Some((*namespace).to_owned());
                rest
            }
            rest => rest,
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource] => (plural, Some(name), Some(subresource)),
            _ => return None,
        };
        let owned = |segment: &&str| (*segment).to_owned();
        Some(Self { plural: owned(plural), name: name.map(owned), subresource: subresource.map(owned), ..target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> (String, Option<String>, String, Option<String>, Option<String>) {
        let target = Target::parse(path).unwrap();
        (target.group, target.namespace, target.plural, target.name, target.subresource)
    }

    #[test]
    fn tells_a_namespace_from_what_is_in_it() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("/api/v1/namespaces/a"), (String::new(), None, "namespaces".into(), some("a"), None));
        assert_eq!(
            parts("/api/v1/namespaces/a/status"),
            (String::new(), None, "namespaces".into(), some("a"), some("status"))
        );
        assert_eq!(
            parts("/apis/apps/v1/namespaces/a/deployments/b/scale"),
            ("apps".into(), some("a"), "deployments".into(), some("b"), some("scale"))
        );
        assert_eq!(parts("/apis/apps/v1/deployments"), ("apps".into(), None, "deployments".into(), None, None));
        assert!(Target::parse("/apis/apps/v1").is_none());
        assert!(Target::parse("/api/v1/namespaces/a/pods/b/c/d").is_none());
    }
}
