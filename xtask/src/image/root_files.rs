//! What lies in the image besides the binary.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};

/// User and group that the image runs as.
pub const USER: u32 = 65_532;

/// One entry of the image's file system.
pub struct Entry<'a> {
    /// Without a leading slash.
    pub path: &'static str,
    pub mode: u32,
    /// `None` for a folder.
    pub content: Option<Cow<'a, [u8]>>,
}

/// Every entry, folders before what is in them.
pub fn files(binary: &[u8]) -> Vec<Entry<'_>> {
    let folder = |path, mode| Entry { path, mode, content: None };
    let file = |path, text: String| Entry { path, mode: 0o644, content: Some(text.into_bytes().into()) };
    vec![
        folder("etc/", 0o755),
        file("etc/group", format!("root:x:0:\nnonroot:x:{USER}:\n")),
        // Without it glibc asks for services that a static program cannot load.
        file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        file(
            "etc/passwd",
            format!("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n"),
        ),
        folder("etc/ssl/", 0o755),
        folder("etc/ssl/certs/", 0o755),
        file("etc/ssl/certs/ca-certificates.crt", certificates()),
        Entry { path: "modelway", mode: 0o755, content: Some(binary.into()) },
        folder("tmp/", 0o1777),
    ]
}

/// The certificate authorities that Mozilla trusts, for registries with public certificates.
fn certificates() -> String {
    let mut pem = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let text = STANDARD.encode(certificate.as_ref());
        pem.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in text.as_bytes().chunks(64) {
            pem.push_str(&String::from_utf8_lossy(line));
            pem.push('\n');
        }
        pem.push_str("-----END CERTIFICATE-----\n");
    }
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_their_files() {
        let mut seen = std::collections::BTreeSet::from([""]);
        for entry in files(b"") {
            let trimmed = entry.path.trim_end_matches('/');
            let parent = trimmed.rsplit_once('/').map_or("", |(parent, _)| parent);
            assert!(seen.contains(parent), "{} before its folder", entry.path);
            seen.insert(trimmed);
        }
    }

    #[test]
    fn certificates_are_many_and_in_lines() {
        let pem = certificates();
        assert!(pem.matches("BEGIN CERTIFICATE").count() > 50);
        assert!(pem.lines().all(|line| line.len() <= 64));
    }
}
