//! Request bodies: JSON or YAML of bounded size, refused with the place of the mistake.

mod duplicates;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::Value;

use crate::status::ApiError;

/// As in Kubernetes.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The media type of a request body, without parameters.
pub fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

pub async fn read(body: Body) -> Result<Bytes, ApiError> {
    axum::body::to_bytes(body, BODY_LIMIT).await.map_err(|error| {
        if std::error::Error::source(&error)
            .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>)
        {
            ApiError::too_large(format!("Request entity too large: limit is {BODY_LIMIT} bytes"))
        } else {
            ApiError::bad_request(format!("the request body could not be read: {error}"))
        }
    })
}

/// Decodes an object by its media type.
pub fn decode(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    match content_type(headers) {
        "" | "application/json" => json(bytes),
        "application/yaml" | "application/x-yaml" | "text/yaml" => yaml(bytes),
        other => Err(unsupported(other, &["application/json", "application/yaml"])),
    }
}

/// As [`decode`], with the paths of fields that the body says twice.
pub fn decode_strictly(headers: &HeaderMap, bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let value = decode(headers, bytes)?;
    let is_json = matches!(content_type(headers), "" | "application/json");
    Ok((value, if is_json { duplicates::duplicates(bytes) } else { Vec::new() }))
}

pub fn unsupported(found: &str, accepted: &[&str]) -> ApiError {
    let accepted = accepted.join(", ");
    let hint = if found == "application/vnd.kubernetes.protobuf" {
        "; protobuf is not understood: use `kubectl apply -f FILE`, or `kubectl create ... --dry-run=client -o yaml | kubectl apply -f -`"
    } else {
        ""
    };
    ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format ({found}) - accepted media types include: {accepted}{hint}"
    ))
}

pub fn json(bytes: &[u8]) -> Result<Value, ApiError> {
    let value = serde_json::from_slice(bytes).map_err(|error| {
        let line = error.line();
        let column = error.column();
        ApiError::bad_request(format!("the request body is not valid JSON at line {line}, column {column}: {error}"))
    })?;
    Ok(with_whole_numbers(value))
}

/// YAML is a superset of JSON, so this reads both.
pub fn yaml(bytes: &[u8]) -> Result<Value, ApiError> {
    let value = serde_saphyr::from_slice(bytes)
        .map_err(|error| ApiError::bad_request(format!("the request body is not valid YAML: {error}")))?;
    Ok(with_whole_numbers(value))
}

/// As Go writes them: `4.0` is `4`.
fn with_whole_numbers(mut value: Value) -> Value {
    match &mut value {
        Value::Number(number) if number.is_f64() => {
            if let Ok(whole) = number.as_f64().unwrap_or(f64::NAN).to_string().parse::<i64>() {
                *number = whole.into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|item| *item = with_whole_numbers(item.take())),
        Value::Object(map) => map.values_mut().for_each(|item| *item = with_whole_numbers(item.take())),
        _ => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_bodies_are_answered_with_the_place() {
        let error = json(b"{\"a\": }").unwrap_err();
        assert!(error.message.contains("line 1"), "{}", error.message);
        let error = yaml(b"a: [1\nb: 2").unwrap_err();
        assert!(error.message.contains("line"), "{}", error.message);
    }

    #[test]
    fn whole_numbers_are_integers() {
        let value = json(b"[4.0, 4.5, -0.0, 1e3, 1e30, {\"a\": 2.0}]").unwrap();
        assert_eq!(value.to_string(), "[4,4.5,0,1000,1e+30,{\"a\":2}]");
    }

    #[test]
    fn protobuf_is_answered_with_the_alternative() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/vnd.kubernetes.protobuf".parse().unwrap());
        let error = decode(&headers, b"k8s").unwrap_err();
        assert_eq!(error.code.as_u16(), 415);
        assert!(error.message.contains("kubectl apply"));
    }
}
