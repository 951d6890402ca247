//! Paths inside a container, turned into the real folders of a process that has no mount namespace.

use std::path::{Path, PathBuf};

/// Rewrites mount paths wherever they stand as a whole path or as the first components of one.
#[derive(Debug, Clone, Default)]
pub struct Rewriter {
    /// Longest mount path first.
    mounts: Vec<(String, String)>,
    /// Real paths below this are never rewritten a second time.
    protected: Option<String>,
}

impl Rewriter {
    /// `mounts` are pairs of the path in the container and the real path.
    pub fn new(mounts: impl IntoIterator<Item = (String, PathBuf)>, protected: &Path) -> Self {
        let mut mounts: Vec<(String, String)> = mounts
            .into_iter()
            .map(|(mount, real)| (mount.trim_end_matches('/').to_owned(), real.display().to_string()))
            .filter(|(mount, _)| mount.len() > 1 && mount.starts_with('/'))
            .collect();
        mounts.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        let protected = protected.display().to_string();
        Self { mounts, protected: (protected.len() > 1).then_some(protected) }
    }

    /// `text` with every mount path replaced.
    pub fn rewrite(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut before) = (text, None);
        while let Some(at) = rest.find('/') {
            out.push_str(&rest[..at]);
            before = rest[..at].chars().next_back().or(before);
            rest = &rest[at..];
            let (taken, written) = self.replacement(before, rest).unwrap_or((1, "/"));
            out.push_str(written);
            before = rest[..taken].chars().next_back();
            rest = &rest[taken..];
        }
        out.push_str(rest);
        out
    }

    /// How many bytes at the front of `rest` to replace, and by what.
    fn replacement<'a>(&'a self, before: Option<char>, rest: &str) -> Option<(usize, &'a str)> {
        if before.is_some_and(in_path) {
            return None;
        }
        let starts =
            |path: &str| rest.strip_prefix(path).is_some_and(|after| !after.chars().next().is_some_and(in_name));
        if let Some(path) = self.protected.as_deref().filter(|path| starts(path)) {
            return Some((path.len(), path));
        }
        self.mounts.iter().find(|(mount, _)| starts(mount)).map(|(mount, real)| (mount.len(), real.as_str()))
    }
}

/// Characters that continue a file name.
fn in_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '-' | '_' | '.')
}

/// Characters after which a slash does not begin a path.
fn in_path(character: char) -> bool {
    in_name(character) || matches!(character, '/' | '}' | ')' | '~')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rewriter() -> Rewriter {
        let mounts = [("/out", "/data/v/out"), ("/out/deep", "/data/v/deep"), ("/data", "/data/v/data"), ("/", "/bad")];
        Rewriter::new(mounts.map(|(mount, real)| (mount.to_owned(), real.into())), Path::new("/data/v"))
    }

    #[test]
    fn rewrites_at_component_boundaries_only() {
        for (text, expected) in [
            ("/out", "/data/v/out"),
            ("/out/", "/data/v/out/"),
            ("/out/x", "/data/v/out/x"),
            ("/out/deep/x", "/data/v/deep/x"),
            ("/out/deeper", "/data/v/out/deeper"),
            ("/output", "/output"),
            ("/out.txt", "/out.txt"),
            ("/home/out", "/home/out"),
            ("./out", "./out"),
            ("$HOME/out ${HOME}/out", "$HOME/out ${HOME}/out"),
            ("--dir=/out", "--dir=/data/v/out"),
            ("/bin:/out:/out/x", "/bin:/data/v/out:/data/v/out/x"),
            ("echo hi > /out/x; cat '/out/x'", "echo hi > /data/v/out/x; cat '/data/v/out/x'"),
            ("http://out/out", "http://out/out"),
            ("/data/x", "/data/v/data/x"),
            ("/data/v/out/x", "/data/v/out/x"),
            ("", ""),
        ] {
            assert_eq!(rewriter().rewrite(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn leaves_text_without_slashes_alone(text in "[^/]*") {
            prop_assert_eq!(rewriter().rewrite(&text), text);
        }

        #[test]
        fn rewrites_below_a_mount_whatever_follows(tail in "(/[a-z]{1,5}){0,4}") {
            prop_assume!(!format!("{tail}/").starts_with("/deep/"));
            prop_assert_eq!(rewriter().rewrite(&format!("/out{tail}")), format!("/data/v/out{tail}"));
        }

        #[test]
        fn does_nothing_twice(text in "[a-z=: ]{0,5}/(out|deep|bin)(/[a-z]{1,4}){0,3}") {
            let once = rewriter().rewrite(&text);
            prop_assert_eq!(rewriter().rewrite(&once), once);
        }
    }
}
