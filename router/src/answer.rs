//! Answers of the router itself: what was tried, on what, and why it failed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use modelway_route::arm::Refusal;
use modelway_route::table::Hold;

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

    /// No arm can answer a request that has waited this long.
    pub fn refused(refusal: Refusal, arm: &str, waited: Duration) -> Self {
        let waited = waited.as_secs_f64();
        match refusal {
            Refusal::NoWeight => Self::unavailable("every predictor has weight 0; give one a weight", "10"),
            Refusal::HoldExpired => Self::unavailable(
                format!("predictor `{arm}` is not ready; the request waited {waited:.1} s for it, as long as it may"),
                "5",
            ),
            Refusal::TurnExpired => Self::unavailable(
                format!(
                    "predictor `{arm}` is busy with requests that came before; this one waited {waited:.1} s, as long \
                     as it may"
                ),
                "5",
            ),
            Refusal::NoEndpoint => Self::unavailable(
                format!(
                    "predictor `{arm}` has no ready endpoint, and no other predictor can take its requests; the \
                     request waited {waited:.1} s"
                ),
                "5",
            ),
        }
    }

    /// There is no place to wait for an arm.
    pub fn hold_full(arm: &str, limits: Hold) -> Self {
        let Hold { max_requests, max_bytes, .. } = limits;
        let error = format!(
            "predictor `{arm}` cannot take the request yet, and too many wait already (at most {max_requests} requests \
             with {max_bytes} bytes)"
        );
        Self::unavailable(error, "1")
    }

    /// The router ends, and the arm has not become ready.
    pub fn ending(arm: &str, waited: Duration) -> Self {
        let waited = waited.as_secs_f64();
        let error = format!(
            "this router is going away; predictor `{arm}` did not become ready in the {waited:.1} s before that"
        );
        Self::unavailable(error, "1")
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
