//! The control interface below `/_simulator/`: faults, issues and counters over HTTP.

use axum::body::Bytes;
use axum::http::Method;
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::seed::blank;
use super::server::JiraServer;
use super::text::JiraText;
use super::tracker_data::PROJECT;

/// Handles a control request; `path` is what follows `/_simulator/`.
pub fn handle(server: &JiraServer, method: &Method, path: &str, body: &Bytes) -> Reply {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut shared = server.lock();
    if let Some(handled) = shared.traffic.handle_control(method.as_str(), path, &value) {
        return handled.map_or_else(|why| reply::error(400, &why), |answer| reply::json(&answer));
    }
    match (method.as_str(), path) {
        ("POST", "issues") => {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let mut issue = blank(PROJECT, &text("summary"));
            issue.description = JiraText::from_wiki(&text("description"));
            let now = shared.board.now();
            let id = shared.board.add(issue, now);
            reply::json(&json!({ "id": id }))
        }
        (verb, path) if path.starts_with("issues/") => {
            let id = path["issues/".len()..].parse().unwrap_or(0);
            let summary = value["summary"].as_str().map(str::to_owned);
            let done = match verb {
                "PATCH" => shared.board.edit(id, |issue| {
                    issue.summary = summary.unwrap_or_else(|| format!("{}.", issue.summary));
                }),
                "DELETE" => shared.board.delete(id),
                _ => false,
            };
            reply::with_status(if done { 200 } else { 404 }, &json!({ "done": done }))
        }
        _ => reply::error(404, "unknown path; use faults, requests, issues or issues/ID"),
    }
}
