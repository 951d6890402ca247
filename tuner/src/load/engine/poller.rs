//! Waiting for sockets and for a moment, whichever is first; exact to some ten microseconds.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Events that one call takes.
const CAPACITY: usize = 256;
/// A shorter wait costs more than it saves.
const SHORTEST_SLEEP: u64 = 10_000;
/// `epoll_wait` counts milliseconds and rounds up; longer waits can bear that.
const LONG: u64 = 20_000_000;

/// Sockets of one thread.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
}

impl Poller {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(CAPACITY) })
    }

    pub fn add(&self, socket: &OwnedFd, token: u64, writable: bool) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), interest(writable))?)
    }

    pub fn change(&self, socket: &OwnedFd, token: u64, writable: bool) -> std::io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(token), interest(writable))?)
    }

    /// Waits at most so many nanoseconds; gives how many sockets are ready.
    pub fn wait(&mut self, nanos: u64) -> std::io::Result<usize> {
        let mut epoll_for = 0;
        if nanos >= LONG {
            // A millisecond less, because it rounds up.
            epoll_for = nanos - 1_000_000;
        } else if nanos >= SHORTEST_SLEEP {
            // An epoll is itself a file that can be polled, and `ppoll` counts nanoseconds.
            let mut own = [PollFd::from_borrowed_fd(self.epoll.as_fd(), PollFlags::IN)];
            if uninterrupted(rustix::event::poll(&mut own, Some(&timespec(nanos))))? == 0 {
                self.events.clear();
                return Ok(0);
            }
        }
        self.events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        uninterrupted(epoll::wait(&self.epoll, buffer, Some(&timespec(epoll_for))))?;
        Ok(self.events.len())
    }

    /// One of the ready sockets.
    pub fn ready(&self, index: usize) -> Ready {
        let Event { flags, data, .. } = self.events[index];
        let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        Ready {
            token: data.u64(),
            readable: broken || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
            writable: broken || flags.contains(EventFlags::OUT),
        }
    }
}

fn interest(writable: bool) -> EventFlags {
    let reading = EventFlags::IN | EventFlags::RDHUP;
    if writable { reading | EventFlags::OUT } else { reading }
}

/// A signal is no failure, and nothing is ready.
fn uninterrupted(result: Result<usize, Errno>) -> std::io::Result<usize> {
    match result {
        Err(Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

fn timespec(nanos: u64) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(nanos / 1_000_000_000), tv_nsec: part(nanos % 1_000_000_000) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_ends_the_wait() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let left = OwnedFd::from(left);
        let mut poller = Poller::new().unwrap();
        poller.add(&left, 7, false).unwrap();
        assert_eq!(poller.wait(100_000).unwrap(), 0);
        right.write_all(b"x").unwrap();
        for nanos in [0, 5_000_000_000, 100_000_000_000] {
            assert_eq!(poller.wait(nanos).unwrap(), 1);
        }
        let ready = poller.ready(0);
        assert!(ready.token == 7 && ready.readable && !ready.writable);
        poller.change(&left, 8, true).unwrap();
        assert_eq!(poller.wait(0).unwrap(), 1);
        assert!(poller.ready(0).writable);
    }
}
