//! Responses in Jira's own format.

use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};

pub use heartbeat::simulate::reply::Reply;

/// 200 with JSON.
pub fn json(value: &impl Serialize) -> Reply {
    with_status(200, value)
}

pub fn with_status(status: u16, value: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(value).unwrap_or_default();
    Reply::bytes(status, "application/json;charset=UTF-8", body)
}

/// 204.
pub fn nothing() -> Reply {
    Reply::bytes(204, "", vec![])
}

/// An error with the usual body.
pub fn error(status: u16, message: &str) -> Reply {
    with_status(status, &error_body(message))
}

pub fn error_body(message: &str) -> Value {
    json!({ "errorMessages": [message], "errors": {} })
}

pub fn page(status: u16, title: &str) -> Reply {
    Reply { content_type: "text/html;charset=UTF-8".to_owned(), ..Reply::page(status, title) }
}

pub fn no_issue() -> Reply {
    error(404, "Issue does not exist or you do not have permission to see it.")
}

/// A redirect.
pub fn leading(status: u16, to: &str) -> Reply {
    Reply::bytes(status, "", vec![]).with("location", to)
}

/// With the headers that every response of the service has.
pub fn sent(reply: Reply, is_cut: bool) -> Response {
    let trace = uuid::Uuid::now_v7().simple().to_string();
    let usual = [("atl-traceid", &*trace), ("vary", "Accept-Encoding")];
    if is_cut { reply.into_broken_response(&usual) } else { reply.into_response(&usual) }
}
