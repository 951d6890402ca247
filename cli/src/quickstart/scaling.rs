//! Scaling: the grown predictor sleeps at zero, its users come back all at once, and its pods follow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use modelway_api::inference::PredictorStatus;
use modelway_api::{Inference, labels};
use modelway_controller::{Heard, follow_router};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::document::{Curve, Scaling};
use super::story::{GROWN, INFERENCE_MANIFEST, MODEL, Story};
use super::traffic::{self, Planned};
use super::waits::{self, Verdict};
use crate::exit::{Failure, fail};
use crate::progress::Step;

/// Windows of seconds, where a service has minutes: a newcomer watches.
const FOLLOWS: &str = "autoScale: {minReplicas: 0, maxReplicas: 4, target: 4, window: 6s, scaleToZeroGrace: 1s}";
/// How long the users keep asking, and how many requests are on the way at a time.
const BURST: Duration = Duration::from_secs(8);
const AT_ONCE: usize = 24;
/// Time between two points of the curve.
const POINT: Duration = Duration::from_millis(500);
/// Columns of the plot.
const WIDTH: usize = 60;

impl Story {
    /// From awake to asleep, through the burst, to asleep again. `users` are those of the grown predictor.
    pub async fn sleeps_and_wakes(
        &self,
        client: &traffic::Client,
        users: &[u32],
        step: &Step,
    ) -> anyhow::Result<Scaling> {
        anyhow::ensure!(!users.is_empty(), "nobody was on predictor {GROWN}");
        let weights = INFERENCE_MANIFEST.replace("trafficWeight: 90", "trafficWeight: 50");
        let manifest = weights.replace("trafficWeight: 10", &format!("trafficWeight: 50\n      {FOLLOWS}"));
        self.apply(&manifest, "manifests/inference.yaml").await?;
        let api: Api<Inference> = Api::namespaced(self.client.clone(), &self.namespace);
        waits::until(api.clone(), MODEL, self.timeout, asleep, |what| step.message(what)).await?;
        step.message("asleep; its users come back");

        let held = Held::watch(&self.client, &self.namespace).await?;
        let mut burst = Burst::new(client, users);
        let mut curve = Recorder::new();
        let mut ticks = tokio::time::interval(POINT);
        let deadline = Instant::now() + BURST + self.timeout;
        {
            let asking = burst.run();
            let mut asking = std::pin::pin!(asking);
            let mut is_over = false;
            loop {
                tokio::select! {
                    () = &mut asking, if !is_over => is_over = true,
                    _ = ticks.tick() => {
                        let inference = api.get(MODEL).await?;
                        let now = grown(&inference).context("the Inference lost its predictor")?;
                        curve.add(now);
                        if is_over && is_asleep(now) {
                            break;
                        }
                        if Instant::now() > deadline {
                            let why = now.scale_reason.clone().unwrap_or_default();
                            let message = format!("predictor {GROWN} does not go back to sleep: {why}");
                            return Err(fail(Failure::TimedOut, message));
                        }
                    }
                }
            }
        }
        Ok(Scaling {
            cold_start_ms: burst.first.map_or(0.0, |first| first.as_secs_f64() * 1e3),
            held_max: held.most().await,
            requests: burst.answers.len() as u64 + burst.errors,
            errors: burst.errors,
            replicas: curve.with_answers(&burst.answers),
        })
    }
}

fn grown(inference: &Inference) -> Option<&PredictorStatus> {
    let mut all = inference.status.iter().flat_map(|status| &status.predictor_statuses);
    all.find(|predictor| predictor.name == GROWN)
}

fn is_asleep(predictor: &PredictorStatus) -> bool {
    (predictor.desired_replicas, predictor.replicas) == (0, 0)
}

fn asleep(inference: &Inference) -> Verdict {
    match grown(inference) {
        Some(predictor) if is_asleep(predictor) => Verdict::Ready,
        Some(predictor) => Verdict::Wait(predictor.scale_reason.clone().unwrap_or_default()),
        None => Verdict::Wait("the controller has not seen it yet".to_owned()),
    }
}

/// The users of a predictor, who ask for a while.
struct Burst<'a> {
    client: &'a traffic::Client,
    users: &'a [u32],
    start: Instant,
    /// When each answer came.
    answers: Vec<Duration>,
    first: Option<Duration>,
    errors: u64,
}

impl<'a> Burst<'a> {
    fn new(client: &'a traffic::Client, users: &'a [u32]) -> Self {
        Self { client, users, start: Instant::now(), answers: Vec::new(), first: None, errors: 0 }
    }

    async fn run(&mut self) {
        let Self { client, users, start, .. } = *self;
        let images = client.images();
        let planned =
            users.iter().cycle().enumerate().map(|(index, user)| Planned { user: *user, image: index % images });
        let planned = planned.take_while(|_| start.elapsed() < BURST);
        let mut asked = futures::stream::iter(planned).map(|request| client.ask(request)).buffer_unordered(AT_ONCE);
        while let Some(answer) = asked.next().await {
            match answer {
                // Somebody else's answer would be a user who left the arm.
                Ok(answer) if answer.arm == GROWN => {
                    let at = self.start.elapsed();
                    self.first.get_or_insert(at);
                    self.answers.push(at);
                }
                Ok(answer) => {
                    tracing::warn!(user = answer.user, arm = answer.arm, "a user left the arm");
                    self.errors += 1;
                }
                Err(error) => {
                    tracing::warn!(%error, "a request failed");
                    self.errors += 1;
                }
            }
        }
    }
}

/// The curve while it grows.
struct Recorder {
    start: Instant,
    points: Vec<Curve>,
}

impl Recorder {
    fn new() -> Self {
        Self { start: Instant::now(), points: Vec::new() }
    }

    fn add(&mut self, predictor: &PredictorStatus) {
        self.points.push(Curve {
            seconds: self.start.elapsed().as_secs_f64(),
            desired: predictor.desired_replicas,
            ready: predictor.ready_replicas,
            answers_per_second: 0.0,
        });
    }

    /// The answers between two points belong to the later one.
    fn with_answers(mut self, answers: &[Duration]) -> Vec<Curve> {
        let mut from = 0.0;
        for point in &mut self.points {
            let moments = answers.iter().map(Duration::as_secs_f64);
            let count = moments.filter(|at| *at > from && *at <= point.seconds).count();
            point.answers_per_second = count as f64 / (point.seconds - from).max(0.001);
            from = point.seconds;
        }
        self.points
    }
}

/// The most requests that waited in the routers at once, where their admin ports can be reached from here.
struct Held {
    tasks: JoinSet<()>,
    words: mpsc::Receiver<(usize, Heard)>,
}

impl Held {
    async fn watch(client: &kube::Client, namespace: &str) -> anyhow::Result<Self> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let of = format!("{}={MODEL},{}={}", labels::INFERENCE_NAME, labels::APP_COMPONENT, labels::component::ROUTER);
        let (sender, words) = mpsc::channel(1_024);
        let mut tasks = JoinSet::new();
        for (index, pod) in pods.list(&ListParams::default().labels(&of)).await?.items.into_iter().enumerate() {
            let Some(ip) = pod.status.and_then(|status| status.pod_ip) else { continue };
            let address = format!("{}:{}", modelway_plan::router::bracketed(&ip), modelway_plan::router::ADMIN_PORT);
            let (all, (own, mut heard)) = (sender.clone(), mpsc::channel(8));
            tasks.spawn(follow_router(address, own));
            tasks.spawn(async move {
                while let Some(word) = heard.recv().await {
                    // More than the channel holds says nothing new about the most.
                    if all.try_send((index, word)).is_err() && all.is_closed() {
                        return;
                    }
                }
            });
        }
        Ok(Self { tasks, words })
    }

    async fn most(mut self) -> Option<u64> {
        self.tasks.shutdown().await;
        let (mut now, mut most) = (HashMap::new(), None);
        while let Ok((router, word)) = self.words.try_recv() {
            let Heard::Stats(stats) = word else { continue };
            now.insert(router, stats.arms.get(GROWN).map_or(0, |arm| arm.held));
            most = most.max(Some(now.values().sum()));
        }
        most
    }
}

/// Answers and pods over time, one column a moment.
pub fn plot(points: &[Curve]) -> [String; 2] {
    let answers: Vec<f64> = points.iter().map(|point| point.answers_per_second).collect();
    let pods: Vec<f64> = points.iter().map(|point| f64::from(point.ready)).collect();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let seconds = points.last().map_or(0.0, |point| point.seconds);
    [
        format!("answers {}  most {:.0}/s", bars(&answers, WIDTH), most(&answers)),
        format!("pods    {}  most {:.0}, in {seconds:.0} s", bars(&pods, WIDTH), most(&pods)),
    ]
}

/// Heights in eighths of a character, at most `width` of them; each shows the largest value that it stands for.
fn bars(values: &[f64], width: usize) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().fold(0.0, f64::max);
    let columns = values.len().min(width).max(1);
    let column = |index: usize| {
        let (from, to) = (index * values.len() / columns, (index + 1) * values.len() / columns);
        let value = values[from..to].iter().copied().fold(0.0, f64::max);
        let height = if largest > 0.0 { (value / largest * 8.0).ceil() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 8")]
        let height = height.clamp(0.0, 8.0) as usize;
        HEIGHTS[height]
    };
    (0..columns).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_shows_every_peak_in_few_columns() {
        assert_eq!(bars(&[0.0, 1.0, 2.0, 4.0, 8.0], 10), " ▁▂▄█");
        let mut long = vec![1.0; 500];
        long[250] = 8.0;
        let line = bars(&long, 60);
        assert_eq!((line.chars().count(), line.matches('█').count()), (60, 1));
        assert_eq!(bars(&[], 60), " ");
        assert_eq!(bars(&[0.0, 0.0], 60), "  ");
    }

    #[test]
    fn answers_belong_to_the_moment_after_them() {
        let point = |seconds| Curve { seconds, desired: 1, ready: 1, answers_per_second: 0.0 };
        let recorder = Recorder { start: Instant::now(), points: vec![point(0.5), point(1.0)] };
        let answers = [100, 200, 700].map(Duration::from_millis);
        let rates: Vec<f64> = recorder.with_answers(&answers).iter().map(|point| point.answers_per_second).collect();
        assert_eq!(rates, [4.0, 2.0]);
    }
}
