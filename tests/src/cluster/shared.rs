//! One cluster of each level for all tests of a process: a start costs seconds.

use tokio::sync::OnceCell;

use super::{Cluster, Error, Level, Options};

/// Where this is set, a cluster that cannot be had is a failure.
const REQUIRE: &str = "MODELWAY_REQUIRE_PEERS";

/// The cluster of that level; where there can be none, says why the test is skipped. It ends with the process.
pub async fn shared(level: Level) -> Option<&'static Cluster> {
    static API: OnceCell<Result<Cluster, Error>> = OnceCell::const_new();
    static CONTROL: OnceCell<Result<Cluster, Error>> = OnceCell::const_new();
    static NODE: OnceCell<Result<Cluster, Error>> = OnceCell::const_new();
    let cell = match level {
        Level::Api => &API,
        Level::Control => &CONTROL,
        Level::Node => &NODE,
    };
    skip(cell.get_or_init(|| Cluster::start(level)).await.as_ref())
}

/// A cluster of one test alone, for what others would notice.
pub async fn own(options: impl Into<Options>) -> Option<Cluster> {
    let started = Cluster::start(options).await;
    skip(started.as_ref())?;
    started.ok()
}

#[expect(clippy::print_stderr, clippy::panic, reason = "a test that is skipped says why, one that may not fails")]
fn skip<'a>(started: Result<&'a Cluster, &Error>) -> Option<&'a Cluster> {
    match started {
        Ok(cluster) => Some(cluster),
        Err(error @ Error::Missing(_)) if std::env::var_os(REQUIRE).is_none() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
