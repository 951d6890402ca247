//! The container log: `<RFC 3339 time> <stream> <F|P> <text>` lines, as container runtimes write them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::record::now;

/// Longer lines are written in parts (tag `P`), so that memory stays bounded.
const LINE_LIMIT: usize = 16 << 10;

/// Which output of the container a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Cuts bytes into log lines and appends them to a file of bounded size. A full disk loses lines, never stops the container.
pub struct LogWriter {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    limit: u64,
    partial: [Vec<u8>; 2],
}

impl LogWriter {
    pub fn open(path: &Path, limit: u64) -> Self {
        let file = append(path).ok();
        let size = file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |data| data.len());
        Self { path: path.to_owned(), file, size, limit: limit.max(1), partial: [Vec::new(), Vec::new()] }
    }

    pub fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let mut pending = std::mem::take(&mut self.partial[stream as usize]);
        let mut out = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            for piece in part.chunks(LINE_LIMIT) {
                pending.extend_from_slice(piece);
                if pending.last() == Some(&b'\n') {
                    pending.pop();
                    line(&mut out, stream, 'F', &pending);
                    pending.clear();
                } else if pending.len() >= LINE_LIMIT {
                    line(&mut out, stream, 'P', &pending);
                    pending.clear();
                }
            }
        }
        self.partial[stream as usize] = pending;
        self.append(&out);
    }

    /// Writes what is left without a newline.
    pub fn finish(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let pending = std::mem::take(&mut self.partial[stream as usize]);
            if !pending.is_empty() {
                let mut out = Vec::new();
                line(&mut out, stream, 'P', &pending);
                self.append(&out);
            }
        }
    }

    fn append(&mut self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        if self.size > self.limit {
            self.rotate();
        }
        if self.file.is_none() {
            self.file = append(&self.path).ok();
        }
        if let Some(file) = &mut self.file
            && file.write_all(lines).is_ok()
        {
            self.size += lines.len() as u64;
        }
    }

    fn rotate(&mut self) {
        self.file = None;
        self.size = 0;
        let _ = std::fs::rename(&self.path, older(&self.path));
    }
}

/// Where a full log file is moved to.
pub fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn line(out: &mut Vec<u8>, stream: Stream, tag: char, text: &[u8]) {
    out.extend_from_slice(format!("{:.9} {} {tag} ", now(), stream.name()).as_bytes());
    out.extend_from_slice(text);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_streams_apart_and_marks_partial_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = LogWriter::open(&path, 1 << 20);
        log.write(Stream::Stdout, b"one\ntw");
        log.write(Stream::Stderr, b"bad\n");
        log.write(Stream::Stdout, b"o\nend");
        log.finish();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
        assert_eq!(lines, ["stdout F one", "stderr F bad", "stdout F two", "stdout P end"]);
    }

    #[test]
    fn keeps_one_older_file_and_bounds_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = LogWriter::open(&path, 1000);
        for _ in 0..200 {
            log.write(Stream::Stdout, b"a line of text\n");
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 1200);
        assert!(std::fs::metadata(older(&path)).unwrap().len() < 1200);
    }

    #[test]
    fn cuts_endless_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = LogWriter::open(&path, 1 << 20);
        log.write(Stream::Stdout, &vec![b'x'; 40_000]);
        log.finish();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.contains(" stdout P x")));
    }
}
