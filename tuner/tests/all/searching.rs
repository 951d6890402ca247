//! The rate search against a server whose limit is known.

use std::time::Duration;

use modelway_tuner::load::drive::{Found, certify_requests, search};
use modelway_tuner::load::search::{Outcome, Settings};
use modelway_tuner::load::{Constraint, Control};

use crate::constant;
use crate::server::{Server, ok, pause};

/// One request at a time, 10 ms each: 100 requests/s at most.
fn one_at_a_time() -> Server {
    let turn = parking_lot::Mutex::new(());
    Server::start(move |_, socket| {
        let _turn = turn.lock();
        pause(Duration::from_millis(10));
        ok(socket, "x")
    })
}

fn quick(constraints: &[Constraint]) -> Settings {
    Settings {
        prediction: Some((60_f64.ln(), 0.4)),
        probe: Duration::from_secs(1),
        certify: Duration::from_secs(1),
        precision: 0.3,
        ..Settings::new(certify_requests(constraints))
    }
}

#[test]
fn the_certified_rate_is_below_what_the_server_can_do() {
    let server = one_at_a_time();
    let mut options = constant(&server.url(), 1.0, 1);
    options.timeout = Duration::from_secs(2);
    options.constraints = vec!["p95<=150ms".parse().unwrap(), "errors<=1%".parse().unwrap()];
    // Fewer requests than the share of errors needs: the latency is what is looked for.
    let settings = quick(&options.constraints[..1]);
    options.constraints.truncate(1);
    // A busy machine may hold the generator up, and the search then says so instead of guessing: it is made again.
    let mut searches = (0..5).map(|_| search(&options, settings, &mut |_, _| Control::Continue).unwrap());
    let of_server = |found: &Found| match found.outcome {
        Outcome::Certified { rate, .. } | Outcome::Uncertain { rate: Some(rate) } => Some(rate),
        Outcome::Infeasible | Outcome::GeneratorBound { .. } | Outcome::Uncertain { rate: None } => None,
    };
    let found = searches.find(|found| of_server(found).is_some()).unwrap();
    let rate = of_server(&found).unwrap();
    assert!((15.0..110.0).contains(&rate), "{rate}: {:?}", found.tried);
    assert!(found.tried.iter().any(|tried| !tried.good || tried.step == "certify"));
}

#[test]
fn constraints_that_nobody_can_meet_end_the_search_at_once() {
    let server = one_at_a_time();
    let mut options = constant(&server.url(), 1.0, 1);
    options.constraints = vec!["p95<=2ms".parse().unwrap()];
    let settings = Settings { prediction: None, ..quick(&options.constraints) };
    let found = search(&options, settings, &mut |_, _| Control::Continue).unwrap();
    assert_eq!((found.outcome, found.tried.len()), (Outcome::Infeasible, 1));
}

#[test]
fn constraints_that_every_rate_meets_are_refused() {
    let mut options = constant("http://127.0.0.1:9/", 1.0, 1);
    for constraint in ["errors<=1%", "mean<=1s", "rate>=5"] {
        options.constraints = constraint.parse().into_iter().collect();
        assert!(search(&options, quick(&options.constraints), &mut |_, _| Control::Continue).is_err(), "{constraint}");
    }
}
