//! Latency counts from when a request was due, whatever held it up.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::{Duration, Instant};

use modelway_tuner::load::constraint::Metric;
use modelway_tuner::load::units::seconds;
use modelway_tuner::load::{Control, Pattern, Source, report, run};
use std::sync::{Arc, OnceLock};

use crate::server::{After, Server, ok, pause};
use crate::{constant, finish, options};

/// Answers at once, but for one second in which it answers nobody.
fn stalls() -> Server {
    let start = Arc::new(OnceLock::<Instant>::new());
    Server::start(move |_, socket| {
        let elapsed = start.get_or_init(Instant::now).elapsed();
        if (Duration::from_secs(1)..Duration::from_secs(2)).contains(&elapsed) {
            pause(Duration::from_secs(2).saturating_sub(elapsed));
        }
        ok(socket, "x")
    })
}

#[test]
fn a_stall_is_seen_by_every_request_that_was_due_in_it() {
    let server = stalls();
    let finished = finish(&constant(&server.url(), 100.0, 300));
    let latency = finished.measured.metric(Metric::Latency);
    assert_eq!(latency.count(), 300);
    // A third of the requests was due in the stall; their waits are spread over 0 to 1 s.
    let waited = |share: f64| seconds(latency.quantile(1.0 - share));
    assert!(waited(1.0 / 6.0) > 0.4 && waited(1.0 / 6.0) < 0.65, "{}", waited(1.0 / 6.0));
    assert!(waited(0.03) > 0.85 && seconds(latency.max()) < 1.2, "{}", waited(0.03));
}

#[test]
fn a_limit_on_connections_hides_nothing() {
    let server = stalls();
    let mut options = constant(&server.url(), 100.0, 300);
    options.max_connections = NonZeroUsize::new(2);
    let finished = finish(&options);
    assert_eq!(server.connections.load(std::sync::atomic::Ordering::SeqCst), 3, "with the first look");
    let waited = seconds(finished.measured.metric(Metric::Latency).quantile(5.0 / 6.0));
    assert!(waited > 0.4 && waited < 0.65, "{waited}");
    // Sent late because of the limit: neither the generator's fault nor the server's own time.
    assert!(seconds(finished.measured.delay.quantile(0.5)) < 0.05);
    assert!(seconds(finished.measured.service.quantile(0.9)) < 0.1);
}

#[test]
fn the_same_seed_sends_the_same_requests_whatever_the_threads() {
    let bodies = |threads: usize| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let server = Server::start(move |request, socket| {
            let _sent = sender.send(request.body.clone());
            ok(socket, "x")
        });
        let mut options =
            options(&server.url(), Source::Open(Pattern::Poisson { rate: 2_000.0 }), 200, "{{seq}} {{random}}");
        options.threads = NonZeroUsize::new(threads).unwrap();
        assert_eq!(finish(&options).measured.ok, 200);
        drop(server);
        let mut all: Vec<Vec<u8>> = receiver.try_iter().collect();
        all.sort();
        all
    };
    let one = bodies(1);
    assert_eq!(one.len(), 200);
    assert_eq!(one, bodies(3));
}

#[test]
fn users_wait_for_their_answers() {
    let server = Server::start(|_, socket| {
        pause(Duration::from_millis(5));
        ok(socket, "x")
    });
    let source = Source::Closed { users: NonZeroU64::new(4).unwrap(), think: Duration::ZERO };
    let finished = finish(&options(&server.url(), source, 200, ""));
    assert_eq!(finished.measured.ok, 200);
    assert_eq!(finished.work.connections, 4);
    assert!(finished.work.most_in_flight <= 4);
}

#[test]
fn a_stopped_run_says_what_it_left() {
    let server = Server::start(|_, _| {
        pause(Duration::from_secs(3));
        Ok(After::Close)
    });
    let mut options = constant(&server.url(), 50.0, 1_000);
    options.duration = Some(Duration::from_secs(100));
    options.requests = None;
    let before = Instant::now();
    let finished = run(&options, &mut |live| {
        if live.is_some_and(|live| live.second.started > 0) { Control::Stop } else { Control::Continue }
    });
    let finished = finished.unwrap();
    assert!(before.elapsed() < Duration::from_secs(3));
    let report = report(&options, &finished);
    assert!(report.stopped && report.requests.unfinished >= 40, "{:?}", report.requests);
    assert_eq!(report.requests.failed, 0);
}

#[test]
fn the_warm_up_is_not_measured() {
    let server = Server::start(|request, socket| {
        if request.line.contains("seq") {
            return Ok(After::Close);
        }
        ok(socket, "x")
    });
    let mut options = constant(&server.url(), 100.0, 100);
    options.warm_up = Duration::from_millis(500);
    let finished = finish(&options);
    assert_eq!((finished.measured.ok, finished.measured.dispatched), (50, 50));
}

#[test]
fn a_run_without_an_end_is_refused() {
    let server = Server::start(|_, socket| ok(socket, "x"));
    let mut options = constant(&server.url(), 1.0, 1);
    options.requests = None;
    assert!(run(&options, &mut |_| Control::Continue).is_err());
}
