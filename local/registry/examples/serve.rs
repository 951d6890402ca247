//! Serves a registry alone: `serve <folder> [--sparse]`, and says on the first line of its output where.
//!
//! The conformance script runs this; `--sparse` accepts manifests whose content is not all here.

use std::io::Write;
use std::path::PathBuf;

use modelway_registry::{Options, Registry};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("usage: serve <folder> [--sparse]")?);
    let sparse = arguments.next().is_some_and(|argument| argument == "--sparse");
    let registry = Registry::open_with(dir, Options { require_content: !sparse, ..Options::default() })?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let stop = CancellationToken::new();
    registry.serve(listener, stop).await?;
    Ok(())
}
