//! The load generator against a server that does nothing, beside oha (`cargo xtask bench load`).
//!
//! `bench_load [OHA] [ROUNDS] [SECONDS]`: each round runs both, one after the other, at the same rate against the same
//! server; the figures are medians of the rounds' ratios.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use modelway_tuner::load::body::Payload;
use modelway_tuner::load::http::RequestPlan;
use modelway_tuner::load::outcome::Expectation;
use modelway_tuner::load::{Control, Options, Pattern, Source, Target, report, run};
use serde_json::{Value, json};

/// What the load generator must reach on one core.
const RATE: f64 = 20_000.0;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Processor time in `/proc` counts in hundredths of a second.
const TICK: f64 = 0.01;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u64| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(default);
    let oha = arguments.first().filter(|path| std::path::Path::new(path).is_file());
    let (rounds, seconds) = (number(1, 5), number(2, 5));
    let address = serve();
    let mut runs = Vec::new();
    for _ in 0..rounds {
        let ours = ours(address, seconds);
        let theirs = oha.map_or(Value::Null, |oha| theirs(oha, address, seconds));
        println!("{}", json!({"modelway": ours, "oha": theirs}));
        runs.push((ours, theirs));
    }
    println!("{:#}", summary(&runs, oha.is_none()));
}

/// A server with one thread for each connection, which reads something and answers.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|socket| {
            std::thread::spawn(move || answer(socket));
        });
    });
    address
}

fn answer(mut socket: TcpStream) {
    let _as_before = socket.set_nodelay(true);
    let mut buffer = [0; 4096];
    // Requests of both generators fit into one segment.
    while socket.read(&mut buffer).is_ok_and(|count| count > 0) && socket.write_all(ANSWER).is_ok() {}
}

fn ours(address: SocketAddr, seconds: u64) -> Value {
    let target = Target::parse(&format!("http://{address}/")).unwrap();
    let plan = Arc::new(RequestPlan::new("GET", &target, &[], Payload::Empty, None, 1).unwrap());
    let options = Options {
        target,
        plan,
        expectation: Expectation::default(),
        tokens: false,
        source: Source::Open(Pattern::Constant { rate: RATE }),
        seed: 1,
        warm_up: Duration::from_secs(1),
        duration: Some(Duration::from_secs(seconds)),
        requests: None,
        timeout: Duration::from_secs(10),
        max_connections: NonZeroUsize::new(50),
        threads: NonZeroUsize::MIN,
        constraints: Vec::new(),
    };
    let report = report(&options, &run(&options, &mut |_| Control::Continue).unwrap());
    let sent = report.requests.sent as f64 * (seconds + 1) as f64 / seconds as f64;
    json!({
        "rate": report.rate.achieved,
        "valid": report.generator.valid,
        "scheduleDelayP99": report.generator.schedule_delay.p99,
        "latencyP50": report.latency.p50,
        "latencyP99": report.latency.p99,
        "failed": report.requests.failed,
        "cpuPerRequest": report.generator.cpu_seconds / sent,
    })
}

fn theirs(oha: &str, address: SocketAddr, seconds: u64) -> Value {
    let before = children();
    let output = Command::new(oha)
        .args(["--no-tui", "--output-format", "json", "-c", "50", "--latency-correction", "-q", &RATE.to_string()])
        .args(["-z", &format!("{seconds}s"), &format!("http://{address}/")])
        .env("TOKIO_WORKER_THREADS", "1")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let cpu = children() - before;
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let rate = document["summary"]["requestsPerSec"].as_f64().unwrap_or_default();
    let total = document["summary"]["total"].as_f64().unwrap_or(seconds as f64);
    json!({
        "rate": rate,
        "latencyP50": document["latencyPercentiles"]["p50"],
        "latencyP99": document["latencyPercentiles"]["p99"],
        "cpuPerRequest": cpu / (rate * total).max(1.0),
    })
}

/// Processor seconds of children that have ended.
fn children() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 16 and 17; the name, which may have spaces, ends with the last parenthesis.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    (ticks(13) + ticks(14)) * TICK
}

fn summary(runs: &[(Value, Value)], alone: bool) -> Value {
    let median = |value: &dyn Fn(&(Value, Value)) -> Option<f64>| {
        let mut values: Vec<f64> = runs.iter().filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let ratio = |run: &(Value, Value)| Some(run.0["cpuPerRequest"].as_f64()? / run.1["cpuPerRequest"].as_f64()?);
    json!({
        "requestedRate": RATE,
        "achievedRate": median(&|run| run.0["rate"].as_f64()),
        "scheduleDelayP99": median(&|run| run.0["scheduleDelayP99"].as_f64()),
        "cpuPerRequest": median(&|run| run.0["cpuPerRequest"].as_f64()),
        "ohaCpuPerRequest": median(&|run| run.1["cpuPerRequest"].as_f64()),
        "cpuRatioToOha": median(&ratio),
        "skipped": alone.then_some("oha is not here"),
    })
}
