//! The control interface below `/_simulator/`: faults, issues and counters over HTTP.

use axum::body::Bytes;
use axum::http::Method;
use serde_json::{Value, json};

use super::REPOSITORY;
use super::reply::{self, Reply};
use super::server::GithubServer;
use super::tracker_data::{IssueFate, NewIssue};

/// Handles a control request; `path` is what follows `/_simulator/`.
pub fn handle(server: &GithubServer, method: &Method, path: &str, body: &Bytes) -> Reply {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut shared = server.lock();
    if let Some(handled) = shared.traffic.handle_control(method.as_str(), path, &value) {
        return handled.map_or_else(|why| reply::error(400, &why), |answer| Reply::json(&answer));
    }
    match (method.as_str(), path) {
        ("POST", "issues") => {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let (title, body, now) = (text("title"), text("body"), shared.board.now());
            let new = NewIssue { title: &title, body: &body, user: "mira", ..NewIssue::default() };
            let number = shared.board.add_issue(REPOSITORY, new, now);
            Reply::json(&json!({ "number": number }))
        }
        ("DELETE", path) if path.starts_with("issues/") => {
            let number = path["issues/".len()..].parse().unwrap_or(0);
            let deleted =
                shared.board.edit(REPOSITORY, number, |issue| issue.fate = IssueFate::Deleted);
            Reply::json(&json!({ "deleted": deleted.is_some() }))
        }
        _ => reply::error(404, "unknown path; use faults, requests, issues or issues/NUMBER"),
    }
}
