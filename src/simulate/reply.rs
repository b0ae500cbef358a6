//! A simulator's response before it is sent. Each tracker adds its own error bodies and headers.

use std::collections::BTreeMap;
use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

/// The usual compression level of web servers for dynamic responses.
const PACKING: Compression = Compression::new(4);

/// Shorter responses are not compressed.
pub const MIN_PACKED_LEN: usize = 256;

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    /// Empty for none.
    pub content_type: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// A response in a table of faults.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoredReply {
    status: u16,
    /// The parts of an error, which each tracker puts into its own shape.
    error: Vec<String>,
    /// The title of a page.
    page: Option<String>,
    text: String,
    content_type: Option<String>,
    headers: BTreeMap<String, String>,
    byte_order_mark: bool,
}

impl Reply {
    /// The response to a fault in a table; `None` if the table has none.
    pub fn of_fault(
        table: &str,
        fault: &str,
        error: impl FnOnce(u16, &[String]) -> Self,
    ) -> Option<Self> {
        let mut all: BTreeMap<String, StoredReply> = serde_json::from_str(table).ok()?;
        let stored = all.remove(fault)?;
        let mut reply = match (&stored.page, stored.error.as_slice()) {
            (Some(title), _) => Self::page(stored.status, title),
            (None, []) => Self::bytes(stored.status, "", stored.text.into_bytes()),
            (None, parts) => error(stored.status, parts),
        };
        reply.content_type = stored.content_type.unwrap_or(reply.content_type);
        reply.headers.extend(stored.headers);
        if stored.byte_order_mark {
            reply.body.splice(0..0, *b"\xEF\xBB\xBF");
        }
        Some(reply)
    }

    /// 200 with JSON.
    pub fn json(value: &impl Serialize) -> Self {
        Self::with_status(200, value)
    }

    pub fn with_status(status: u16, value: &impl Serialize) -> Self {
        let body = serde_json::to_vec(value).unwrap_or_default();
        Self::bytes(status, "application/json; charset=utf-8", body)
    }

    pub fn bytes(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self { status, content_type: content_type.to_owned(), headers: vec![], body }
    }

    pub fn page(status: u16, title: &str) -> Self {
        let page = format!(
            "<!DOCTYPE html><html lang=\"en-US\"><head><title>{title}</title></head>\
             <body>{title}</body></html>"
        );
        Self::bytes(status, "text/html; charset=utf-8", page.into_bytes())
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Compresses the body, unless it is short.
    #[must_use]
    pub fn packed(mut self) -> Self {
        if self.body.len() < MIN_PACKED_LEN {
            return self;
        }
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

    /// `usual`: the headers that every response of this tracker has.
    pub fn into_response(self, usual: &[(&'static str, &str)]) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or_default();
        let headers = response.headers_mut();
        insert(headers, "content-type", &self.content_type);
        for (name, value) in usual {
            insert(headers, name, value);
        }
        for (name, value) in &self.headers {
            insert(headers, name, value);
        }
        response
    }

    /// The response, but the connection ends in the middle of its body.
    pub fn into_broken_response(self, usual: &[(&'static str, &str)]) -> Response {
        let whole = Bytes::from(self.body.clone());
        let mut response = self.into_response(usual);
        *response.body_mut() = super::body::first_half(&whole);
        response
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value))
        && !value.is_empty()
    {
        headers.insert(name, value);
    }
}
