//! Runs every case, each in a namespace of its own, and reports what failed.

use std::any::Any;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use modelway_tests::conformance::{CASES, Case};

/// Cases at a time.
const PARALLEL: usize = 8;

/// How one case ended.
#[derive(Debug)]
pub struct Outcome {
    pub case: &'static str,
    /// What it said when it failed.
    pub failure: Option<String>,
}

/// Waits until a new namespace can be worked in.
pub type Ready = fn(Client, String) -> BoxFuture<'static, ()>;

/// Every case, in the order of the table of cases.
pub async fn run_all(client: impl Fn() -> Client, ready: Ready) -> Vec<Outcome> {
    stream::iter(CASES).map(|(name, case)| run(client(), name, *case, ready)).buffered(PARALLEL).collect().await
}

async fn run(client: Client, name: &'static str, case: Case, ready: Ready) -> Outcome {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespace(&client, name).await;
    ready(client.clone(), namespace.clone()).await;
    let ended = AssertUnwindSafe(case(client, namespace.clone())).catch_unwind().await;
    let _ = namespaces.delete(&namespace, &DeleteParams::default()).await;
    Outcome { case: name, failure: ended.err().map(|panic| text(panic.as_ref())) }
}

/// A new namespace whose name tells what it is for.
pub async fn namespace(client: &Client, purpose: &str) -> String {
    // Short enough for a label with the case's own endings.
    let short: String = purpose.replace("::", "-").replace('_', "-").chars().take(40).collect();
    let metadata = ObjectMeta { generate_name: Some(format!("c-{short}-")), ..ObjectMeta::default() };
    let object = Namespace { metadata, ..Namespace::default() };
    let made = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
    made.metadata.name.unwrap()
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("failed").to_owned()
}

/// A line for each case, failures with what they said.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for Outcome { case, failure } in outcomes {
        let result =
            failure.as_deref().map_or("ok".to_owned(), |failure| format!("FAILED {}", failure.replace('\n', " ")));
        let _ = writeln!(text, "{case:<62} {result}");
    }
    text
}

/// Fails with the table unless every case passed.
pub fn judge(outcomes: &[Outcome]) {
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    assert!(failed == 0, "{failed} of {} cases failed:\n{}", outcomes.len(), table(outcomes));
}
