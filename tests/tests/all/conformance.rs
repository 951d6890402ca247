//! Every conformance case on both APIs, and the table of what came out.

use std::fmt::Write as _;
use std::path::Path;

use modelway_apiserver::{ApiServer, Options};
use modelway_tests::conformance::CASES;

use super::real_api;
use super::runner::{self, Outcome};

/// Cases that the oldest supported version refuses rightly, but in other words.
const OTHER_WORDS: &[&str] =
    &["objects::server_metadata_cannot_be_changed", "manifests::bad_manifests_say_what_is_wrong"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_holds_on_both_apis() {
    let folder = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::new(folder.path())).unwrap();
    let embedded = runner::run_all(|| server.client("default"), |_, _| Box::pin(async {})).await;
    let real = match real_api::client().await {
        Some(client) => Some(
            runner::run_all(|| client.clone(), |client, namespace| Box::pin(real_api::account(client, namespace)))
                .await,
        ),
        None => None,
    };
    let table = table(real.as_deref(), &embedded);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("conformance.txt");
    std::fs::write(path, &table).unwrap();
    println!("{table}");
    // What a real API fails is no conformance case.
    if let Some(real) = real {
        let known = |outcome: &Outcome| real_api::is_oldest() && OTHER_WORDS.contains(&outcome.case);
        runner::judge(&real.into_iter().filter(|outcome| !known(outcome)).collect::<Vec<_>>());
    }
    runner::judge(&embedded);
}

fn table(real: Option<&[Outcome]>, embedded: &[Outcome]) -> String {
    let word = |outcome: &Outcome| if outcome.failure.is_some() { "FAILED" } else { "ok" };
    let mut text = format!("{:<62} {:<8} embedded\n", "case", "real");
    for (index, (case, _)) in CASES.iter().enumerate() {
        let real = real.map_or("-", |outcomes| word(&outcomes[index]));
        let _ = writeln!(text, "{case:<62} {real:<8} {}", word(&embedded[index]));
    }
    let passed = |outcomes: &[Outcome]| outcomes.iter().filter(|outcome| outcome.failure.is_none()).count();
    let real = real.map_or("not run".to_owned(), |outcomes| passed(outcomes).to_string());
    let _ = writeln!(text, "{:<62} {real:<8} {}", format!("passed of {}", CASES.len()), passed(embedded));
    text
}
