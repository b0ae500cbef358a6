//! Builds responses with the headers that all of them need.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::guard::Refusal;

/// Only our own files are loaded, nothing is embedded, nothing is sent elsewhere.
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

pub const JSON: &str = "application/json";

pub fn full_response(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response {
    streamed(status, media_type, Body::from(body.into()))
}

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

pub fn json<T: serde::Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => full_response(StatusCode::OK, JSON, body),
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "no_json", &error.to_string()),
    }
}

/// An error with a stable code and a message.
pub fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({ "error": { "code": code, "message": message } });
    full_response(status, JSON, body.to_string())
}

/// Shorter bodies are sent as they are.
const MIN_PACKED: u64 = 1024;

/// Compresses whole bodies for clients that take it; a stream of events is sent as it is.
pub async fn packed(request: Request, next: Next) -> Response {
    let accepts = takes_gzip(request.headers());
    let response = next.run(request).await;
    let is_long = response.body().size_hint().exact().is_some_and(|bytes| bytes >= MIN_PACKED);
    if !accepts || !is_long {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let pack = |bytes: &Bytes| {
        let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
        encoder.write_all(bytes)?;
        encoder.finish()
    };
    let packed = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => pack(&bytes),
        Err(error) => Err(std::io::Error::other(error)),
    };
    match packed {
        Ok(packed) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
            Response::from_parts(parts, Body::from(packed))
        }
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "not_packed", &error.to_string()),
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    accept.unwrap_or_default().split(',').any(|one| {
        let (name, quality) = one.split_once(";q=").unwrap_or((one, "1"));
        name.trim() == "gzip" && quality.trim().parse::<f32>().is_ok_and(|quality| quality > 0.0)
    })
}

/// Redirects to an address and sets a cookie.
pub fn signed_in_at(address: &str, cookie: &str) -> Response {
    let mut response = full_response(StatusCode::SEE_OTHER, JSON, "");
    for (name, value) in [(header::LOCATION, address), (header::SET_COOKIE, cookie)] {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The response without sign-in: a page for a browser, JSON for a program.
pub fn unauthorized(headers: &HeaderMap, query: Option<&str>) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (status, code, message) = Refusal::NotSignedIn.response_parts();
    let mut response = if wants_page(headers) {
        sign_in_page(status, query.is_some_and(|query| query.contains("token=")))
    } else {
        refusal(status, code, message)
    };
    let own = response.headers_mut();
    // Not Basic: a browser would open its own prompt before showing the page.
    own.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"heartbeat\""));
    // A link on another site is followed without the cookie; a reload from our own page sends it.
    if text("sec-fetch-site") == Some("cross-site") && text("sec-fetch-mode") == Some("navigate") {
        own.insert(header::REFRESH, HeaderValue::from_static("0"));
    }
    response
}

/// Whether a browser opens it as a page.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

const SIGN_IN_PAGE: &str = include_str!("page/sign_in.html");

const REFUSED: &str = "<p role=\"alert\"><strong>This token is not valid.</strong> It may have \
                       been replaced; ask for the current one.</p>";

/// The usual policy; the page's inline style is allowed by its digest, because files need sign-in.
static SIGN_IN_POLICY: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let (_, rest) = SIGN_IN_PAGE.split_once("<style>")?;
    let (style, _) = rest.split_once("</style>")?;
    let digest = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(style));
    let policy = POLICY
        .replace("style-src 'self'", &format!("style-src 'sha256-{digest}'"))
        .replace("form-action 'none'", "form-action 'self'");
    HeaderValue::from_str(&policy).ok()
});

/// `refused`: a token was given, and it is not valid.
fn sign_in_page(status: StatusCode, refused: bool) -> Response {
    let page = match refused {
        true => SIGN_IN_PAGE.replace("<!-- refused -->", REFUSED),
        false => SIGN_IN_PAGE.to_owned(),
    };
    let mut response = full_response(status, "text/html; charset=utf-8", page);
    if let Some(policy) = SIGN_IN_POLICY.clone() {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
