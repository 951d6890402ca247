//! Servers of the tests: a thread a connection, a closure an answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// A request as it came.
#[derive(Debug, Default)]
pub struct Request {
    pub line: String,
    pub body: Vec<u8>,
    /// Its number on its connection.
    pub number: usize,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum After {
    Keep,
    Close,
}

pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers every request with `answer`; connections without a request (such as the first look) are let go.
    pub fn start(answer: impl Fn(&Request, &mut TcpStream) -> std::io::Result<After> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, connections, answer) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&connections));
        let accepting = std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if stopping.load(Ordering::SeqCst) {
                    break;
                }
                counting.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                // Ends when the client closes the connection.
                std::thread::spawn(move || converse(socket, answer.as_ref()));
            }
        });
        Self { address, connections, stop, accepting: Some(accepting) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _woken = TcpStream::connect(self.address);
        self.accepting.take().map(JoinHandle::join);
    }
}

fn converse(socket: TcpStream, answer: &dyn Fn(&Request, &mut TcpStream) -> std::io::Result<After>) {
    socket.set_nodelay(true).unwrap();
    let mut writer = socket.try_clone().unwrap();
    let mut reader = BufReader::new(socket);
    for number in 0.. {
        let Some(request) = read_request(&mut reader, number) else { return };
        if answer(&request, &mut writer).ok() != Some(After::Keep) {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>, number: usize) -> Option<Request> {
    let (mut request, mut length) = (Request { number, ..Request::default() }, 0);
    reader.read_line(&mut request.line).ok().filter(|count| *count > 0)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|count| *count > 0)?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.trim().parse().ok()?;
        }
    }
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// A good answer.
pub fn ok(socket: &mut TcpStream, body: &str) -> std::io::Result<After> {
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(answer.as_bytes())?;
    Ok(After::Keep)
}

/// Waits, without sleeping past a stop: servers are threads of their own.
pub fn pause(duration: std::time::Duration) {
    let (_never, wait) = std::sync::mpsc::channel::<()>();
    let _timeout = wait.recv_timeout(duration);
}
