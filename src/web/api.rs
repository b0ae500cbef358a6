//! What is asked for, and the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{self, JSON, json as as_json, refusal, whole};
use super::facts::Facts;
use super::hub::Hub;
use super::server::Shared;
use super::snapshot::{self, listed};
use super::{ActionError, metrics};
use crate::event::Reason;
use crate::model::text::clip;
use crate::model::{ItemKey, LONGEST_NOTE, Opinion, Outcome};
use crate::store::{ItemQuery, ItemState, SessionRow, SessionTotal, StoreError};

/// The loop never sleeps for more than 30 s; three times that is not asleep but hung.
const LOOP_HUNG_AFTER: Duration = Duration::from_secs(90);
/// Sessions that `/heartbeat/metrics` lists.
const RECENT: u32 = 50;
/// The most that a list gives.
const MOST_LISTED: u32 = 500;

type Asked = State<Arc<Shared>>;

/// `GET /health`
pub async fn health(State(shared): Asked) -> Response {
    let picture = shared.hub.picture().await;
    whole(status_of(!picture.is_unhealthy()), JSON, picture.health.clone())
}

/// `GET /livez`
pub async fn livez(State(shared): Asked) -> Response {
    let since = shared.hub.since_turn().unwrap_or_default();
    let alive = since < LOOP_HUNG_AFTER;
    let body = json!({ "alive": alive, "seconds_since_turn": since.as_secs() });
    whole(status_of(alive), JSON, body.to_string())
}

/// `GET /readyz`
pub async fn readyz(State(shared): Asked) -> Response {
    let picture = shared.hub.picture().await;
    let facts = &picture.facts;
    let faults = [("store", &facts.store_fault), ("agent", &facts.agent_missing)];
    let told = |(code, fault): (&str, &Option<String>)| {
        fault.as_ref().map(|message| json!({ "code": code, "message": message }))
    };
    let reasons: Vec<_> = faults.into_iter().filter_map(told).collect();
    let ready = reasons.is_empty();
    let body = json!({ "ready": ready, "reasons": reasons });
    whole(status_of(ready), JSON, body.to_string())
}

fn status_of(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `GET /metrics`
pub async fn prometheus(State(shared): Asked) -> Response {
    let picture = shared.hub.picture().await;
    whole(StatusCode::OK, metrics::MEDIA_TYPE, picture.metrics.clone())
}

/// `GET /api/state`
pub async fn state(State(shared): Asked) -> Response {
    let picture = shared.hub.picture().await;
    whole(StatusCode::OK, JSON, picture.state.clone())
}

/// `GET /heartbeat/metrics`
pub async fn overview(State(shared): Asked) -> Response {
    told(try_overview(&shared.hub).await)
}

async fn try_overview(hub: &Hub) -> Result<Response, StoreError> {
    let picture = hub.picture().await;
    let facts = &picture.facts;
    let seconds = |ms: i128| ms.max(0) / 1000;
    let active = facts.active.iter().map(|row| {
        json!({
            "session": row.session.id,
            "stage": row.session.stage,
            "item": row.session.item,
            "pid": row.agent_pid.unwrap_or(row.keeper_pid),
            "started_at": row.started_at,
            "duration_s": seconds(facts.now.duration_since(row.started_at).as_millis()),
        })
    });
    let active: Vec<_> = active.collect();
    let recent = hub.store().sessions().newest(RECENT).await?;
    // The picture may be half a second old: a session that ended since is still among the active.
    let is_active =
        |row: &SessionRow| facts.active.iter().any(|one| one.session.id == row.session.id);
    let ended = |row: &SessionRow| {
        if is_active(row) {
            return None;
        }
        let took = row.ended_at?.duration_since(row.started_at).as_millis();
        Some(json!({
            "session": row.session.id,
            "stage": row.session.stage,
            "item": row.session.item,
            "outcome": row.outcome,
            "exit_code": row.outcome.as_ref().and_then(Outcome::exit_code),
            "started_at": row.started_at,
            "duration_s": seconds(took),
            "usage": row.usage,
            "survivors": row.survivors,
        }))
    };
    Ok(as_json(&json!({
        "now": facts.now,
        "active_sessions": active,
        "recent_sessions": recent.iter().filter_map(ended).collect::<Vec<_>>(),
        "totals": totals(facts),
        "aggregates": facts.totals,
        "spending": {
            "today": facts.today,
            "by_stage": facts.today_by_stage,
            "per_day": facts.limits.per_day,
        },
        "runs": facts.runs,
        "last_run": facts.last_ended(),
        "next_run": facts.next_run,
    })))
}

/// Sessions of the whole history in a few figures.
fn totals(facts: &Facts) -> Value {
    let ended = &facts.totals.sessions;
    let sum = |wanted: fn(&SessionTotal) -> bool| -> u64 {
        ended.iter().filter(|total| wanted(total)).map(|total| total.count).sum()
    };
    let count = sum(|_| true);
    let completed = sum(|total| total.outcome == Outcome::Completed.into_str());
    let timed_out = sum(|total| total.outcome == Outcome::TimedOut.into_str());
    let duration_ms: u64 = ended.iter().map(|total| total.duration_ms).sum();
    json!({
        "spawned": count + facts.active.len() as u64,
        "completed": completed,
        "failed": count - completed,
        "timed_out": timed_out,
        "average_duration_ms": duration_ms.checked_div(count),
        "p95_duration_ms": facts.totals.duration_p95_ms,
        "exit_codes": facts.totals.exit_codes.iter().map(|(code, count)| (code.to_string(), *count))
            .collect::<BTreeMap<_, _>>(),
    })
}

/// How much of a list.
#[derive(Debug, Deserialize)]
pub struct Listed {
    limit: Option<u32>,
}

impl Listed {
    fn limit(&self, usual: u32) -> u32 {
        self.limit.unwrap_or(usual).clamp(1, MOST_LISTED)
    }
}

/// `GET /api/findings`
pub async fn findings(State(shared): Asked, Query(asked): Query<Listed>) -> Response {
    let found = shared.hub.store().findings().newest(asked.limit(50)).await;
    told(found.map(|rows| as_json(&rows.iter().map(listed).collect::<Vec<_>>())))
}

/// `GET /api/runs`
pub async fn runs(State(shared): Asked, Query(asked): Query<Listed>) -> Response {
    told(shared.hub.store().runs().newest(asked.limit(60)).await.map(|runs| as_json(&runs)))
}

/// `GET /api/sessions`
pub async fn sessions(State(shared): Asked, Query(asked): Query<Listed>) -> Response {
    told(shared.hub.store().sessions().newest(asked.limit(50)).await.map(|rows| as_json(&rows)))
}

/// Which items of the list.
#[derive(Debug, Deserialize)]
pub struct AskedItems {
    state: Option<ItemState>,
    reason: Option<Reason>,
    #[serde(default)]
    q: String,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /api/items`
pub async fn items(State(shared): Asked, Query(asked): Query<AskedItems>) -> Response {
    let AskedItems { state, reason, q: words, limit, offset } = asked;
    let limit = limit.unwrap_or(50).clamp(1, MOST_LISTED);
    let query = ItemQuery { state, reason, words, limit, offset };
    let found = shared.hub.store().items().list(query).await;
    told(found.map(|list| {
        let items: Vec<_> = list.items.iter().map(snapshot::listed_item).collect();
        as_json(&json!({ "total": list.total, "facets": list.facets, "items": items }))
    }))
}

/// `GET /api/items/KEY`
pub async fn item(State(shared): Asked, Path(key): Path<String>) -> Response {
    told(story(&shared.hub, ItemKey::from_stored(key)).await)
}

async fn story(hub: &Hub, key: ItemKey) -> Result<Response, StoreError> {
    let store = hub.store();
    let Some(row) = store.items().get(key.clone()).await? else {
        return Ok(refusal(StatusCode::NOT_FOUND, "unknown_item", "unknown item"));
    };
    let alarms = store.items().alarms(key.clone()).await?;
    let mut view = hub.view().await;
    view.titles.insert(key.clone(), row.title.clone());
    let lines: Vec<_> = store
        .events().of_item(key.clone())
        .await?
        .iter()
        .filter_map(|recorded| {
            let line = crate::report::lines::line(recorded, &view)?;
            Some(json!({ "seq": recorded.seq, "at": recorded.at, "run": recorded.run, "line": line }))
        })
        .collect();
    Ok(as_json(&json!({
        "item": row,
        "findings": store.findings().of_item(key.clone()).await?,
        "sessions": store.sessions().of_item(key).await?,
        "story": lines,
        "alarm": alarms.map(crate::model::Alarms::words),
        "repository": hub.config().repository.path,
    })))
}

/// `POST /api/sessions/ID/stop`
pub async fn stop(State(shared): Asked, Path(session): Path<String>) -> Response {
    let Ok(session) = session.parse() else {
        return refusal(StatusCode::BAD_REQUEST, "no_session", "not a valid session id");
    };
    acted(shared.actions.stop_session(session).await.map(|()| json!({ "stopping": session })))
}

/// `POST /api/items/KEY/retry`, as `/api/retry/KEY` because keys hold a slash.
pub async fn retry(State(shared): Asked, Path(key): Path<String>) -> Response {
    let key = ItemKey::from_stored(key);
    acted(shared.actions.retry_item(key.clone()).await.map(|()| json!({ "queued": key })))
}

/// What a person thinks of a finding.
#[derive(Debug, Deserialize)]
struct GivenFeedback {
    opinion: Opinion,
    #[serde(default)]
    note: String,
}

/// `POST /api/feedback/KEY` with `{"opinion": "useful"|"wrong"|"done", "note": "…"}`
pub async fn feedback(State(shared): Asked, Path(key): Path<String>, body: Bytes) -> Response {
    let given: GivenFeedback = match serde_json::from_slice(&body) {
        Ok(given) => given,
        Err(error) => {
            return refusal(StatusCode::BAD_REQUEST, "bad_feedback", &error.to_string());
        }
    };
    let (key, opinion) = (ItemKey::from_stored(key), given.opinion);
    let note = clip(given.note.trim(), LONGEST_NOTE);
    let stored = shared.actions.give_feedback(key.clone(), opinion, note).await;
    acted(stored.map(|()| json!({ "item": key, "feedback": opinion })))
}

/// `POST /api/run`
pub async fn run(State(shared): Asked) -> Response {
    acted(shared.actions.run_now().await.map(|run| json!({ "run": run })))
}

/// Anything else.
pub async fn nothing() -> Response {
    refusal(StatusCode::NOT_FOUND, "nothing_here", "there is no such path")
}

fn told(answer: Result<Response, StoreError>) -> Response {
    answer.unwrap_or_else(|error| {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "store", &error.to_string())
    })
}

fn acted(result: Result<serde_json::Value, ActionError>) -> Response {
    match result {
        Ok(value) => answer::json(&value),
        Err(error) => {
            let (status, code) = match &error {
                ActionError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
                ActionError::NotNow(_) => (StatusCode::CONFLICT, "not_now"),
                ActionError::Failed(_) => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
            };
            refusal(status, code, &error.to_string())
        }
    }
}
