//! `cargo xtask image`: Modelway's container image, FROM scratch around the static binary, without Docker.

mod archive;
mod binary;
mod root_files;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::shell::root;

/// How the binary is built.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Profile {
    /// Quick to build, slow to run, not compressed.
    Dev,
    Release,
}

#[derive(clap::Args)]
pub struct Options {
    /// How the binary is built.
    #[arg(long, value_enum, default_value = "release")]
    profile: Profile,
    /// Archive to write. [default: target/image/modelway.tar]
    #[arg(long)]
    output: Option<PathBuf>,
    /// Name and tag that the archive's image is imported under.
    #[arg(long, default_value = modelway_api::IMAGE)]
    name: String,
    /// Pack this static executable instead of building one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Builds, packs, and prints what came out.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let output = options.output.clone().unwrap_or_else(|| root().join("target/image/modelway.tar"));
    make(options.profile, options.binary.as_deref(), &options.name, &output)
}

/// The image that tests run on clusters.
pub fn for_tests() -> anyhow::Result<PathBuf> {
    let output = root().join("target/image/modelway-dev.tar");
    make(Profile::Dev, None, modelway_api::IMAGE, &output)?;
    Ok(output)
}

fn make(profile: Profile, given: Option<&Path>, name: &str, output: &Path) -> anyhow::Result<()> {
    let built = match given {
        Some(given) => given.to_owned(),
        None => binary::build(profile)?,
    };
    let bytes = std::fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    let image = pack(&bytes, profile, name).with_context(|| built.display().to_string())?;
    write(output, &image.archive)?;
    println!("image    {name}");
    println!("digest   {}", image.digest);
    println!("size     {:.1} MB compressed", image.compressed as f64 / 1e6);
    println!("archive  {}", output.display());
    Ok(())
}

fn pack(binary: &[u8], profile: Profile, name: &str) -> anyhow::Result<archive::Image> {
    let architecture = binary::architecture(binary)?;
    let level = match profile {
        // Stored: packing must not take longer than building.
        Profile::Dev => flate2::Compression::none(),
        Profile::Release => flate2::Compression::best(),
    };
    let Some((repository, tag)) = name.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) else {
        bail!("--name {name} has no tag: give a name such as {}", modelway_api::IMAGE);
    };
    archive::pack(&root_files::files(binary), architecture, level, repository, tag)
}

/// Never half an archive under the final name.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let temporary = path.with_extension("partial");
    std::fs::write(&temporary, bytes).with_context(|| format!("cannot write {}", temporary.display()))?;
    std::fs::rename(&temporary, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_a_tag() {
        let binary = binary::tests::executable(None);
        assert!(pack(&binary, Profile::Dev, "modelway").is_err());
        assert!(pack(&binary, Profile::Dev, "127.0.0.1:5000/modelway").is_err());
        assert!(pack(&binary, Profile::Dev, "127.0.0.1:5000/modelway:1").is_ok());
    }

    #[test]
    fn what_is_no_static_executable_is_refused() {
        assert!(pack(b"#!/bin/sh", Profile::Dev, "modelway:1").is_err());
        let dynamic = binary::tests::executable(Some("/lib64/ld-linux-x86-64.so.2"));
        let error = pack(&dynamic, Profile::Dev, "modelway:1").err().unwrap().to_string();
        assert!(error.contains("ld-linux"), "{error}");
    }
}
