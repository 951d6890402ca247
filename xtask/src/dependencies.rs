//! Rules over `cargo metadata`: licences, sources, the arrows between our crates, what pure crates may use, unused ones.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde::Deserialize;

use crate::shell::{cargo, output, root};

/// Licences that may be linked into an Apache-2.0 binary without asking.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "CC0-1.0",
    "Unlicense",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "MPL-2.0",
    "WTFPL",
];

/// Crates that decide: nothing that does I/O may be among their dependencies.
const PURE: &[&str] = &["modelway-api", "modelway-plan", "modelway-route", "modelway-schema", "modelway-tune"];
const EFFECTS: &[&str] =
    &["tokio", "hyper", "hyper-util", "axum", "reqwest", "kube-client", "rusqlite", "rustix", "libc"];

/// For each of our crates, the ones of ours that it may name.
const ARROWS: &[(&str, &[&str])] = &[
    ("modelway-api", &[]),
    ("modelway-plan", &["modelway-api", "modelway-tune"]),
    ("modelway-controller", &["modelway-api", "modelway-plan", "modelway-tune", "modelway-tuner"]),
    ("modelway-route", &["modelway-api"]),
    ("modelway-router", &["modelway-api", "modelway-route"]),
    ("modelway-oci", &[]),
    ("modelway-runtime", &[]),
    ("modelway-digits", &[]),
    ("modelway-tune", &[]),
    ("modelway-tuner", &["modelway-tune"]),
    ("modelway-schema", &[]),
    ("modelway-apiserver", &["modelway-schema"]),
    ("modelway-registry", &[]),
    ("modelway-node", &["modelway-oci"]),
    ("modelway-workloads", &[]),
    (
        "modelway-local",
        &[
            "modelway-api",
            "modelway-apiserver",
            "modelway-node",
            "modelway-oci",
            "modelway-registry",
            "modelway-workloads",
        ],
    ),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    license_file: Option<String>,
    source: Option<String>,
    manifest_path: std::path::PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    rename: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    features: Vec<String>,
}

/// Fails with every broken rule at once.
pub fn check() -> anyhow::Result<()> {
    println!("== dependency rules");
    let metadata: Metadata =
        serde_json::from_slice(&output(&mut cargo(&["metadata", "--format-version", "1", "--locked"]))?)?;
    let mut broken = Vec::new();
    for package in &metadata.packages {
        licence(package, &mut broken);
        if package.source.is_none() {
            arrows(package, &mut broken);
            pure(package, &mut broken);
            unused(package, &mut broken)?;
        }
    }
    described(&metadata, &mut broken)?;
    if !broken.is_empty() {
        bail!("dependency rules:\n  {}", broken.join("\n  "));
    }
    Ok(())
}

fn licence(package: &Package, broken: &mut Vec<String>) {
    if package.source.as_deref().is_some_and(|source| !source.starts_with("registry+")) {
        broken.push(format!("{} {} does not come from the registry", package.name, package.version));
    }
    let Some(expression) = &package.license else {
        if package.license_file.is_none() {
            broken.push(format!("{} {} names no licence", package.name, package.version));
        }
        return;
    };
    let choices = expression.replace(" / ", " OR ").replace('/', " OR ");
    let allowed = choices.split(" OR ").any(|choice| {
        choice.split(" AND ").all(|part| LICENCES.contains(&part.trim_matches(|c| c == '(' || c == ')' || c == ' ')))
    });
    if !allowed {
        broken.push(format!("{} {}: licence {expression} is not on the list", package.name, package.version));
    }
}

fn normal(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.kind.is_none())
}

fn arrows(package: &Package, broken: &mut Vec<String>) {
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else { return };
    for dependency in normal(package).filter(|dependency| dependency.name.starts_with("modelway")) {
        if !allowed.contains(&dependency.name.as_str()) {
            broken.push(format!("{} must not depend on {}", package.name, dependency.name));
        }
    }
}

fn pure(package: &Package, broken: &mut Vec<String>) {
    if !PURE.contains(&package.name.as_str()) {
        return;
    }
    for dependency in normal(package) {
        let client = dependency.name == "kube" && dependency.features.iter().any(|feature| feature == "client");
        if client || EFFECTS.contains(&dependency.name.as_str()) {
            broken.push(format!("{} decides; it must not depend on {}", package.name, dependency.name));
        }
    }
}

/// A dependency whose name stands in no source file of the crate.
fn unused(package: &Package, broken: &mut Vec<String>) -> anyhow::Result<()> {
    let folder = package.manifest_path.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
    let mut sources = String::new();
    for part in ["src", "tests", "benches", "examples"] {
        read_sources(&folder.join(part), &mut sources)?;
    }
    for dependency in &package.dependencies {
        let name = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
        if !sources.contains(&name) {
            broken.push(format!("{} does not use {}", package.name, dependency.name));
        }
    }
    Ok(())
}

fn read_sources(folder: &std::path::Path, into: &mut String) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(&path, into)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

/// Each external dependency that we name has its line in docs/decisions/dependencies.md.
fn described(metadata: &Metadata, broken: &mut Vec<String>) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root().join("docs/decisions/dependencies.md"))?;
    let listed: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let ours: BTreeMap<&str, &Package> = metadata
        .packages
        .iter()
        .filter(|package| package.source.is_none())
        .map(|package| (package.name.as_str(), package))
        .collect();
    let named: BTreeSet<&str> =
        ours.values().flat_map(|package| &package.dependencies).map(|dependency| dependency.name.as_str()).collect();
    for name in named.iter().filter(|name| !ours.contains_key(**name) && !listed.contains(**name)) {
        broken.push(format!("{name} has no line in docs/decisions/dependencies.md"));
    }
    for name in listed.iter().filter(|name| !named.contains(**name)) {
        broken.push(format!("docs/decisions/dependencies.md lists {name}, which no crate uses"));
    }
    Ok(())
}
