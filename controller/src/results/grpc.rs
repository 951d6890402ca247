//! Unary calls of gRPC: a length before each message, the outcome in trailers.

use std::convert::Infallible;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;

/// Longest message that is read.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Flag and length.
const PREFIX: usize = 5;
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Why a call failed, by the protocol's codes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Code {
    InvalidArgument = 3,
    NotFound = 5,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Unavailable = 14,
}

/// A call that failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    pub code: Code,
    pub message: String,
}

impl Status {
    /// A failure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Reads the one message of a call.
pub fn decode<M: Message + Default>(body: &[u8]) -> Result<M, Status> {
    let wrong = |problem: &str| Status::new(Code::InvalidArgument, format!("the message cannot be read: {problem}"));
    let (prefix, message) = body.split_at_checked(PREFIX).ok_or_else(|| wrong("it has no length"))?;
    if prefix[0] != 0 {
        return Err(wrong("it is compressed"));
    }
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if usize::try_from(length).ok() != Some(message.len()) {
        return Err(wrong("it has another length than it says"));
    }
    M::decode(message).map_err(|error| wrong(&error.to_string()))
}

/// The answer to a call.
pub fn answer<M: Message>(outcome: Result<M, Status>) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    let mut frames = Vec::new();
    match outcome {
        Ok(message) => {
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            frames.push(Frame::data(framed(&message)));
        }
        Err(status) => {
            trailers.insert("grpc-status", HeaderValue::from(status.code as u16));
            let text = HeaderValue::from_str(&encoded(&status.message));
            trailers.insert("grpc-message", text.expect("what is not plain is percent-encoded"));
        }
    }
    frames.push(Frame::trailers(trailers));
    let frames = stream::iter(frames.into_iter().map(Ok::<_, Infallible>));
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

fn framed<M: Message>(message: &M) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).expect("answers are short"));
    message.encode(&mut frame).expect("the buffer grows");
    frame.freeze()
}

/// Percent-encodes what a header may not hold.
fn encoded(text: &str) -> String {
    let each = text.bytes().map(|byte| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::wire::{KeyValue, SaveResultRequest},
        *,
    };

    #[test]
    fn a_message_is_read_back() {
        let results = vec![KeyValue { key: "qps".into(), value: "12.5".into() }];
        let request = SaveResultRequest { namespace: "n".into(), trial_name: "t".into(), results };
        assert_eq!(decode::<SaveResultRequest>(&framed(&request)), Ok(request));
    }

    #[test]
    fn nonsense_is_refused() {
        for body in [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 9], &[0, 0, 0, 0, 2, 0xff, 0xff]] {
            assert_eq!(decode::<SaveResultRequest>(body).unwrap_err().code, Code::InvalidArgument, "{body:?}");
        }
    }

    #[test]
    fn messages_are_plain_text_in_headers() {
        assert_eq!(encoded("a b\n%ä"), "a b%0A%25%C3%A4");
    }
}
