//! `digits-train`: trains one variant into a folder.

use std::path::PathBuf;

use clap::Parser;

/// Trains a classifier of handwritten digits and writes model.onnx and metrics.json.
#[derive(Parser)]
struct Arguments {
    /// Which classifier.
    #[arg(long, value_enum)]
    variant: modelway_digits::Variant,
    /// Folder to write to.
    #[arg(long, env = "OUTPUT_DIR")]
    output: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let report = modelway_digits::train(arguments.variant, &arguments.output)?;
    #[expect(clippy::print_stdout, reason = "the program's one line of output")]
    {
        println!("accuracy {:.4} on held-out images, {} parameters", report.accuracy, report.parameters);
    }
    Ok(())
}
