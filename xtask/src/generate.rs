//! `cargo xtask generate`: files that are made from code, and the check that they are up to date.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{builtin_schemas, rbac, shell};

/// Kubernetes release whose `OpenAPI` the embedded API serves for built-in kinds.
const KUBERNETES: &str = "k8s.io/kubernetes@v1.37.2";

#[derive(clap::Args)]
pub struct Options {
    /// Also the schemas of built-in kinds, from the Go module of Kubernetes (needs Go and its module proxy).
    #[arg(long)]
    builtin_schemas: bool,
}

/// Writes the generated files.
pub fn run(options: &Options) -> anyhow::Result<()> {
    for (path, text) in files() {
        let folder = path.parent().context("a generated file lies in a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    if options.builtin_schemas {
        let out = shell::root().join("local/apiserver/src/builtin/schemas");
        builtin_schemas::generate(&kubernetes_module()?, &out)?;
        println!("wrote {}", out.display());
    }
    Ok(())
}

/// Fails when a generated file differs from what would be generated.
pub fn check() -> anyhow::Result<()> {
    println!("== generated files");
    let stale: Vec<String> = files()
        .into_iter()
        .filter(|(path, text)| std::fs::read_to_string(path).ok().as_ref() != Some(text))
        .map(|(path, _)| path.display().to_string())
        .collect();
    if !stale.is_empty() {
        bail!("out of date: {}; run: cargo xtask generate", stale.join(", "));
    }
    Ok(())
}

fn files() -> Vec<(PathBuf, String)> {
    let chart = shell::root().join("charts/modelway");
    let crds = modelway_api::crd_yaml().into_iter();
    let mut files: Vec<_> = crds.map(|(name, text)| (chart.join("files/crds").join(Path::new(&name)), text)).collect();
    files.push((chart.join("templates/_rules.tpl"), rbac::template()));
    files
}

fn kubernetes_module() -> anyhow::Result<PathBuf> {
    let answer = shell::output(Command::new("go").args(["mod", "download", "-json", KUBERNETES]))?;
    let module: serde_json::Value = serde_json::from_slice(&answer)?;
    module["Dir"].as_str().map(PathBuf::from).with_context(|| format!("go told no folder for {KUBERNETES}"))
}
