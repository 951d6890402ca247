//! Names that may be published, and names that give a secret away.

/// Longest path; tar readers and file systems agree up to here.
const MAX_PATH: usize = 1024;

/// The rule that a single name breaks, if any.
pub(super) fn broken_rule(name: &str) -> Option<&'static str> {
    if name.chars().any(char::is_control) {
        return Some("the name has control characters");
    }
    if name.starts_with(".wh.") {
        return Some("names that start with .wh. mean deletion in image layers");
    }
    if name.contains('\\') {
        return Some("the name has a backslash");
    }
    None
}

/// The rule that a whole path breaks, if any.
pub(super) fn broken_path_rule(path: &str) -> Option<&'static str> {
    (path.len() > MAX_PATH).then_some("the path is longer than 1024 bytes")
}

/// The rule by which a name looks like a secret, if any.
pub(super) fn secret_rule(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let ends = |suffix: &str| lower.ends_with(suffix);
    match lower.as_str() {
        ".env" => Some("environment file"),
        ".netrc" | "_netrc" => Some("netrc credentials"),
        ".git" => Some("git folder, which may hold credentials"),
        ".aws" | ".ssh" | ".kube" | ".gnupg" | ".docker" => Some("folder of credentials"),
        ".dockerconfigjson" | ".dockercfg" => Some("registry credentials"),
        ".pypirc" | ".npmrc" | ".pgpass" => Some("package or database credentials"),
        "kubeconfig" => Some("kubeconfig"),
        "id_rsa" | "id_dsa" | "id_ecdsa" | "id_ed25519" => Some("private SSH key"),
        _ if lower.starts_with(".env.") => Some("environment file"),
        _ if ends(".pem") || ends(".p12") || ends(".pfx") => Some("key or certificate file"),
        _ if ends(".kubeconfig") => Some("kubeconfig"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_secret_names() {
        for bad in [".env", ".env.production", "server.PEM", "id_ed25519", ".git", "kubeconfig", ".netrc"] {
            assert!(secret_rule(bad).is_some(), "{bad}");
        }
        for good in ["model.onnx", "environment.yaml", "id_map.json", ".gitattributes", "pem.json"] {
            assert!(secret_rule(good).is_none(), "{good}");
        }
    }

    #[test]
    fn refuses_names_that_images_cannot_hold() {
        assert!(broken_rule(".wh.model").is_some() && broken_rule("a\nb").is_some() && broken_rule("a\\b").is_some());
        assert!(broken_rule("Modell größer.onnx").is_none());
    }
}
