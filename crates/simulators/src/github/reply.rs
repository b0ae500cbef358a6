//! Responses in GitHub's own format.

use axum::response::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub use heartbeat::simulate::reply::Reply;

/// An error with the usual body.
pub fn error(status: u16, message: &str) -> Reply {
    Reply::with_status(status, &error_body(status, message))
}

pub fn error_body(status: u16, message: &str) -> Value {
    json!({
        "message": message, "documentation_url": "https://docs.github.com/rest",
        "status": status.to_string(),
    })
}

pub fn not_found() -> Reply {
    error(404, "Not Found")
}

pub fn moved(status: u16, to: String) -> Reply {
    let body = json!({
        "message": "Moved Permanently", "url": to,
        "documentation_url": "https://docs.github.com/rest/guides/best-practices-for-using-the-rest-api#follow-redirects",
    });
    Reply::with_status(status, &body).with("location", to)
}

/// Adds the ETag of the body; 304 without a body if the client has it already.
pub fn marked(reply: Reply, known: Option<&str>) -> Reply {
    let digest = Sha256::digest(&reply.body);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mark = format!("W/\"{hex}\"");
    if known.is_some_and(|known| known.split(',').any(|one| one.trim() == mark)) {
        return Reply::bytes(304, "", vec![]).with("etag", mark);
    }
    reply.with("etag", mark)
}

/// With the headers that every response of the service has.
pub fn sent(reply: Reply, is_cut: bool) -> Response {
    let id = uuid::Uuid::now_v7().simple().to_string();
    let usual = [
        ("x-github-request-id", &*id[..16].to_uppercase()),
        ("x-github-media-type", "github.v3; format=json"),
        ("server", "github.com"),
        ("vary", "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding"),
    ];
    if is_cut { reply.into_broken_response(&usual) } else { reply.into_response(&usual) }
}
