//! From a request that is due to the end of its answer.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use super::connection::{Exchange, Slot, connect, is_our_own};
use super::deadlines::Deadline;
use super::poller::Ready;
use super::worker::Worker;
use crate::load::http::Progress;
use crate::load::outcome::Failure;
use crate::load::schedule::Due;
use crate::load::statistics::Answer;

impl Worker {
    /// Puts a request on an idle connection, else on a new one; else it waits.
    pub(super) fn dispatch(&mut self, due: Due) {
        if let Some(index) = self.idle.pop() {
            self.start(index, due);
        } else if self.may_open() {
            self.open(Exchange::new(due));
        } else {
            self.waiting.push_back(due);
        }
    }

    /// Whether a request that waits can be sent.
    pub(super) fn has_room(&self) -> bool {
        !self.idle.is_empty() || self.may_open()
    }

    fn may_open(&self) -> bool {
        self.slots.len() - self.free.len() < self.max_connections
    }

    /// Opens a connection for a request.
    fn open(&mut self, exchange: Exchange) {
        self.work.connections += 1;
        let opened = connect(self.shared.address);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(self.shared.reading, self.shared.plan.is_head()));
            self.slots.len() - 1
        });
        self.register(index, exchange);
        let (socket, connected) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.refused(index, error),
        };
        let slot = &mut self.slots[index];
        (slot.connected, slot.wants_write, slot.carried) = (connected, !connected, 0);
        if let Err(error) = self.poller.add(&socket, slot.token(index), !connected) {
            return self.fail(index, Failure::Generator, || format!("cannot watch a socket: {error}"));
        }
        slot.socket = Some(socket);
        if connected {
            self.write(index);
        }
    }

    /// Notes a request on a slot.
    fn register(&mut self, index: usize, mut exchange: Exchange) {
        if exchange.again {
            self.deadlines.moved(exchange.number, index);
        } else {
            exchange.number = self.exchanges;
            self.exchanges += 1;
            let at = exchange.due.at.saturating_add(self.shared.timeout);
            self.deadlines.push(Deadline { at, exchange: exchange.number, slot: index });
        }
        let slot = &mut self.slots[index];
        slot.parser.reset();
        slot.body.reset();
        slot.exchange = Some(exchange);
        self.in_flight += 1;
    }

    /// Starts a request on a connection that is idle.
    fn start(&mut self, index: usize, due: Due) {
        let reused = self.slots[index].carried > 0;
        self.register(index, Exchange { reused, ..Exchange::new(due) });
        self.write(index);
    }

    /// A socket is ready for something.
    pub(super) fn handle(&mut self, event: Ready) {
        let index = usize::try_from(event.token & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let known = self.slots.get(index).is_some_and(|slot| slot.socket.is_some() && slot.token(index) == event.token);
        if !known {
            return;
        }
        if !self.slots[index].connected {
            if event.writable {
                self.connected(index);
            }
            return;
        }
        if event.writable && self.slots[index].wants_write {
            self.write(index);
        }
        // Writing may have failed, and the slot be another connection's.
        let same = self.slots[index].socket.is_some() && self.slots[index].token(index) == event.token;
        if event.readable && same {
            self.read(index);
        }
    }

    fn connected(&mut self, index: usize) {
        let Some(socket) = &self.slots[index].socket else { return };
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => {
                self.slots[index].connected = true;
                self.write(index);
            }
            Ok(Err(error)) | Err(error) => self.refused(index, error),
        }
    }

    fn refused(&mut self, index: usize, error: Errno) {
        let class = if is_our_own(error) { Failure::Generator } else { Failure::Connect };
        self.fail(index, class, || std::io::Error::from(error).to_string());
    }

    /// Writes what is left of a request.
    fn write(&mut self, index: usize) {
        let now = self.now();
        let slot = &mut self.slots[index];
        let (Some(socket), Some(exchange)) = (&slot.socket, &mut slot.exchange) else { return };
        let bytes = self.shared.plan.bytes(exchange.due.sequence, &mut self.scratch);
        if exchange.written == 0 {
            exchange.written_at = now;
        }
        self.work.writes += 1;
        match rustix::net::send(socket, &bytes[exchange.written..], SendFlags::NOSIGNAL) {
            Ok(count) => exchange.written += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return self.broken(index, error),
        }
        exchange.complete = exchange.written == bytes.len();
        let wants_write = !exchange.complete;
        if wants_write != slot.wants_write {
            slot.wants_write = wants_write;
            let token = slot.token(index);
            if let Err(error) = self.poller.change(socket, token, wants_write) {
                self.fail(index, Failure::Generator, || format!("cannot watch a socket: {error}"));
            }
        }
    }

    /// Reads what there is.
    fn read(&mut self, index: usize) {
        self.work.reads += 1;
        let Some(socket) = &self.slots[index].socket else { return };
        match rustix::net::recv(socket, self.buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((_, 0)) => self.ended(index),
            Ok((_, count)) => self.received(index, count),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.broken(index, error),
        }
    }

    fn received(&mut self, index: usize, count: usize) {
        let now = self.now();
        let slot = &mut self.slots[index];
        let Some(exchange) = slot.exchange else {
            // Nobody asked: this connection cannot be trusted.
            return self.close_idle(index);
        };
        let body = &mut slot.body;
        match slot.parser.feed(&self.buffer[..count], &mut |data| body.feed(data, now)) {
            Ok(Progress::More) => {}
            Ok(Progress::Done { reusable }) => self.complete(index, now, reusable && exchange.complete),
            Err(problem) => self.fail(index, Failure::Protocol, || problem.to_string()),
        }
    }

    /// The server closed the connection.
    fn ended(&mut self, index: usize) {
        let now = self.now();
        let slot = &mut self.slots[index];
        if slot.exchange.is_none() {
            return self.close_idle(index);
        }
        match slot.parser.finish() {
            Ok(_) => self.complete(index, now, false),
            Err(problem) if slot.parser.has_started() => self.fail(index, Failure::Cut, || problem.to_string()),
            Err(_) => self.broken(index, Errno::CONNRESET),
        }
    }

    /// The connection broke. An idle one may be closed by the server at any time: a request that met this moment, and no
    /// byte of an answer, is sent once more.
    fn broken(&mut self, index: usize, error: Errno) {
        let slot = &self.slots[index];
        let Some(exchange) = slot.exchange else { return self.close_idle(index) };
        if slot.parser.has_started() {
            return self.fail(index, Failure::Cut, || std::io::Error::from(error).to_string());
        }
        if !exchange.reused || exchange.again {
            return self.fail(index, Failure::Reset, || std::io::Error::from(error).to_string());
        }
        self.work.again += 1;
        self.in_flight -= 1;
        self.close(index);
        self.open(Exchange { again: true, reused: false, written: 0, complete: false, ..exchange });
    }

    /// The answer is here.
    fn complete(&mut self, index: usize, now: u64, reusable: bool) {
        let slot = &mut self.slots[index];
        let Some(exchange) = slot.exchange.take() else { return };
        self.in_flight -= 1;
        let (due, status) = (exchange.due.at, slot.parser.status());
        let body_bytes = slot.body.length();
        let judged = self.shared.expectation.judge_status(status);
        let judged = judged.map_err(|class| (class, format!("status {status}")));
        match judged.and_then(|()| slot.body.judge(&self.shared.expectation, now)) {
            Ok(tokens) => {
                let answer = Answer { due, written: exchange.written_at, finished: now, body_bytes, tokens };
                self.tally.answered(&answer);
            }
            Err((class, message)) => self.tally.failed(due, now, class, || message),
        }
        slot.carried += 1;
        if reusable {
            self.idle.push(index);
        } else {
            self.close(index);
        }
        self.schedule.settled(now, false);
    }

    /// Counts a failure and gives the connection up.
    pub(super) fn fail(&mut self, index: usize, class: Failure, message: impl FnOnce() -> String) {
        let now = self.now();
        if let Some(exchange) = self.slots[index].exchange.take() {
            self.in_flight -= 1;
            self.tally.failed(exchange.due.at, now, class, message);
            self.schedule.settled(now, matches!(class, Failure::Connect | Failure::Generator | Failure::Reset));
        }
        self.close(index);
    }

    fn close_idle(&mut self, index: usize) {
        self.idle.retain(|idle| *idle != index);
        self.close(index);
    }

    fn close(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        // Closing takes the socket out of the poller too.
        slot.socket = None;
        slot.exchange = None;
        slot.connected = false;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
    }
}

impl Exchange {
    fn new(due: Due) -> Self {
        Self { due, number: 0, written_at: 0, written: 0, complete: false, reused: false, again: false }
    }
}
