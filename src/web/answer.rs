//! Answers with the headers that every one of them carries.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::json;

/// Nothing but our own files is loaded, nothing is embedded, nothing is sent elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The media type of JSON.
pub const JSON: &str = "application/json";

/// A whole body.
pub fn whole(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Response {
    streamed(status, media_type, Body::from(body.into()))
}

/// A body that may take its time.
pub fn streamed(status: StatusCode, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Something as JSON.
pub fn json<T: serde::Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => whole(StatusCode::OK, JSON, body),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "no_json", &error.to_string()),
    }
}

/// A refusal with a stable code and a sentence.
pub fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "error": { "code": code, "message": message } });
    whole(status, JSON, body.to_string())
}
