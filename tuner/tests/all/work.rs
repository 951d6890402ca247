//! What the generator does for one request: counted, so that a slower way is seen without a clock.

use std::num::NonZeroU64;
use std::time::Duration;

use modelway_tuner::load::Source;

use crate::server::{Server, ok};
use crate::{finish, options};

#[test]
fn a_request_is_one_write_and_one_read() {
    let server = Server::start(|_, socket| ok(socket, "hello"));
    let source = Source::Closed { users: NonZeroU64::new(2).unwrap(), think: Duration::ZERO };
    let finished = finish(&options(&server.url(), source, 1_000, ""));
    assert_eq!(finished.measured.ok, 1_000);
    assert_eq!((finished.work.writes, finished.work.reads, finished.work.connections), (1_000, 1_000, 2));
    assert!(finished.work.waits <= 2_100, "{:?}", finished.work);
}
