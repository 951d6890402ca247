//! Answers of the router itself: what was tried, on what, and why it failed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use modelway_route::arm::Refusal;

use crate::body::{ResponseBody, UploadFailure};

/// A request that gets no answer of an endpoint.
#[derive(Debug)]
pub struct Problem {
    /// Status of the answer.
    pub status: StatusCode,
    /// Text of the answer.
    pub error: String,
    retry_after: Option<HeaderValue>,
}

impl Problem {
    /// A problem that trying again does not mend.
    pub fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), retry_after: None }
    }

    /// 503: it may work again soon.
    pub fn unavailable(error: impl Into<String>, retry_after: &'static str) -> Self {
        let retry_after = Some(HeaderValue::from_static(retry_after));
        Self { status: StatusCode::SERVICE_UNAVAILABLE, error: error.into(), retry_after }
    }

    /// 504 with the name of the limit.
    pub fn timeout(which: &str, limit: Duration, on: &str) -> Self {
        let milliseconds = limit.as_millis();
        Self::new(StatusCode::GATEWAY_TIMEOUT, format!("{which} timeout: {on} did not answer within {milliseconds} ms"))
    }

    /// No arm can answer.
    pub fn refused(refusal: Refusal, arm: &str) -> Self {
        match refusal {
            Refusal::NoWeight => Self::unavailable("every predictor has weight 0; give one a weight", "10"),
            Refusal::HoldExpired => {
                Self::unavailable(format!("predictor `{arm}` is starting and was not ready in time"), "5")
            }
            Refusal::NoEndpoint => Self::unavailable(
                format!("predictor `{arm}` has no ready endpoint, and no other predictor can take its requests"),
                "5",
            ),
        }
    }

    /// The client did not deliver its body.
    pub fn upload(failure: UploadFailure) -> Self {
        let status = match failure {
            UploadFailure::Broken => StatusCode::BAD_REQUEST,
            UploadFailure::Idle => StatusCode::REQUEST_TIMEOUT,
            UploadFailure::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        };
        Self::new(status, failure.to_string())
    }

    /// The answer.
    pub fn into_response(self) -> Response<ResponseBody> {
        let body = serde_json::json!({ "error": self.error }).to_string();
        let mut response = Response::new(ResponseBody::Own(Full::new(Bytes::from(body))));
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}
