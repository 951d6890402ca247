//! Services of the tests: threads of this process, whose behaviour follows from their command line.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use modelway_tuner::local::{Exit, Launcher, Order, Process};
use parking_lot::Mutex;

use crate::server::pause;

/// What a service does.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers after so long.
    Good(Duration),
    /// Ends at once with this code and last line.
    Ends(i32, &'static str),
    /// Answers so many requests, then ends with this code.
    DiesAfter(usize, i32),
    /// Never listens.
    Silent,
    /// Answers 503 to the first so many requests, and to each tenth of the rest.
    Flapping(usize),
    /// Answers 500 always, once it was ready.
    Fails(usize),
}

type Behave = dyn Fn(&[String]) -> Behaviour;

/// Starts services; counts those that run.
pub struct Fakes {
    behave: Box<Behave>,
    pub running: Arc<AtomicUsize>,
    pub started: Arc<Mutex<Vec<Order>>>,
}

impl Fakes {
    /// `behave` says what a command line does. The last argument is the port.
    pub fn new(behave: impl Fn(&[String]) -> Behaviour + 'static) -> Self {
        Self { behave: Box::new(behave), running: Arc::default(), started: Arc::default() }
    }
}

impl Launcher for Fakes {
    fn start(&mut self, order: &Order) -> Result<Box<dyn Process>, String> {
        self.started.lock().push(order.clone());
        let behaviour = (self.behave)(&order.command);
        let shared = Arc::new(Shared { behaviour, ..Shared::default() });
        self.running.fetch_add(1, Ordering::SeqCst);
        let port = order.command.last().and_then(|port| port.parse::<u16>().ok());
        match (&shared.behaviour, port) {
            (Behaviour::Ends(code, line), _) => shared.end(*code, line),
            (Behaviour::Silent, _) | (_, None) => {}
            (_, Some(port)) => {
                let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| error.to_string())?;
                listener.set_nonblocking(true).unwrap();
                let serving = Arc::clone(&shared);
                std::thread::spawn(move || serve(&listener, &serving));
            }
        }
        Ok(Box::new(Fake { shared, running: Arc::clone(&self.running), counted: true }))
    }
}

#[derive(Debug)]
struct Shared {
    behaviour: Behaviour,
    stop: AtomicBool,
    answered: AtomicUsize,
    exit: Mutex<Option<Exit>>,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            behaviour: Behaviour::Silent,
            stop: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
            exit: Mutex::default(),
            sockets: Mutex::default(),
        }
    }
}

impl Shared {
    fn end(&self, code: i32, line: &str) {
        self.exit.lock().get_or_insert(Exit { code, log: vec![line.to_owned()], ..Exit::default() });
        self.stop.store(true, Ordering::SeqCst);
        for socket in self.sockets.lock().drain(..) {
            let _gone = socket.shutdown(Shutdown::Both);
        }
    }
}

struct Fake {
    shared: Arc<Shared>,
    running: Arc<AtomicUsize>,
    counted: bool,
}

impl Process for Fake {
    fn ended(&mut self) -> Option<Exit> {
        let exit = self.shared.exit.lock().clone();
        if exit.is_some() && std::mem::take(&mut self.counted) {
            self.running.fetch_sub(1, Ordering::SeqCst);
        }
        exit
    }

    fn stop(&mut self, _grace: Duration) -> Exit {
        self.shared.end(143, "asked to end");
        self.ended().unwrap()
    }

    fn log(&self) -> Vec<String> {
        vec!["still starting".to_owned()]
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    while !shared.stop.load(Ordering::SeqCst) {
        let Ok((socket, _)) = listener.accept() else {
            pause(Duration::from_millis(1));
            continue;
        };
        socket.set_nonblocking(false).unwrap();
        shared.sockets.lock().push(socket.try_clone().unwrap());
        let shared = Arc::clone(shared);
        std::thread::spawn(move || converse(&socket, &shared));
    }
}

fn converse(mut socket: &TcpStream, shared: &Shared) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        while line.trim() != "" {
            line.clear();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        }
        let number = shared.answered.fetch_add(1, Ordering::SeqCst);
        let status = match &shared.behaviour {
            Behaviour::Good(delay) => {
                pause(*delay);
                200
            }
            Behaviour::DiesAfter(most, code) if number >= *most => {
                shared.end(*code, "assertion failed");
                return None;
            }
            Behaviour::Flapping(first) if number < *first || number.is_multiple_of(10) => 503,
            Behaviour::Fails(first) if number >= *first => 500,
            _ => 200,
        };
        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\nok");
        socket.write_all(answer.as_bytes()).ok()?;
    }
}
