//! A response that starts before the answer is there: comments keep a stream alive while its request waits.
//!
//! A request that has to wait for its arm, and whose client understands server-sent events (`Accept: text/event-stream`,
//! or `"stream": true` in the small body of a known inference call), waits in silence for a while ([`QUIET`]). When there
//! is no answer by then, the head is sent (200, `text/event-stream`) with a first comment, and a comment follows at the
//! same interval, also while an endpoint works on the first byte: the client cannot tell the two apart. The head is out,
//! so that the answer becomes a part of the body:
//!
//! - an event stream (200) is passed on byte for byte, and its end is the end; when it breaks off, an error comes last;
//! - another successful answer becomes one `data:` event, line for line (none without a body), and the stream ends;
//! - everything else, an answer of this router too, becomes one event `data: {"error": {"message", "type", "param",
//!   "code"}}` as the `OpenAI` protocol has it, with the status as `code` and `Retry-After` as `retry_after`, and the
//!   stream ends. Members of an endpoint's own error are kept. A successful answer that is no text, too long, or broken
//!   off becomes such an event with code 502.
//!
//! `x-modelway-model` is missing in such a response: when its head was sent, no arm had answered. When the client leaves,
//! the body is dropped, and the waiting request and its place with it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};
use modelway_route::request::is_inference_call;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, Sleep};

use crate::body::{BodyError, RequestBody, ResponseBody};

/// Proxies and clients give up on a silent connection after 30 s and more; half of that leaves room.
pub const QUIET: Duration = Duration::from_secs(15);

const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// The longest answer that becomes one event.
const MOST_BYTES: usize = 1 << 20;

const EVENT_STREAM: &str = "text/event-stream";

/// An answer on its way.
pub type Answer = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

/// Whether the client of a request understands a stream of events as its answer.
pub fn is_understood(request: &Request<RequestBody>) -> bool {
    if *request.method() == Method::HEAD {
        return false;
    }
    accepts_events(request.headers())
        || (is_inference_call(request.method().as_str(), request.uri().path())
            && request.body().kept().is_some_and(|body| asks_for_stream(&body)))
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(is_event_stream)
}

/// Parameters do not count.
fn is_event_stream(media_type: &str) -> bool {
    media_type.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(EVENT_STREAM))
}

fn asks_for_stream(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Wish {
        #[serde(default)]
        stream: bool,
    }
    serde_json::from_slice(body).is_ok_and(|wish: Wish| wish.stream)
}

/// The answer, or the start of a stream when it takes longer than `quiet` from `started` on.
pub async fn respond(mut answer: Answer, started: Instant, quiet: Duration) -> Response<ResponseBody> {
    if let Ok(response) = tokio::time::timeout_at(started + quiet, &mut answer).await {
        return response;
    }
    let pause = Box::pin(tokio::time::sleep(Duration::ZERO));
    let patient = Patient(State::Waiting { answer, pause, quiet });
    let mut response = Response::new(ResponseBody::Patient(Box::new(patient)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The body of a response that has started before the answer is there.
pub struct Patient(State);

enum State {
    Waiting { answer: Answer, pause: Pin<Box<Sleep>>, quiet: Duration },
    Collecting { head: Head, body: ResponseBody, text: BytesMut },
    Passing(ResponseBody),
    Ended,
}

/// What of an answer's head its event depends on.
struct Head {
    status: StatusCode,
    retry_after: Option<HeaderValue>,
}

type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

impl Patient {
    /// The next part.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Polled {
        loop {
            match &mut self.0 {
                State::Waiting { answer, pause, quiet } => {
                    if let Poll::Ready(response) = answer.as_mut().poll(context) {
                        self.0 = State::of(response);
                        continue;
                    }
                    if pause.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    pause.as_mut().reset(Instant::now() + *quiet);
                    // Polled again, so that its end wakes this task.
                    let _ = pause.as_mut().poll(context);
                    return data(COMMENT);
                }
                State::Collecting { head, body, text } => {
                    let event = match Pin::new(body).poll_frame(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(Some(Ok(frame))) => {
                            text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                            if text.len() <= MOST_BYTES {
                                continue;
                            }
                            Err("it is too long".to_owned())
                        }
                        Poll::Ready(Some(Err(error))) => Err(error.to_string()),
                        Poll::Ready(None) => Ok(head.event(text)),
                    };
                    self.0 = State::Ended;
                    let event = event.unwrap_or_else(|reason| unusable(&reason));
                    return if event.is_empty() { Poll::Ready(None) } else { data(event) };
                }
                State::Passing(body) => {
                    let polled = Pin::new(body).poll_frame(context);
                    let Poll::Ready(Some(Err(error))) = &polled else { return polled };
                    // An event may be cut in the middle: an empty line ends it.
                    let event = [b"\n\n", unusable(&error.to_string()).as_ref()].concat();
                    self.0 = State::Ended;
                    return data(event.into());
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    /// Whether nothing follows.
    pub fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Waiting { .. } | State::Collecting { .. } => false,
            State::Passing(body) => body.is_end_stream(),
            State::Ended => true,
        }
    }
}

impl State {
    fn of(response: Response<ResponseBody>) -> Self {
        let (parts, body) = response.into_parts();
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let packed = header(&CONTENT_ENCODING).is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity"));
        if parts.status == StatusCode::OK && !packed && header(&CONTENT_TYPE).is_some_and(is_event_stream) {
            return Self::Passing(body);
        }
        let retry_after = parts.headers.get(RETRY_AFTER).cloned();
        Self::Collecting { head: Head { status: parts.status, retry_after }, body, text: BytesMut::new() }
    }
}

impl Head {
    fn event(&self, text: &[u8]) -> Bytes {
        if !self.status.is_success() {
            return error_event(&self.error(text));
        }
        std::str::from_utf8(text).map_or_else(|_| unusable("it is no text"), data_event)
    }

    /// Members of an endpoint's own error stay as they are.
    fn error(&self, text: &[u8]) -> Map<String, Value> {
        let own = serde_json::from_slice::<Value>(text).ok().and_then(|value| value.get("error").cloned());
        let mut error = match own {
            Some(Value::Object(error)) => error,
            Some(Value::String(message)) => message_of(message),
            _ => message_of(self.message(text)),
        };
        let kind = if self.status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let retry_after = self.retry_after.as_ref().and_then(|seconds| seconds.to_str().ok());
        for (name, value) in [
            ("message", Value::from(self.message(&[]))),
            ("type", kind.into()),
            ("param", Value::Null),
            ("code", self.status.as_u16().into()),
        ] {
            error.entry(name).or_insert(value);
        }
        if let Some(seconds) = retry_after {
            error.entry("retry_after").or_insert(seconds.into());
        }
        error
    }

    fn message(&self, text: &[u8]) -> String {
        match String::from_utf8_lossy(text).trim() {
            "" => format!("the predictor answered {}", self.status),
            text => text.to_owned(),
        }
    }
}

fn message_of(message: String) -> Map<String, Value> {
    Map::from_iter([("message".to_owned(), Value::String(message))])
}

fn unusable(reason: &str) -> Bytes {
    let mut error = message_of(format!("the predictor's answer cannot be passed on in this stream: {reason}"));
    error.insert("type".to_owned(), "server_error".into());
    error.insert("param".to_owned(), Value::Null);
    error.insert("code".to_owned(), StatusCode::BAD_GATEWAY.as_u16().into());
    error_event(&error)
}

fn error_event(error: &Map<String, Value>) -> Bytes {
    Bytes::from(format!("data: {}\n\n", json!({ "error": error })))
}

/// One event; a line break of the text is one of the event. Nothing for no text.
fn data_event(text: &str) -> Bytes {
    if text.is_empty() {
        return Bytes::new();
    }
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = text.trim_end_matches('\n').replace('\n', "\ndata: ");
    Bytes::from(format!("data: {lines}\n\n"))
}

fn data(bytes: Bytes) -> Polled {
    Poll::Ready(Some(Ok(Frame::data(bytes))))
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    fn request(method: &str, path: &str, accept: &str, body: &'static str) -> Request<RequestBody> {
        let request = Request::builder().method(method).uri(path).header(ACCEPT, accept);
        request.body(RequestBody::Kept(Full::from(body))).unwrap()
    }

    #[test]
    fn knows_clients_that_understand_events() {
        let chat = "/v1/chat/completions";
        assert!(is_understood(&request("GET", "/", "text/html, Text/Event-Stream;q=0.9", "")));
        assert!(is_understood(&request("POST", chat, "*/*", r#"{"model": "m", "stream": true}"#)));
        assert!(!is_understood(&request("POST", chat, "*/*", r#"{"stream": false}"#)));
        assert!(!is_understood(&request("POST", chat, "*/*", r#"{"stream": "true"}"#)));
        assert!(!is_understood(&request("POST", chat, "*/*", r#"{"nested": {"stream": true}}"#)));
        assert!(!is_understood(&request("POST", chat, "*/*", r#"{"stream": true"#)));
        assert!(!is_understood(&request("POST", "/upload", "*/*", r#"{"stream": true}"#)));
        assert!(!is_understood(&request("HEAD", "/", EVENT_STREAM, "")));
    }

    fn event(status: u16, text: &str) -> String {
        let head = Head { status: StatusCode::from_u16(status).unwrap(), retry_after: None };
        String::from_utf8(head.event(text.as_bytes()).to_vec()).unwrap()
    }

    fn error(status: u16, text: &str) -> Value {
        let event = event(status, text);
        let line = event.strip_prefix("data: ").and_then(|line| line.strip_suffix("\n\n")).unwrap();
        assert!(!line.contains('\n'), "{line}");
        serde_json::from_str::<Value>(line).unwrap()["error"].clone()
    }

    #[test]
    fn an_answer_that_is_no_stream_becomes_one_event() {
        assert_eq!(event(200, "{\"a\": 1}\n"), "data: {\"a\": 1}\n\n");
        assert_eq!(event(200, "a\r\nb\rc\n\n"), "data: a\ndata: b\ndata: c\n\n");
        assert_eq!(event(204, ""), "");
    }

    #[test]
    fn an_error_becomes_an_event_of_the_protocol() {
        let expected = |message: &str, kind: &str, code: u16| json!({ "message": message, "type": kind, "param": null, "code": code });
        assert_eq!(error(503, r#"{"error": "not ready"}"#), expected("not ready", "server_error", 503));
        assert_eq!(error(404, "no such\nmodel\n"), expected("no such\nmodel", "invalid_request_error", 404));
        let empty = "the predictor answered 500 Internal Server Error";
        assert_eq!(error(500, ""), expected(empty, "server_error", 500));
        let own = r#"{"error": {"message": "too long", "type": "context", "code": "context_length_exceeded"}}"#;
        let kept =
            json!({ "message": "too long", "type": "context", "param": null, "code": "context_length_exceeded" });
        assert_eq!(error(400, own), kept);
    }

    #[tokio::test]
    async fn an_answer_in_time_is_passed_on_untouched() {
        let mut response = Response::new(ResponseBody::Own(Full::from("late")));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        let answer = Box::pin(async { response });
        assert_eq!(respond(answer, Instant::now(), Duration::from_mins(1)).await.status(), StatusCode::IM_A_TEAPOT);
    }
}
