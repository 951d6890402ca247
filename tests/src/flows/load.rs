//! Users that ask an Inference all the time, and what they saw.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// For one request: a predictor that wakes on a busy machine takes its time.
const TIMEOUT: Duration = Duration::from_mins(2);

/// One answer: the user, and the digest of the model that gave it.
type Seen = (u32, String);

/// Running users; [`Load::stop`] says what they saw.
pub struct Load {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<(Vec<Seen>, Vec<String>)>>,
}

/// What the users saw, in order within a user.
#[derive(Debug, Default)]
pub struct Report {
    pub models_by_user: BTreeMap<u32, Vec<String>>,
    pub answers: usize,
    pub failures: Vec<String>,
}

impl Report {
    /// Users whose answers came from this model, at any time.
    pub fn users_on(&self, digest: &str) -> BTreeSet<u32> {
        let on = |models: &Vec<String>| models.iter().any(|model| model == digest);
        self.models_by_user.iter().filter(|(_, models)| on(models)).map(|(user, _)| *user).collect()
    }
}

impl Load {
    /// `users` people in `lanes` sequences of requests, each person always in the same one.
    pub fn start(endpoint: &str, model: &str, users: u32, lanes: u32) -> anyhow::Result<Self> {
        Self::start_for(endpoint, model, &(0..users).collect::<Vec<_>>(), lanes)
    }

    /// These people; a sequence without anybody is not started.
    pub fn start_for(endpoint: &str, model: &str, users: &[u32], lanes: u32) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
        let url = format!("{endpoint}/v2/models/{model}/infer");
        let stop = CancellationToken::new();
        let tasks = sequences(users, lanes as usize)
            .into_iter()
            .map(|people| tokio::spawn(lane_of(http.clone(), url.clone(), people, stop.clone())))
            .collect();
        Ok(Self { stop, tasks })
    }

    /// Ends after the round under way.
    pub async fn stop(self) -> anyhow::Result<Report> {
        self.stop.cancel();
        let mut report = Report::default();
        for task in self.tasks {
            let (seen, failures) = task.await?;
            report.answers += seen.len();
            report.failures.extend(failures);
            for (user, model) in seen {
                report.models_by_user.entry(user).or_default().push(model);
            }
        }
        Ok(report)
    }
}

/// People in at most `lanes` sequences. None is empty: it would never wait for an answer, and keep its thread for itself.
fn sequences(people: &[u32], lanes: usize) -> Vec<Vec<u32>> {
    let lanes = people.len().min(lanes);
    (0..lanes).map(|lane| people.iter().copied().skip(lane).step_by(lanes).collect()).collect()
}

async fn lane_of(
    http: reqwest::Client,
    url: String,
    users: Vec<u32>,
    stop: CancellationToken,
) -> (Vec<Seen>, Vec<String>) {
    let (mut seen, mut failures) = (Vec::new(), Vec::new());
    let body = serde_json::json!({
        "inputs": [{"name": "images", "shape": [1, 64], "datatype": "FP32", "data": vec![0.5; 64]}]
    });
    loop {
        for user in &users {
            match ask(&http, &url, *user, &body).await {
                Ok(model) => seen.push((*user, model)),
                Err(error) => failures.push(format!("{error:#}")),
            }
        }
        if stop.is_cancelled() {
            return (seen, failures);
        }
    }
}

async fn ask(http: &reqwest::Client, url: &str, user: u32, body: &serde_json::Value) -> anyhow::Result<String> {
    let response = http.post(url).header("x-user-id", format!("user-{user}")).json(body).send().await?;
    let status = response.status();
    let model = response.headers().get("x-modelway-model").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let digest = model.rsplit('@').next().unwrap_or_default().to_owned();
    let text = response.text().await?;
    anyhow::ensure!(status.is_success(), "user {user}: {status}: {text}");
    Ok(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_no_sequence() {
        assert_eq!(sequences(&[], 24), Vec::<Vec<u32>>::new());
        assert_eq!(sequences(&[7, 8], 24), [[7], [8]]);
        assert_eq!(sequences(&[1, 2, 3], 2), [vec![1, 3], vec![2]]);
    }
}
