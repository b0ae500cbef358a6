//! Parses a request as the tracker does: case-insensitive, scoped, versioned.

use axum::http::{HeaderMap, Method};

use crate::simulate::shared::{self, decode};

#[derive(Debug)]
pub struct AdoRequest {
    /// After `X-HTTP-Method-Override`.
    pub method: Method,
    /// As received.
    pub path: String,
    /// Project and team before `_apis`, decoded.
    pub scope: Vec<String>,
    /// What follows `_apis`, decoded.
    pub resource: Vec<String>,
    /// Decoded, keys in lower case.
    pub query: Vec<(String, String)>,
    /// From the query string or the `Accept` header.
    pub version: Option<String>,
    pub body: Vec<u8>,
}

impl AdoRequest {
    /// `collection` is the part of the path before the project.
    pub fn new(
        method: &Method,
        uri: &axum::http::Uri,
        headers: &HeaderMap,
        collection: &str,
        body: Vec<u8>,
    ) -> Option<Self> {
        let path = uri.path().to_owned();
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(decode).collect();
        let collection: Vec<&str> = collection.split('/').filter(|part| !part.is_empty()).collect();
        let below = parts.get(collection.len()..)?;
        let same = |(a, b): (&String, &&str)| a.eq_ignore_ascii_case(b);
        if !parts.iter().zip(&collection).all(same) {
            return None;
        }
        let at = below.iter().position(|part| part.eq_ignore_ascii_case("_apis"))?;
        let query =
            shared::query(uri).map(|(key, value)| (key.to_ascii_lowercase(), value)).collect();
        let overridden = headers.get("x-http-method-override").and_then(|v| v.to_str().ok());
        let method = overridden
            .and_then(|name| Method::from_bytes(name.as_bytes()).ok())
            .unwrap_or_else(|| method.clone());
        let mut request = Self {
            method,
            path,
            scope: below[..at].to_vec(),
            resource: below[at + 1..].to_vec(),
            query,
            version: None,
            body,
        };
        request.version =
            request.get("api-version").map(str::to_owned).or_else(|| accepted(headers));
        Some(request)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.query.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// In lower case.
    pub fn part(&self, at: usize) -> String {
        self.resource.get(at).map(|part| part.to_ascii_lowercase()).unwrap_or_default()
    }

    /// The kind of request, for counters and faults.
    pub fn kind(&self) -> &'static str {
        if self.method == Method::OPTIONS {
            return "options";
        }
        if self.part(0) != "wit" {
            return match self.part(0).as_str() {
                "resourceareas" => "resourceareas",
                "connectiondata" => "connectiondata",
                "projects" => "projects",
                "git" => "git",
                _ => "other",
            };
        }
        match (self.part(1).as_str(), self.part(3).as_str(), &self.method) {
            ("wiql", ..) => "wiql",
            ("workitemsbatch", ..) => "batch",
            ("workitems", "comments", _) => "comments",
            ("workitems", _, method) if *method == Method::PATCH => "patch",
            ("workitems", ..) => "workitems",
            ("attachments", ..) => "attachments",
            ("fields", ..) => "fields",
            ("queries", ..) => "queries",
            _ => "other",
        }
    }
}

/// `Accept: application/json;api-version=7.1`.
fn accepted(headers: &HeaderMap) -> Option<String> {
    let accept = headers.get("accept")?.to_str().ok()?;
    let version = accept.split(';').find_map(|part| part.trim().strip_prefix("api-version="));
    version.map(str::to_owned)
}
