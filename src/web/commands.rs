//! Handlers of the actions, all `POST`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::ActionError;
use super::answer::{self, refusal};
use super::server::Shared;
use crate::event::Reason;
use crate::model::text::clip;
use crate::model::{ItemKey, MAX_NOTE_LEN, Opinion};
use crate::store::{ItemQuery, ItemState};

type SharedState = State<Arc<Shared>>;

/// `POST /api/sessions/ID/stop`
pub async fn stop(State(shared): SharedState, Path(session): Path<String>) -> Response {
    let Ok(session) = session.parse() else {
        return refusal(StatusCode::BAD_REQUEST, "no_session", "not a valid session id");
    };
    acted(shared.actions.stop_session(session).await.map(|()| json!({ "stopping": session })))
}

/// `POST /api/items/KEY/retry`, as `/api/retry/KEY` because keys contain a slash.
pub async fn retry(State(shared): SharedState, Path(key): Path<String>) -> Response {
    let key = ItemKey::from_stored(key);
    acted(shared.actions.retry_item(key.clone()).await.map(|()| json!({ "queued": key })))
}

#[derive(Debug, Deserialize)]
struct RetryMany {
    state: ItemState,
    reason: Option<Reason>,
    #[serde(default)]
    q: String,
    /// Number of items that the person confirmed.
    count: usize,
}

/// `POST /api/retry` with `{"state": "parked", "reason": null, "q": "", "count": 12}`: requeues all
/// matching items, if their number is the one that the person confirmed.
pub async fn retry_many(State(shared): SharedState, body: Bytes) -> Response {
    let wanted: RetryMany = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_query", &error.to_string()),
    };
    let RetryMany { state, reason, q: words, count } = wanted;
    if matches!(state, ItemState::Queued | ItemState::Gone) {
        let message = "only items that are done, settled, failed or parked can be requeued";
        return refusal(StatusCode::BAD_REQUEST, "bad_query", message);
    }
    let query =
        ItemQuery { state: Some(state), reason, words, limit: u32::MAX, ..ItemQuery::default() };
    let found = match shared.hub.store().items().list(query).await {
        Ok(found) => found.items,
        Err(error) => {
            return refusal(StatusCode::SERVICE_UNAVAILABLE, "store", &error.to_string());
        }
    };
    if found.len() != count {
        let now = found.len();
        let message =
            format!("the list has changed: {now} items match now, not {count}; check it again");
        return acted(Err(ActionError::NotNow(message)));
    }
    let keys = found.into_iter().map(|item| item.row.key).collect();
    acted(shared.actions.retry_items(keys).await.map(|queued| json!({ "queued": queued })))
}

#[derive(Debug, Deserialize)]
struct GivenFeedback {
    opinion: Opinion,
    #[serde(default)]
    note: String,
}

/// `POST /api/feedback/KEY` with `{"opinion": "useful"|"wrong"|"done", "note": "…"}`
pub async fn feedback(
    State(shared): SharedState,
    Path(key): Path<String>,
    body: Bytes,
) -> Response {
    let given: GivenFeedback = match serde_json::from_slice(&body) {
        Ok(given) => given,
        Err(error) => {
            return refusal(StatusCode::BAD_REQUEST, "bad_feedback", &error.to_string());
        }
    };
    let (key, opinion) = (ItemKey::from_stored(key), given.opinion);
    let note = clip(given.note.trim(), MAX_NOTE_LEN);
    let stored = shared.actions.give_feedback(key.clone(), opinion, note).await;
    acted(stored.map(|()| json!({ "item": key, "feedback": opinion })))
}

/// `POST /api/run`
pub async fn run(State(shared): SharedState) -> Response {
    acted(shared.actions.run_now().await.map(|run| json!({ "run": run })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GivenPause {
    note: String,
}

/// `POST /api/pause`, optionally with `{"note": "…"}`
pub async fn pause(State(shared): SharedState, body: Bytes) -> Response {
    let given: GivenPause = if body.is_empty() {
        GivenPause::default()
    } else {
        match serde_json::from_slice(&body) {
            Ok(given) => given,
            Err(error) => return refusal(StatusCode::BAD_REQUEST, "bad_pause", &error.to_string()),
        }
    };
    let note = clip(given.note.trim(), MAX_NOTE_LEN);
    acted(shared.actions.pause(note).await.map(|()| json!({ "paused": true })))
}

/// `POST /api/resume`
pub async fn resume(State(shared): SharedState) -> Response {
    acted(shared.actions.resume().await.map(|()| json!({ "paused": false })))
}

fn acted(result: Result<serde_json::Value, ActionError>) -> Response {
    match result {
        Ok(value) => answer::json(&value),
        Err(error) => refused(&error),
    }
}

/// The response to an action that was not done.
pub(super) fn refused(error: &ActionError) -> Response {
    let (status, code) = match error {
        ActionError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
        ActionError::NotNow(_) => (StatusCode::CONFLICT, "not_now"),
        ActionError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
    };
    refusal(status, code, &error.to_string())
}
