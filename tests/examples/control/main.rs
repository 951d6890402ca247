//! The embedded API against a real API server with etcd, in one run: `cargo xtask bench control`.
//!
//! Both are processes of their own, spoken to over TLS by the same client, both write to disk before they acknowledge.
//! Rounds alternate; each figure is the median over the rounds, and the ratio of the two.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints its result")]

mod judge;
mod sides;

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

/// Rounds of each side.
const ROUNDS: usize = 5;

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
    let binary = std::env::args().nth(1).context("usage: control MODELWAY_BINARY")?;
    let embedded = sides::embedded(binary.as_ref()).await.context("the embedded platform does not start")?;
    let real = sides::real().await.context("the real API server does not start")?;
    let sides = [&embedded, &real];
    let mut figures: [BTreeMap<&'static str, Vec<f64>>; 2] = [BTreeMap::new(), BTreeMap::new()];
    for round in 0..ROUNDS {
        // Each goes first in turn.
        for index in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let side = sides[index];
            eprintln!("round {} of {ROUNDS}: {}", round + 1, side.name);
            for (name, value) in judge::round(side, round).await.with_context(|| side.name)? {
                figures[index].entry(name).or_default().push(value);
            }
        }
    }
    let [mut ours, mut theirs] = figures;
    for (side, figures) in [(&embedded, &mut ours), (&real, &mut theirs)] {
        figures.insert("startSeconds", vec![side.start_seconds]);
        figures.insert("residentMegabytes", vec![side.resident_bytes()? as f64 / 1e6]);
    }
    Ok(document(ours, &theirs))
}

fn document(ours: BTreeMap<&'static str, Vec<f64>>, theirs: &BTreeMap<&'static str, Vec<f64>>) -> Value {
    let mut result = serde_json::Map::new();
    for (name, values) in ours {
        let (embedded, real) = (median(values), theirs.get(name).cloned().map_or(f64::NAN, median));
        result.insert(name.to_owned(), json!({"embedded": embedded, "real": real, "ratio": embedded / real}));
    }
    Value::Object(result)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
