//! The kubectl that the tests run: the one named, the one built before, or one built now.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Keep equal to `tests/kubectl/go.mod`: `v1.37.2` is published as module `k8s.io/kubectl v0.37.2`.
const VERSION: &str = "v1.37.2";

/// The path of kubectl, or why there is none.
pub fn kubectl() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("MODELWAY_KUBECTL") {
        let path = PathBuf::from(named);
        return if path.is_file() { Ok(path) } else { Err(format!("MODELWAY_KUBECTL: no file {}", path.display())) };
    }
    let cached = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubectl-{VERSION}"));
    if cached.is_file() {
        return Ok(cached);
    }
    build(&cached)?;
    Ok(cached)
}

fn build(target: &Path) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kubectl");
    // Several test runs may build at once: each its own file, the last one stays.
    let fresh = target.with_extension(std::process::id().to_string());
    let version = "k8s.io/component-base/version";
    let flags = format!("-s -w -X {version}.gitVersion={VERSION} -X {version}.gitMajor=1 -X {version}.gitMinor=37");
    let built = Command::new("go")
        .current_dir(source)
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"])
        .arg(&fresh)
        .arg(".")
        .output()
        .map_err(|error| format!("no MODELWAY_KUBECTL, and Go does not start: {error}"))?;
    if !built.status.success() {
        return Err(format!("kubectl does not build: {}", String::from_utf8_lossy(&built.stderr)));
    }
    std::fs::rename(&fresh, target).map_err(|error| format!("cannot keep the built kubectl: {error}"))
}
