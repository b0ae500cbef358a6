//! Responses in GitHub's own format.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const JSON: &str = "application/json; charset=utf-8";

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

    /// An error with the usual body.
    pub fn error(status: u16, message: &str) -> Self {
        Self::with_status(status, &error_body(status, message))
    }

    pub fn page(status: u16, title: &str) -> Self {
        let page =
            format!("<!DOCTYPE html><html><head><title>{title}</title></head><body></body></html>");
        Self::bytes(status, "text/html; charset=utf-8", page.into_bytes())
    }

    pub fn not_found() -> Self {
        Self::error(404, "Not Found")
    }

    pub fn moved(status: u16, to: String) -> Self {
        let body = json!({
            "message": "Moved Permanently", "url": to,
            "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
        });
        Self::with_status(status, &body).with("location", to)
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Adds the ETag of the body; 304 without a body if the client has it already.
    pub fn marked(self, known: Option<&str>) -> Self {
        let digest = Sha256::digest(&self.body);
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let mark = format!("W/\"{hex}\"");
        if known.is_some_and(|known| known.split(',').any(|one| one.trim() == mark)) {
            return Self::bytes(304, "", vec![]).with("etag", mark);
        }
        self.with("etag", mark)
    }

    pub fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        let headers = response.headers_mut();
        insert(headers, "content-type", &self.content_type);
        let id = uuid::Uuid::now_v7().simple().to_string();
        insert(headers, "x-github-request-id", &id[..16].to_uppercase());
        insert(headers, "x-github-media-type", "github.v3; format=json");
        insert(headers, "server", "github.com");
        insert(headers, "vary", "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding");
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

pub fn error_body(status: u16, message: &str) -> Value {
    json!({
        "message": message, "documentation_url": "https://docs.github.com/rest",
        "status": status.to_string(),
    })
}
