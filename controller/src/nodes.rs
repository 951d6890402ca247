//! How large the nodes are, asked when an experiment is about to begin.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use modelway_plan::{Key, Kind, World, json as read};
use parking_lot::Mutex;
use tokio::time::Instant;

/// For all answers together.
const ANSWER: Duration = Duration::from_secs(10);
/// An answer holds for that long, as does its absence.
const FRESH: Duration = Duration::from_secs(30);
const PAGE: u32 = 500;
const PAGES: usize = 20;

/// What pods may use of each node, by resource; empty where it is not known.
pub type Sizes = Arc<[BTreeMap<String, String>]>;

/// Asks for nodes, not more often than is good for a large cluster.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    known: Arc<Mutex<Option<(Instant, Sizes)>>>,
}

impl Nodes {
    /// Whether what is planned for the object depends on the nodes.
    pub fn matter(key: &Key, world: &World) -> bool {
        let begins = |live| read::text(live, "/status/startTime").is_empty();
        key.kind == Kind::ProfilingExperiment && world.object(key).is_some_and(begins)
    }

    /// What the nodes have. Where that cannot be asked nothing is known of it, and nobody has to wait for it.
    pub async fn sizes(&self, client: &Client) -> Sizes {
        if let Some((at, sizes)) = self.known.lock().clone()
            && at.elapsed() < FRESH
        {
            return sizes;
        }
        let sizes: Sizes = match tokio::time::timeout(ANSWER, ask(client)).await {
            Ok(Ok(sizes)) => sizes.into(),
            Ok(Err(error)) => unknown(&error.to_string()),
            Err(_) => unknown("no answer in time"),
        };
        *self.known.lock() = Some((Instant::now(), sizes.clone()));
        sizes
    }
}

fn unknown(why: &str) -> Sizes {
    tracing::warn!(why, "cannot ask for nodes; candidates that are too large for all of them are tried, too");
    Sizes::default()
}

async fn ask(client: &Client) -> kube::Result<Vec<BTreeMap<String, String>>> {
    let api: Api<Node> = Api::all(client.clone());
    let (mut sizes, mut parameters) = (Vec::new(), ListParams::default().limit(PAGE));
    for _ in 0..PAGES {
        let page = api.list(&parameters).await?;
        sizes.extend(
            page.items
                .into_iter()
                .filter_map(|node| node.status?.allocatable)
                .map(|allocatable| allocatable.into_iter().map(|(resource, amount)| (resource, amount.0)).collect()),
        );
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters = parameters.continue_token(&next),
            None => return Ok(sizes),
        }
    }
    tracing::info!("there are more nodes than are looked at; no candidate is left out for its size");
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn client(answers: Vec<(u16, Value)>) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answers) = (asked.clone(), Arc::new(Mutex::new(answers)));
        let server = tower::service_fn(move |request: Request<Body>| {
            seen.lock().push(request.uri().to_string());
            let (code, answer) = answers.lock().remove(0);
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            std::future::ready(Ok::<_, std::io::Error>(response.unwrap()))
        });
        (Client::new::<_, Body, _>(server, "default"), asked)
    }

    fn page(cpu: &str, next: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {"continue": next}, "items": [
            {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu}}}, {"metadata": {"name": "new"}}]})
    }

    #[tokio::test]
    async fn nodes_are_read_page_by_page_and_not_asked_for_again_at_once() {
        let (client, asked) = client(vec![(200, page("2", "more")), (200, page("4", ""))]);
        let nodes = Nodes::default();
        let sizes = nodes.sizes(&client).await;
        let cpus: Vec<&str> = sizes.iter().map(|size| size["cpu"].as_str()).collect();
        assert_eq!(cpus, ["2", "4"]);
        assert_eq!(nodes.sizes(&client).await, sizes);
        assert_eq!(asked.lock().len(), 2, "{asked:?}");
    }

    #[tokio::test]
    async fn nothing_is_known_where_it_may_not_be_asked() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403});
        let (client, asked) = client(vec![(403, status)]);
        let nodes = Nodes::default();
        assert!(nodes.sizes(&client).await.is_empty() && nodes.sizes(&client).await.is_empty());
        assert_eq!(asked.lock().len(), 1);
    }

    #[test]
    fn only_an_experiment_that_begins_depends_on_nodes() {
        let mut world = World::default();
        let experiment = |name: &str, status: Value| {
            json!({"apiVersion": "morphling.kubedl.io/v1alpha1", "kind": "ProfilingExperiment",
            "metadata": {"name": name, "namespace": "n"}, "status": status})
        };
        world.insert(experiment("new", json!({})));
        world.insert(experiment("old", json!({"startTime": "2026-11-30T12:00:00Z"})));
        let matter = |name: &str| Nodes::matter(&Key::new(Kind::ProfilingExperiment, "n", name), &world);
        assert!(matter("new") && !matter("old") && !matter("gone"));
    }
}
