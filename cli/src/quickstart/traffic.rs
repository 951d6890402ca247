//! Seeded users that send held-out images through the Inference's URL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use futures::StreamExt;
use modelway_digits::data::{self, Images};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::tally::Answer;
use super::way::{Reply, Way};

/// Requests on the way at a time.
const CONCURRENCY: usize = 16;

/// One request that a user will make.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub user: u32,
    /// Row of the held-out images, drawn with replacement.
    pub image: usize,
}

/// 3 to 6 requests of each user, in random order; the same for the same seed.
pub fn plan(users: u32, images: usize, seed: u64) -> Vec<Planned> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut requests = Vec::new();
    for user in 0..users {
        for _ in 0..rng.random_range(3..=6) {
            requests.push(Planned { user, image: rng.random_range(0..images) });
        }
    }
    requests.shuffle(&mut rng);
    requests
}

/// One request of each user, in random order.
pub fn plan_once(users: u32, images: usize, seed: u64) -> Vec<Planned> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(1));
    let mut requests: Vec<Planned> =
        (0..users).map(|user| Planned { user, image: rng.random_range(0..images) }).collect();
    requests.shuffle(&mut rng);
    requests
}

/// Sends requests to one Inference.
#[derive(Clone)]
pub struct Client {
    way: Way,
    images: Arc<Images>,
    /// Predictor by the digest of its model.
    arms: Arc<BTreeMap<String, String>>,
}

impl Client {
    /// `arms` names predictors by model digest.
    pub fn new(way: Way, arms: BTreeMap<String, String>) -> Self {
        Self { way, images: Arc::new(data::split().1), arms: Arc::new(arms) }
    }

    /// Held-out images to draw from.
    pub fn images(&self) -> usize {
        self.images.len()
    }

    /// One request, timed from sending to the last byte.
    pub async fn ask(&self, request: Planned) -> anyhow::Result<Answer> {
        let pixels = self.images.images.row(request.image).to_vec();
        let body = serde_json::json!({
            "inputs": [{"name": "images", "shape": [1, data::PIXELS], "datatype": "FP32", "data": pixels}]
        });
        let body = serde_json::to_vec(&body)?;
        let start = Instant::now();
        let reply = self.way.post(&format!("user-{}", request.user), body).await?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let Reply { status, model, body: answer } = reply;
        anyhow::ensure!(status.is_success(), "{} answered {status}: {}", self.way, String::from_utf8_lossy(&answer));
        let arm = self.arm(model.as_deref().context("the answer has no x-modelway-model header")?);
        let answer: Value = serde_json::from_slice(&answer).context("the answer is not JSON")?;
        let right = best(&answer["outputs"][0]["data"]) == Some(self.images.digits[request.image]);
        Ok(Answer { user: request.user, arm, right, milliseconds })
    }

    /// The predictor's name, or the digest itself when it belongs to none.
    fn arm(&self, model: &str) -> String {
        let digest = model.rsplit('@').next().unwrap_or(model);
        self.arms.get(digest).cloned().unwrap_or_else(|| digest.to_owned())
    }

    /// All requests, some at a time, in order; `seen` gets each result as it comes.
    pub async fn ask_all(&self, requests: Vec<Planned>, mut seen: impl FnMut(anyhow::Result<Answer>)) {
        let mut answers =
            futures::stream::iter(requests).map(|request| self.ask(request)).buffer_unordered(CONCURRENCY);
        while let Some(answer) = answers.next().await {
            seen(answer);
        }
    }
}

/// Position of the largest score.
fn best(scores: &Value) -> Option<usize> {
    let scores: Option<Vec<f64>> = scores.as_array()?.iter().map(Value::as_f64).collect();
    scores?.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_comes_3_to_6_times_and_the_seed_decides() {
        let requests = plan(500, 898, 7);
        for user in 0..500 {
            let count = requests.iter().filter(|request| request.user == user).count();
            assert!((3..=6).contains(&count), "user {user} comes {count} times");
        }
        let again = plan(500, 898, 7);
        assert!(requests.iter().zip(&again).all(|(a, b)| (a.user, a.image) == (b.user, b.image)));
        let other = plan(500, 898, 8);
        assert!(requests.iter().zip(&other).any(|(a, b)| (a.user, a.image) != (b.user, b.image)));
    }

    #[test]
    fn the_largest_score_wins() {
        assert_eq!(best(&serde_json::json!([0.1, 3, -2])), Some(1));
        assert_eq!(best(&serde_json::json!([])), None);
        assert_eq!(best(&serde_json::json!({"a": 1})), None);
    }
}
