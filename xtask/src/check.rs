//! `cargo xtask check`: cheapest step first.

use crate::shell::{self, cargo};
use crate::{dependencies, generate};

/// Runs every step, stops at the first failure.
pub fn run() -> anyhow::Result<()> {
    shell::run("format", &mut cargo(&["fmt", "--all", "--check"]))?;
    dependencies::check()?;
    shell::run("lints", &mut cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    generate::check()?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet", "--document-private-items"]);
    shell::run("documentation", doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}
