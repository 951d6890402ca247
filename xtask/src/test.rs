//! `cargo xtask test`: the peers that tests run against, then every test.

use std::time::{Duration, Instant};

use crate::cluster::{self, Level};
use crate::image;
use crate::peers;
use crate::shell::{cargo, exists, run as run_step, run_within};

/// Names the archive of the image that tests run on clusters.
const IMAGE: &str = "MODELWAY_TEST_IMAGE";

/// Twice what all tests take on two busy cores: what takes longer hangs, and is told instead of waited for.
const BOUND: Duration = Duration::from_hours(1);

#[derive(clap::Args)]
pub struct Options {
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Tests that miss a peer skip with the reason; with `CI=true` peers are installed first, and nothing may be missing.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    if ci {
        peers::install()?;
    }
    peers::report();
    // Tests build what they miss by themselves; all at once, it is seen what takes the time.
    if options.filter.is_none() && exists("go") {
        cluster::build(Level::Node, true)?;
    }
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--quiet"]);
    if options.filter.is_none() && exists("go") && std::env::var_os(IMAGE).is_none() {
        command.env(IMAGE, image::for_tests()?);
    }
    if ci {
        // A test that misses its peer fails instead of skipping.
        command.env("MODELWAY_REQUIRE_PEERS", "1");
    }
    if let Some(filter) = &options.filter {
        command.arg(filter);
    }
    // Errors tell their causes; where they came from would hide that in a wall of frames.
    command.env("RUST_BACKTRACE", "0");
    let start = Instant::now();
    if ci {
        run_within("tests", &mut command, BOUND)?;
    } else {
        run_step("tests", &mut command)?;
    }
    println!("-- tests ran in {} s", start.elapsed().as_secs());
    Ok(())
}
