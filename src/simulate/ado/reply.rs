//! Responses in the service's own format.

use axum::http::HeaderValue;
use axum::response::Response;
use serde_json::json;

pub use crate::simulate::reply::{MIN_PACKED_LEN, Reply};

impl Reply {
    /// An error with the service's usual body.
    pub(super) fn error(status: u16, type_key: &str, message: &str) -> Self {
        Self::with_status(status, &error_body(type_key, message))
    }

    /// The plain text for a wrong address.
    pub(super) fn no_controller(path: &str) -> Self {
        let text = format!(
            "The controller for path '{path}' was not found or does not implement IController."
        );
        Self::bytes(404, "text/plain; charset=utf-8", text.into_bytes())
    }
}

/// With the ids that every response has and the caller's session.
pub fn sent(reply: Reply, session: Option<&HeaderValue>, is_cut: bool) -> Response {
    let activity = uuid::Uuid::now_v7().to_string();
    let session = session.and_then(|session| session.to_str().ok()).unwrap_or_default();
    let usual = [
        ("activityid", &*activity),
        ("x-vss-e2eid", &activity),
        ("cache-control", "no-cache"),
        ("vary", "Accept-Encoding"),
        ("x-tfs-session", session),
    ];
    if is_cut { reply.into_broken_response(&usual) } else { reply.into_response(&usual) }
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
