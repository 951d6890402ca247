//! The bytes of each request, as a function of its number.

use crate::load::body::{Filling, Payload, Table, Template};
use crate::load::{LoadError, Target};

/// Everything that is sent.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    method: String,
    path: Template,
    /// Header lines, without the length of the body.
    headers: Vec<u8>,
    payload: Payload,
    table: Option<Table>,
    seed: u64,
    /// Every request, when they are all the same.
    fixed: Option<Vec<u8>>,
}

impl RequestPlan {
    /// Checks method, path and headers; a `host` among the headers replaces the URL's.
    pub fn new(
        method: &str,
        target: &Target,
        headers: &[(String, String)],
        payload: Payload,
        table: Option<Table>,
        seed: u64,
    ) -> Result<Self, LoadError> {
        let method = http::Method::from_bytes(method.as_bytes())
            .map_err(|_| LoadError::Input(format!("{method:?} is no method of HTTP")))?;
        let path = Template::parse(target.path.as_bytes(), table.as_ref()).map_err(LoadError::Input)?;
        let headers = header_lines(headers, &target.authority)?;
        let mut plan = Self { method: method.to_string(), path, headers, payload, table, seed, fixed: None };
        if plan.path.is_fixed() && plan.payload.is_fixed() {
            let (mut bytes, mut body) = (Vec::new(), Vec::new());
            plan.write(0, &mut bytes, &mut body);
            plan.fixed = Some(bytes);
        }
        Ok(plan)
    }

    /// Whether an answer has no body whatever its headers say.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Bytes of request `sequence`; `scratch` is used when they must be made.
    pub fn bytes<'a>(&'a self, sequence: u64, scratch: &'a mut Scratch) -> &'a [u8] {
        if let Some(fixed) = &self.fixed {
            return fixed;
        }
        self.write(sequence, &mut scratch.request, &mut scratch.body);
        &scratch.request
    }

    fn write(&self, sequence: u64, into: &mut Vec<u8>, body: &mut Vec<u8>) {
        into.clear();
        body.clear();
        self.payload.fill(sequence, self.seed, self.table.as_ref(), body);
        into.extend_from_slice(self.method.as_bytes());
        into.push(b' ');
        self.path.fill(sequence, self.seed, self.table.as_ref(), Filling::Path, into);
        into.extend_from_slice(b" HTTP/1.1\r\n");
        into.extend_from_slice(&self.headers);
        if !body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") {
            into.extend_from_slice(b"content-length: ");
            into.extend_from_slice(body.len().to_string().as_bytes());
            into.extend_from_slice(b"\r\n");
        }
        into.extend_from_slice(b"\r\n");
        into.extend_from_slice(body);
    }
}

/// Buffers that requests are made in.
#[derive(Debug, Default)]
pub struct Scratch {
    request: Vec<u8>,
    body: Vec<u8>,
}

fn header_lines(headers: &[(String, String)], authority: &str) -> Result<Vec<u8>, LoadError> {
    let mut lines = Vec::new();
    let named = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !named("host") {
        lines.extend_from_slice(format!("host: {authority}\r\n").as_bytes());
    }
    for (name, value) in headers {
        let wrong = |problem: &str| LoadError::Input(format!("header {name:?}: {problem}"));
        http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("is no name of a header"))?;
        http::HeaderValue::from_str(value).map_err(|_| wrong("has a value that no header may have"))?;
        if ["content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(wrong("is written by the generator"));
        }
        lines.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if !named("user-agent") {
        lines.extend_from_slice(concat!("user-agent: modelway-load/", env!("CARGO_PKG_VERSION"), "\r\n").as_bytes());
    }
    if !named("accept") {
        lines.extend_from_slice(b"accept: */*\r\n");
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(method: &str, headers: &[(&str, &str)], body: &str) -> Result<RequestPlan, LoadError> {
        let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let payload = match body {
            "" => Payload::Empty,
            text => Payload::Template(Template::parse(text.as_bytes(), None).unwrap()),
        };
        RequestPlan::new(method, &Target::parse("http://a:1/x?n={{seq}}").unwrap(), &headers, payload, None, 1)
    }

    fn text(plan: &RequestPlan, sequence: u64) -> String {
        String::from_utf8(plan.bytes(sequence, &mut Scratch::default()).to_vec()).unwrap()
    }

    #[test]
    fn a_request_has_its_length_and_its_host() {
        let plan = plan("POST", &[("Host", "b"), ("content-type", "text/plain")], "n={{seq}}").unwrap();
        let text = text(&plan, 10);
        assert!(text.starts_with("POST /x?n=10 HTTP/1.1\r\nHost: b\r\ncontent-type: text/plain\r\n"), "{text}");
        assert!(text.ends_with("content-length: 4\r\n\r\nn=10"), "{text}");
        assert!(!text.contains("host: a"));
    }

    #[test]
    fn a_get_has_no_length() {
        assert!(!text(&plan("GET", &[], "").unwrap(), 0).contains("content-length"));
        assert!(text(&plan("PUT", &[], "").unwrap(), 0).contains("content-length: 0"));
    }

    #[test]
    fn headers_cannot_break_the_request() {
        for (name, value) in [("x", "a\r\ny: b"), ("x y", "a"), ("", "a"), ("Content-Length", "7")] {
            assert!(plan("GET", &[(name, value)], "").is_err(), "{name}: {value}");
        }
        assert!(plan("G T", &[], "").is_err());
    }
}
