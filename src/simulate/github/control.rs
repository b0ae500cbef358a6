//! The control interface below `/_simulator/`: faults, issues and counters over HTTP.

use axum::body::Bytes;
use axum::http::Method;
use serde_json::{Value, json};

use super::REPOSITORY;
use super::board::{Fate, NewIssue};
use super::fault::ActiveFault;
use super::reply::Reply;
use super::server::Server;

/// Answers a control request; `path` is what follows `/_simulator/`.
pub fn handle(server: &Server, method: &Method, path: &str, body: &Bytes) -> Reply {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut shared = server.lock();
    match (method.as_str(), path) {
        ("GET", "faults") => Reply::json(&shared.faults),
        ("POST", "faults") => {
            let parsed = match value.as_str() {
                Some(text) => text.parse::<ActiveFault>(),
                None => serde_json::from_value(value).map_err(|error| error.to_string()),
            };
            match parsed {
                Ok(fault) => {
                    shared.faults.push(fault);
                    Reply::json(&shared.faults)
                }
                Err(error) => Reply::error(400, &error),
            }
        }
        ("DELETE", "faults") => {
            shared.faults.clear();
            Reply::json(&json!([]))
        }
        ("GET", "requests") => {
            let total: u64 = shared.counts.values().sum();
            Reply::json(&json!({ "total": total, "by_kind": shared.counts, "log": shared.log }))
        }
        ("POST", "issues") => {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let (title, body, now) = (text("title"), text("body"), shared.board.now());
            let new = NewIssue { title: &title, body: &body, user: "mira", ..NewIssue::default() };
            let number = shared.board.add_issue(REPOSITORY, new, now);
            Reply::json(&json!({ "number": number }))
        }
        ("DELETE", path) if path.starts_with("issues/") => {
            let number = path["issues/".len()..].parse().unwrap_or(0);
            let deleted = shared.board.edit(REPOSITORY, number, |issue| issue.fate = Fate::Deleted);
            Reply::json(&json!({ "deleted": deleted.is_some() }))
        }
        _ => Reply::error(404, "unknown path; use faults, requests, issues or issues/NUMBER"),
    }
}
