//! The control interface below `/_simulator/`: faults, items and counters over HTTP.

use axum::body::Bytes;
use axum::http::Method;
use serde_json::{Value, json};

use super::patch::stored;
use super::reply::Reply;
use super::server::AdoServer;
use super::tracker_data::{ItemChange, Values};

/// Handles a control request; `path` is what follows `/_simulator/`.
pub fn handle(server: &AdoServer, method: &Method, path: &str, body: &Bytes) -> Reply {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut shared = server.lock();
    if let Some(handled) = shared.traffic.handle_control(method.as_str(), path, &value) {
        return handled.map_or_else(|why| wrong(&why), |answer| Reply::json(&answer));
    }
    match (method.as_str(), path) {
        ("POST", "items") => {
            let (id, now) = (shared.board.next_id(), shared.board.now());
            let values: Values = change(&value)
                .into_iter()
                .filter_map(|(name, value)| value.map(|value| (name.into(), value)))
                .collect();
            shared.board.add(id, now, values);
            Reply::json(&json!({ "id": id, "rev": 1 }))
        }
        (verb, path) => match path.strip_prefix("items/").and_then(|id| id.parse().ok()) {
            Some(id) => one_item(&mut shared.board, verb, id, &value),
            None => wrong("unknown path; use faults, requests, items or items/ID"),
        },
    }
}

fn one_item(board: &mut super::tracker_data::AdoData, verb: &str, id: i64, value: &Value) -> Reply {
    let done = match verb {
        "PATCH" => board.edit(id, change(value)),
        "DELETE" => board.delete(id).then_some(0),
        _ => None,
    };
    match done {
        Some(rev) => Reply::json(&json!({ "id": id, "rev": rev })),
        None => Reply {
            status: 404,
            ..wrong(
                "no such item, or the method is neither PATCH nor \
                                              DELETE",
            )
        },
    }
}

fn change(value: &Value) -> ItemChange {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.clone(), stored(value))).collect()
}

fn wrong(why: &str) -> Reply {
    Reply { status: 400, ..Reply::json(&json!({ "error": why })) }
}
