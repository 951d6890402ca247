//! Each way to fail has its class, and none holds the generator up or fills its memory.

use std::io::Write;
use std::time::{Duration, Instant};

use modelway_tuner::load::outcome::{Expectation, Failure};
use modelway_tuner::load::{LoadError, Source};
use rustix::net::sockopt;

use crate::server::{After, Server, ok, pause};
use crate::{constant, finish, only, options};

#[test]
fn a_server_that_is_not_there_is_no_measurement() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = modelway_tuner::load::run(&constant(&format!("http://{address}"), 10.0, 1), &mut |_| {
        modelway_tuner::load::Control::Continue
    });
    assert!(matches!(error, Err(LoadError::Unreachable { .. })), "{error:?}");
}

#[test]
fn a_server_that_goes_away_refuses_connections() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let first_look = std::thread::spawn(move || listener.accept().map(|_| ()));
    // The listener is closed with its only connection, before the first request is due.
    let mut options = constant(&url, 100.0, 20);
    options.source =
        Source::Open(modelway_tuner::load::Pattern::Trace { offsets: vec![Duration::from_millis(300); 20].into() });
    let finished = finish(&options);
    first_look.join().unwrap().unwrap();
    assert_eq!(only(&finished, Failure::Connect), 20);
}

#[test]
fn a_connection_that_is_reset_before_the_answer() {
    let server = Server::start(|_, socket| {
        sockopt::set_socket_linger(&*socket, Some(Duration::ZERO)).unwrap();
        Ok(After::Close)
    });
    assert_eq!(only(&finish(&constant(&server.url(), 200.0, 20)), Failure::Reset), 20);
}

#[test]
fn a_body_that_is_cut_off() {
    for head in ["content-length: 100", "transfer-encoding: chunked"] {
        let server = Server::start(move |_, socket| {
            socket.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n").as_bytes())?;
            Ok(After::Close)
        });
        assert_eq!(only(&finish(&constant(&server.url(), 200.0, 20)), Failure::Cut), 20, "{head}");
    }
}

#[test]
fn garbage_and_endless_headers_are_no_http() {
    let server = Server::start(|_, socket| {
        socket.write_all(b"\x16\x03\x01 garbage")?;
        Ok(After::Keep)
    });
    assert_eq!(only(&finish(&constant(&server.url(), 200.0, 10)), Failure::Protocol), 10);
    let server = Server::start(|_, socket| {
        socket.write_all(b"HTTP/1.1 200 OK\r\n")?;
        loop {
            socket.write_all(b"x-header: and so on and so on\r\n")?;
        }
    });
    assert_eq!(only(&finish(&constant(&server.url(), 200.0, 10)), Failure::Protocol), 10);
}

#[test]
fn an_answer_that_never_ends_times_out() {
    let server = Server::start(|_, socket| {
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            socket.write_all(&[b'x'; 1000])?;
            pause(Duration::from_millis(20));
        }
    });
    let mut options = constant(&server.url(), 100.0, 10);
    options.timeout = Duration::from_millis(300);
    let before = Instant::now();
    assert_eq!(only(&finish(&options), Failure::Timeout), 10);
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn statuses_and_bodies_that_are_not_expected() {
    let server = Server::start(|request, socket| {
        if request.line.contains("busy") {
            socket.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(After::Keep);
        }
        ok(socket, "{\"error\": null}")
    });
    let busy = finish(&constant(&format!("{}busy", server.url()), 200.0, 10));
    assert_eq!(only(&busy, Failure::Status5xx), 10);
    assert_eq!(busy.measured.examples[Failure::Status5xx as usize].as_deref(), Some("status 503"));
    assert_eq!(busy.measured.metrics[0].count(), 0, "a failure has no latency");
    let mut options = constant(&server.url(), 200.0, 10);
    options.expectation = Expectation::default().with_body("outputs");
    let finished = finish(&options);
    assert_eq!(only(&finished, Failure::Body), 10);
    assert!(finished.measured.examples[Failure::Body as usize].as_ref().unwrap().contains("{\"error\": null}"));
}

#[test]
fn an_idle_connection_that_the_server_closed_costs_no_request() {
    // It says nothing of closing, which is what a keep-alive timeout looks like.
    let server = Server::start(|request, socket| {
        ok(socket, "x")?;
        Ok(if request.number == 2 { After::Close } else { After::Keep })
    });
    let users = std::num::NonZeroU64::new(2).unwrap();
    let finished = finish(&options(&server.url(), Source::Closed { users, think: Duration::from_millis(1) }, 300, ""));
    assert_eq!((finished.measured.ok, finished.measured.failures()), (300, 0), "{:?}", finished.measured.examples);
    assert!(finished.work.connections >= 100, "{:?}", finished.work);
}

#[test]
fn one_dead_server_does_not_make_users_spin() {
    let server = Server::start(|_, _| Ok(After::Close));
    let users = std::num::NonZeroU64::new(3).unwrap();
    let mut options = options(&server.url(), Source::Closed { users, think: Duration::ZERO }, 1_000_000, "");
    options.duration = Some(Duration::from_millis(500));
    let finished = finish(&options);
    assert!(only(&finished, Failure::Reset) <= 3 * 11, "{}", finished.measured.failures());
}
