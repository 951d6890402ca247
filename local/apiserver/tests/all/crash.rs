//! kill -9 while writing: what was acknowledged is there after reopening.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use modelway_apiserver::store::{Change, Key, Store, Write};
use serde_json::json;

const CHILD: &str = "MODELWAY_STORE_CRASH_CHILD";
const NEEDED: usize = 200;

fn put(name: &str) -> Write {
    let value = json!({"metadata": {"name": name, "uid": name}});
    Write { key: Key::new("configmaps", "a", name), expected: None, change: Change::Put(value), within: None }
}

/// The victim: writes as fast as it can and says each name once its write is acknowledged. Does nothing in a plain run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_writes_until_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = Store::open(Path::new(&path), Vec::new()).unwrap();
    let tasks = (0..8).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..100_000 {
                let name = format!("t{task}-{number}");
                let revision = store.write(put(&name)).await.unwrap().revision;
                let mut out = std::io::stdout().lock();
                writeln!(out, "ack {name} {revision}").unwrap();
                out.flush().unwrap();
            }
        })
    });
    futures::future::join_all(tasks).await;
}

#[test]
fn every_acknowledged_write_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_writes_until_killed", "--nocapture"])
        .env(CHILD, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    while acknowledged.len() < NEEDED {
        acknowledged.extend(lines.next().unwrap().ok().as_deref().and_then(parse));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What was still in the pipe was acknowledged, too.
    acknowledged.extend(lines.map_while(Result::ok).filter_map(|line| parse(&line)));

    let store = Store::open(&path, Vec::new()).unwrap();
    let newest = acknowledged.iter().map(|(_, revision)| *revision).max().unwrap();
    assert!(store.revision() >= newest);
    for (name, revision) in acknowledged {
        let object = store.get(&Key::new("configmaps", "a", &name)).unwrap();
        assert_eq!(object.revision, revision, "{name}");
    }
}

fn parse(line: &str) -> Option<(String, u64)> {
    let (name, revision) = line.split("ack ").nth(1)?.split_once(' ')?;
    Some((name.to_owned(), revision.parse().ok()?))
}
