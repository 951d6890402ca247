//! What sleeping and waking costs, on the embedded platform: `cargo xtask bench scaling`.
//!
//! Cold starts: one request at a time finds its predictor without pods. The times are those at which a watch of the API
//! tells the client of the decision and of the ready pod, so they hold the watch's own delay too. At rest: many
//! Inferences asleep, and what their platform does.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]

mod cold;
mod platform;
mod rest;

use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run()).await {
        Ok(document) => {
            println!("{document:#}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<Value> {
    let mut words = std::env::args().skip(1);
    let binary = words.next().context("usage: scaling MODELWAY_BINARY STARTS INFERENCES")?;
    let mut number = || words.next().unwrap_or_default().parse::<usize>();
    let (starts, inferences) = (number().context("STARTS")?, number().context("INFERENCES")?);
    let platform = platform::start(binary.as_ref()).await?;
    let mut document = serde_json::Map::new();
    if starts > 0 {
        document.insert("coldStarts".to_owned(), cold::measure(&platform, starts).await?);
    }
    if inferences > 0 {
        document.insert("atRest".to_owned(), rest::measure(&platform, inferences).await?);
    }
    Ok(document.into())
}

/// An Inference that sleeps from the start, with a server that is there at once.
fn sleeper(name: &str) -> Value {
    json!({
        "apiVersion": "serving.kubedl.io/v1alpha1", "kind": "Inference", "metadata": {"name": name, "namespace": "default"},
        "spec": {"framework": "Custom", "predictors": [{
            "name": "a", "replicas": 0,
            "autoScale": {"minReplicas": 0, "maxReplicas": 4, "window": "6s", "scaleToZeroGrace": "0s"},
            "template": {"spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "server", "image": modelway_api::image(),
                    "command": ["modelway", "registry", "--dir", "/data", "--listen", "$(POD_IP):8080"],
                    "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "readinessProbe": {"httpGet": {"path": "/v2/", "port": 8080}, "periodSeconds": 1},
                }],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }},
        }]},
    })
}
