//! Responses in the service's own format.

use std::io::Write as _;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::json;

/// The usual compression level of web servers for dynamic responses.
const PACKING: Compression = Compression::new(4);

/// Shorter responses are not compressed.
pub const SHORTEST_PACKED: usize = 256;

/// A response before it is sent.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Empty for none.
    pub content_type: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// 200 with JSON.
    pub fn json(value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self { body, ..Self::bytes(200, "application/json; charset=utf-8", vec![]) }
    }

    pub fn bytes(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self { status, content_type: content_type.to_owned(), headers: vec![], body }
    }

    /// An error with the service's usual body.
    pub fn error(status: u16, type_key: &str, message: &str) -> Self {
        let body = error_body(type_key, message);
        Self { status, ..Self::json(&body) }
    }

    pub fn page(status: u16, title: &str) -> Self {
        let page = format!(
            "<!DOCTYPE html><html lang=\"en-US\"><head><title>{title}</title></head>\
             <body>{title}</body></html>"
        );
        Self::bytes(status, "text/html; charset=utf-8", page.into_bytes())
    }

    /// The sign-in page for unauthenticated clients.
    pub fn sign_in(status: u16) -> Self {
        Self::page(status, "Azure DevOps Services | Sign In")
    }

    /// The plain text for a wrong address.
    pub fn no_controller(path: &str) -> Self {
        let text = format!(
            "The controller for path '{path}' was not found or does not implement IController."
        );
        Self::bytes(404, "text/plain; charset=utf-8", text.into_bytes())
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Compresses the body.
    #[must_use]
    pub fn packed(mut self) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), PACKING);
        // Writing to memory cannot fail; if it did, the response would be sent uncompressed.
        if encoder.write_all(&self.body).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            self.body = packed;
            self = self.with("content-encoding", "gzip");
        }
        self
    }

    /// Adds the ids that every response has and the caller's session.
    pub fn into_response(self, session: Option<&HeaderValue>) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        let headers = response.headers_mut();
        insert(headers, "content-type", &self.content_type);
        let activity = uuid::Uuid::now_v7().to_string();
        insert(headers, "activityid", &activity);
        insert(headers, "x-vss-e2eid", &activity);
        insert(headers, "cache-control", "no-cache");
        insert(headers, "vary", "Accept-Encoding");
        for (name, value) in &self.headers {
            insert(headers, name, value);
        }
        if let Some(session) = session {
            headers.insert("x-tfs-session", session.clone());
        }
        response
    }
}

pub fn error_body(type_key: &str, message: &str) -> serde_json::Value {
    json!({
        "$id": "1",
        "innerException": null,
        "message": message,
        "typeName": format!("Microsoft.TeamFoundation.{type_key}, Microsoft.TeamFoundation"),
        "typeKey": type_key,
        "errorCode": 0,
        "eventId": 3000,
    })
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if value.is_empty() {
        return;
    }
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
