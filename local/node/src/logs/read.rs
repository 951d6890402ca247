//! The log as a stream of bytes.

use std::collections::VecDeque;
use std::io::{self, SeekFrom};
use std::path::Path;
use std::time::Duration;

use async_stream::try_stream;
use bytes::Bytes;
use futures::Stream;
use k8s_openapi::jiff::Timestamp;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncSeekExt, BufReader};

use super::line::Line;
use super::{Found, LogRequest};
use crate::shim::older_log;

/// How often a followed log is looked at.
const FOLLOW_PERIOD: Duration = Duration::from_millis(100);
/// Bytes that are collected before they are passed on.
const CHUNK: usize = 32 << 10;

/// Reads the older file of the run, then the current one, then what is appended until the run has ended.
pub fn stream(found: Found, request: LogRequest) -> impl Stream<Item = io::Result<Bytes>> + Send {
    try_stream! {
        let since = since(&request);
        let mut left = request.limit_bytes.unwrap_or(u64::MAX);
        let mut cursor = Cursor::open(&found.log).await?;
        let mut tail = request.tail_lines.map(|count| Tail::new(usize::try_from(count).unwrap_or(usize::MAX)));
        loop {
            // Asked before reading: what was written before the end is then read for sure.
            let has_ended = !request.follow || has_ended(&found).await;
            let mut out = Vec::new();
            while let Some(bytes) = cursor.next(has_ended).await? {
                let line = Line::parse(&bytes);
                if !line.is_since(since) {
                    continue;
                }
                match &mut tail {
                    Some(tail) => tail.push(bytes),
                    None => line.show(&mut out, request.timestamps),
                }
                if out.len() >= CHUNK {
                    yield cut(std::mem::take(&mut out), &mut left);
                }
                if left == 0 {
                    return;
                }
            }
            for bytes in tail.take().into_iter().flat_map(|tail| tail.lines) {
                Line::parse(&bytes).show(&mut out, request.timestamps);
            }
            if !out.is_empty() {
                yield cut(out, &mut left);
            }
            if has_ended || left == 0 {
                return;
            }
            tokio::time::sleep(FOLLOW_PERIOD).await;
        }
    }
}

fn since(request: &LogRequest) -> Option<Timestamp> {
    let seconds = request.since_seconds?;
    Timestamp::now().checked_sub(Duration::from_secs(seconds)).ok()
}

fn cut(mut bytes: Vec<u8>, left: &mut u64) -> Bytes {
    bytes.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= bytes.len() as u64;
    bytes.into()
}

async fn has_ended(found: &Found) -> bool {
    let exists = async |path: &Path| tokio::fs::try_exists(path).await.unwrap_or(false);
    exists(&found.exit_file).await || !exists(found.exit_file.parent().unwrap_or(&found.exit_file)).await
}

/// The last lines of what was read, no more than are wanted.
struct Tail {
    count: usize,
    lines: VecDeque<Vec<u8>>,
}

impl Tail {
    fn new(count: usize) -> Self {
        Self { count, lines: VecDeque::new() }
    }

    fn push(&mut self, line: Vec<u8>) {
        self.lines.push_back(line);
        if self.lines.len() > self.count {
            self.lines.pop_front();
        }
    }
}

/// A place in the files of a run; it survives their rotation.
struct Cursor<'a> {
    log: &'a Path,
    current: BufReader<File>,
    /// Whether the open file is the older one, after which the current one comes.
    is_older: bool,
    partial: Vec<u8>,
}

impl<'a> Cursor<'a> {
    async fn open(log: &'a Path) -> io::Result<Self> {
        let (file, is_older) = match File::open(older_log(log)).await {
            Ok(file) => (file, true),
            Err(_) => (File::open(log).await?, false),
        };
        Ok(Self { log, current: BufReader::new(file), is_older, partial: Vec::new() })
    }

    /// The next complete line; at the end of everything, also an incomplete one when there will be no more.
    async fn next(&mut self, is_final: bool) -> io::Result<Option<Vec<u8>>> {
        loop {
            self.current.read_until(b'\n', &mut self.partial).await?;
            if self.partial.last() == Some(&b'\n') {
                self.partial.pop();
                return Ok(Some(std::mem::take(&mut self.partial)));
            }
            if !self.advance().await? {
                let rest = is_final && !self.partial.is_empty();
                return Ok(rest.then(|| std::mem::take(&mut self.partial)));
            }
        }
    }

    /// At the end of a file: goes on to the newer one, if there is one.
    async fn advance(&mut self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let Ok(next) = File::open(self.log).await else { return Ok(false) };
        let (here, there) = (self.current.get_ref().metadata().await?, next.metadata().await?);
        if here.ino() == there.ino() {
            self.is_older = false;
            return Ok(false);
        }
        if !self.is_older && here.len() > self.current.stream_position().await? {
            // More was written between our last read and the rotation.
            let at = self.current.stream_position().await?;
            self.current.seek(SeekFrom::Start(at)).await?;
            self.is_older = true;
            return Ok(true);
        }
        self.current = BufReader::new(next);
        self.is_older = false;
        self.partial.clear();
        Ok(true)
    }
}
