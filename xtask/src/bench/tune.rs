//! `cargo xtask bench tune`: trials until the optimum on tables whose optimum is known, against rivals.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::grid::grid;
use crate::shell::{cargo, root, run};

/// Optimisers from `PyPI`; Optuna's Gaussian process runs too where torch is at hand.
const RIVALS: &[&str] = &["numpy", "scipy", "optuna", "scikit-optimize"];

#[derive(clap::Args)]
pub struct Options {
    /// Searches for each task.
    #[arg(long, default_value_t = 15)]
    seeds: u32,
    /// Also runs Optuna and scikit-optimize, in a virtual environment under target/.
    #[arg(long)]
    rivals: bool,
    /// Searches for each task with those; they are slow.
    #[arg(long, default_value_t = 3)]
    rival_seeds: u32,
    /// Folder with llm-pilot.csv and inference-lab/.
    #[arg(long, env = "MODELWAY_TUNE_DATA")]
    data: Option<PathBuf>,
    /// Instead of tables: measures a real service at every candidate, then searches it. Takes half an hour.
    #[arg(long)]
    grid: bool,
    /// How often the grid is measured.
    #[arg(long, default_value_t = 2, requires = "grid")]
    passes: u32,
    /// Searches of the real service.
    #[arg(long, default_value_t = 10, requires = "grid")]
    searches: u32,
    /// Keeps the grid for the tests.
    #[arg(long, requires = "grid")]
    store: bool,
}

/// Prints the table; writes target/bench/tune.json and tune.txt.
pub fn tune(options: &Options) -> anyhow::Result<()> {
    if options.grid {
        return grid(options.passes, options.searches, options.store);
    }
    let data = options.data.clone().unwrap_or_else(|| root().join("tests/data/tune"));
    let out = root().join("target/bench");
    let mut bench = cargo(&["run", "--release", "--quiet", "--package", "modelway-tune", "--example", "bench", "--"]);
    bench.arg("--data").arg(data).arg("--out").arg(&out);
    bench.args(["--seeds", &options.seeds.to_string(), "--rival-seeds", &options.rival_seeds.to_string()]);
    if options.rivals {
        bench.arg("--python").arg(environment(&out)?);
    }
    run("tuner against its rivals", &mut bench)
}

/// A virtual environment with the rivals; made once. Answers its interpreter.
fn environment(out: &Path) -> anyhow::Result<PathBuf> {
    let folder = out.join("tune-rivals");
    let python = folder.join("bin/python");
    if !python.exists() {
        run("virtual environment", Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    run("rivals from PyPI", Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(RIVALS))?;
    Ok(python)
}
