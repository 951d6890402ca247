//! The kubectl that the tests run: the one named, or the one of the test clusters, built by the first that asks.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

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
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster/build.sh");
    let built = Command::new(&script)
        .arg("kube")
        .output()
        .map_err(|error| format!("no MODELWAY_KUBECTL, and {} does not start: {error}", script.display()))?;
    if !built.status.success() {
        return Err(format!("no MODELWAY_KUBECTL, and {}", String::from_utf8_lossy(&built.stderr).trim()));
    }
    Ok(Path::new(String::from_utf8_lossy(&built.stdout).trim()).join("kubectl"))
}
