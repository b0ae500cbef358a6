//! Responses in Jira's own format.

use std::io::Write as _;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Value, json};

const JSON: &str = "application/json;charset=UTF-8";
/// Shorter responses are not compressed.
const SHORTEST_PACKED: usize = 256;

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
        Self::with_status(200, value)
    }

    pub fn with_status(status: u16, value: &impl Serialize) -> Self {
        Self::bytes(status, JSON, serde_json::to_vec(value).unwrap_or_default())
    }

    pub fn bytes(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self { status, content_type: content_type.to_owned(), headers: vec![], body }
    }

    /// 204.
    pub fn nothing() -> Self {
        Self::bytes(204, "", vec![])
    }

    /// An error with the usual body.
    pub fn error(status: u16, message: &str) -> Self {
        Self::with_status(status, &error_body(message))
    }

    pub fn page(status: u16, title: &str) -> Self {
        let page =
            format!("<!DOCTYPE html><html><head><title>{title}</title></head><body></body></html>");
        Self::bytes(status, "text/html;charset=UTF-8", page.into_bytes())
    }

    pub fn no_issue() -> Self {
        Self::error(404, "Issue does not exist or you do not have permission to see it.")
    }

    #[must_use]
    pub fn leading(self, status: u16, to: &str) -> Self {
        Self { status, ..self }.with("location", to)
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Compresses the body.
    #[must_use]
    pub fn packed(mut self) -> Self {
        if self.body.len() < SHORTEST_PACKED {
            return self;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(4));
        // Writing to memory cannot fail; if it did, the response would be sent uncompressed.
        if encoder.write_all(&self.body).is_ok()
            && let Ok(packed) = encoder.finish()
        {
            self.body = packed;
            self = self.with("content-encoding", "gzip");
        }
        self
    }

    pub fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        let headers = response.headers_mut();
        insert(headers, "content-type", &self.content_type);
        insert(headers, "atl-traceid", &uuid::Uuid::now_v7().simple().to_string());
        insert(headers, "vary", "Accept-Encoding");
        for (name, value) in &self.headers {
            insert(headers, name, value);
        }
        response
    }
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value)
        && !value.is_empty()
    {
        headers.insert(HeaderName::from_static(name), value);
    }
}

pub fn error_body(message: &str) -> Value {
    json!({ "errorMessages": [message], "errors": {} })
}
