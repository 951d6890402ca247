//! Server-sent events: the data of each event, from bytes in pieces of any size.

/// Bytes that one event may have.
const MAX_EVENT: usize = 1 << 20;

/// Splits a stream into events.
#[derive(Debug, Default)]
pub struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

/// An event grew past the bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooLong;

impl Events {
    /// Ready for another stream.
    pub fn reset(&mut self) {
        self.line.clear();
        self.data.clear();
        self.has_data = false;
    }

    /// Calls `event` with the data of each complete event.
    pub fn feed(&mut self, bytes: &[u8], event: &mut impl FnMut(&[u8])) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            if self.line.is_empty() {
                self.end_line(&rest[..end], event);
            } else {
                self.line.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut self.line);
                self.end_line(&line, event);
                self.line = line;
                self.line.clear();
            }
            rest = &rest[end + 1..];
            self.within_bounds()?;
        }
        self.line.extend_from_slice(rest);
        self.within_bounds()
    }

    fn end_line(&mut self, line: &[u8], event: &mut impl FnMut(&[u8])) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if self.has_data {
                event(&self.data);
            }
            self.data.clear();
            self.has_data = false;
        } else if let Some(data) = line.strip_prefix(b"data:") {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            self.has_data = true;
        }
    }

    fn within_bounds(&self) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() > MAX_EVENT { Err(TooLong) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8], step: usize) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for piece in text.chunks(step) {
            events.feed(piece, &mut |data| found.push(String::from_utf8(data.to_vec()).unwrap())).unwrap();
        }
        found
    }

    #[test]
    fn pieces_of_any_size_give_the_same_events() {
        let text =
            b": comment\nevent: x\ndata: one\r\n\r\ndata:two\ndata: lines\n\nid: 3\n\ndata: [DONE]\n\ndata: open";
        for step in 1..=text.len() {
            assert_eq!(split(text, step), ["one", "two\nlines", "[DONE]"], "{step}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 16];
        assert!((0..20).any(|_| events.feed(&piece, &mut |_| {}).is_err()));
        let mut events = Events::default();
        assert!((0..200_000).any(|_| events.feed(b"data: abcdef\n", &mut |_| {}).is_err()));
    }
}
