//! One connection, and the request that is on it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::answers::{BodyReader, Reading};
use crate::load::http::ResponseParser;
use crate::load::schedule::Due;

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    pub due: Due,
    /// Its number in this thread; they only grow.
    pub number: u64,
    /// When its first byte was written.
    pub written_at: u64,
    /// Bytes that are written.
    pub written: usize,
    pub complete: bool,
    /// On a connection that had carried another one.
    pub reused: bool,
    /// Sent anew, because the server had closed the connection before it.
    pub again: bool,
}

/// Place of a connection; its buffers outlive it.
#[derive(Debug)]
pub struct Slot {
    pub socket: Option<OwnedFd>,
    /// Tells events of an earlier connection in the same place apart.
    pub generation: u32,
    pub connected: bool,
    /// Whether it waits until it can be written to.
    pub wants_write: bool,
    /// Requests that it has carried.
    pub carried: u64,
    pub exchange: Option<Exchange>,
    pub parser: ResponseParser,
    pub body: BodyReader,
}

impl Slot {
    pub fn new(reading: Reading, no_body: bool) -> Self {
        Self {
            socket: None,
            generation: 0,
            connected: false,
            wants_write: false,
            carried: 0,
            exchange: None,
            parser: ResponseParser::new(no_body),
            body: BodyReader::new(reading),
        }
    }

    /// What the poller calls it.
    pub fn token(&self, index: usize) -> u64 {
        u64::from(self.generation) << 32 | index as u64
    }
}

/// Begins to connect; whether it is connected already.
pub fn connect(address: SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => Ok((socket, true)),
        Err(Errno::INPROGRESS) => Ok((socket, false)),
        Err(error) => Err(error),
    }
}

/// Whether an error is for want of something on this machine.
pub fn is_our_own(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM)
}
