//! Handlers of the read-only paths.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{JSON, full_response, json as as_json, refusal};
use super::facts::Facts;
use super::hub::Hub;
use super::metrics;
use super::server::Shared;
use super::snapshot::{self, listed};
use crate::event::{Event, Reason};
use crate::model::text::clip;
use crate::model::{ItemId, ItemKey, Outcome, SessionId, plain_text};
use crate::report::code_links::CodeLinks;
use crate::report::suggestions;
use crate::store::{ItemQuery, ItemSort, ItemState, SessionRow, SessionTotal, Store, StoreError};

/// The loop never sleeps for more than 30 s; three times that means that it is hung.
const LOOP_HUNG_AFTER: Duration = Duration::from_secs(90);
/// Sessions that `/heartbeat/metrics` lists.
const RECENT: u32 = 50;
/// Maximum length of a list.
const MAX_LISTED: u32 = 500;

type SharedState = State<Arc<Shared>>;

/// `GET /health`
pub async fn health(State(shared): SharedState) -> Response {
    let snapshot = shared.hub.snapshot().await;
    full_response(status_of(!snapshot.is_unhealthy()), JSON, snapshot.health.clone())
}

/// `GET /livez`
pub async fn livez(State(shared): SharedState) -> Response {
    let since = shared.hub.since_turn().unwrap_or_default();
    let alive = since < LOOP_HUNG_AFTER;
    let body = json!({ "alive": alive, "seconds_since_turn": since.as_secs() });
    full_response(status_of(alive), JSON, body.to_string())
}

/// `GET /readyz`
pub async fn readyz(State(shared): SharedState) -> Response {
    let snapshot = shared.hub.snapshot().await;
    let facts = &snapshot.facts;
    let faults = [("store", &facts.store_fault), ("agent", &facts.agent_missing)];
    let reason = |(code, fault): (&str, &Option<String>)| {
        fault.as_ref().map(|message| json!({ "code": code, "message": message }))
    };
    let reasons: Vec<_> = faults.into_iter().filter_map(reason).collect();
    let ready = reasons.is_empty();
    let body = json!({ "ready": ready, "reasons": reasons });
    full_response(status_of(ready), JSON, body.to_string())
}

fn status_of(good: bool) -> StatusCode {
    if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// `GET /metrics`
pub async fn prometheus(State(shared): SharedState) -> Response {
    let snapshot = shared.hub.snapshot().await;
    full_response(StatusCode::OK, metrics::MEDIA_TYPE, snapshot.metrics.clone())
}

/// `GET /api/state`
pub async fn state(State(shared): SharedState) -> Response {
    let snapshot = shared.hub.snapshot().await;
    full_response(StatusCode::OK, JSON, snapshot.state.clone())
}

/// `GET /heartbeat/metrics`
pub async fn overview(State(shared): SharedState) -> Response {
    into_response(try_overview(&shared.hub).await)
}

async fn try_overview(hub: &Hub) -> Result<Response, StoreError> {
    let snapshot = hub.snapshot().await;
    let facts = &snapshot.facts;
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
    // The snapshot may be half a second old: a session that ended since may still be listed as
    // active.
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

/// Totals over all stored sessions.
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

/// Query of a list.
#[derive(Debug, Deserialize)]
pub struct ListQuery {
    limit: Option<u32>,
}

impl ListQuery {
    fn limit(&self, usual: u32) -> u32 {
        self.limit.unwrap_or(usual).clamp(1, MAX_LISTED)
    }
}

/// `GET /api/me`: what the sender may do.
pub async fn me(State(shared): SharedState, headers: HeaderMap) -> Response {
    as_json(&json!({ "may_act": shared.may_act(&headers) }))
}

/// `GET /api/findings`
pub async fn findings(State(shared): SharedState, Query(query): Query<ListQuery>) -> Response {
    into_response(the_findings(&shared.hub, query.limit(50)).await)
}

/// The most worthwhile of the newest ones.
async fn the_findings(hub: &Hub, limit: u32) -> Result<Response, StoreError> {
    let mut rows = hub.store().findings().newest(MAX_LISTED).await?;
    crate::report::worth::sort(&mut rows);
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(named(hub, rows.iter().map(listed).collect()).await)
}

/// JSON with the items' names.
pub async fn named(hub: &Hub, mut value: Value) -> Response {
    hub.names().await.add_to(&mut value);
    as_json(&value)
}

/// `GET /api/findings/SESSION`
pub async fn finding(State(shared): SharedState, Path(id): Path<String>) -> Response {
    match id.parse() {
        Ok(id) => into_response(the_finding(&shared.hub, id).await),
        Err(_) => refusal(StatusCode::NOT_FOUND, "unknown_finding", "unknown finding"),
    }
}

async fn the_finding(hub: &Hub, id: SessionId) -> Result<Response, StoreError> {
    let Some(row) = hub.store().findings().of_session(id).await? else {
        return Ok(refusal(StatusCode::NOT_FOUND, "unknown_finding", "unknown finding"));
    };
    let links = CodeLinks::configured(&hub.config());
    Ok(named(hub, snapshot::whole(&row, links.as_ref())).await)
}

/// `GET /api/runs`
pub async fn runs(State(shared): SharedState, Query(query): Query<ListQuery>) -> Response {
    into_response(
        shared.hub.store().runs().newest(query.limit(60)).await.map(|runs| as_json(&runs)),
    )
}

/// `GET /api/sessions`
pub async fn sessions(State(shared): SharedState, Query(query): Query<ListQuery>) -> Response {
    match shared.hub.store().sessions().newest(query.limit(50)).await {
        Ok(rows) => match titled(shared.hub.store(), rows).await {
            Ok(rows) => named(&shared.hub, rows).await,
            Err(error) => into_response(Err(error)),
        },
        Err(error) => into_response(Err(error)),
    }
}

/// Sessions with the titles of their items.
pub async fn titled(store: &Store, rows: Vec<SessionRow>) -> Result<Value, StoreError> {
    let keys = rows.iter().filter_map(|row| row.session.item.clone()).collect();
    let titles = store.items().titles(keys).await?;
    let one = |row: SessionRow| {
        let title = row.session.item.as_ref().and_then(|key| titles.get(key)).cloned();
        let mut value = json!(row);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("title".into(), title.into());
        }
        value
    };
    Ok(rows.into_iter().map(one).collect())
}

/// Query of the item list.
#[derive(Debug, Deserialize)]
pub struct ItemListQuery {
    state: Option<ItemState>,
    reason: Option<Reason>,
    #[serde(default)]
    q: String,
    #[serde(default)]
    sort: ItemSort,
    limit: Option<u32>,
    #[serde(default)]
    offset: u32,
}

/// `GET /api/items`
pub async fn items(State(shared): SharedState, Query(query): Query<ItemListQuery>) -> Response {
    let ItemListQuery { state, reason, q: words, sort, limit, offset } = query;
    let limit = limit.unwrap_or(50).clamp(1, MAX_LISTED);
    let wanted = ItemQuery { state, reason, words, sort, limit, offset };
    let found = shared.hub.store().items().list(wanted).await;
    match found {
        Ok(list) => {
            let items: Vec<_> = list.items.iter().map(snapshot::listed_item).collect();
            let list = json!({ "total": list.total, "facets": list.facets, "items": items });
            named(&shared.hub, list).await
        }
        Err(error) => into_response(Err(error)),
    }
}

/// `GET /api/items/KEY`
pub async fn item(State(shared): SharedState, Path(key): Path<String>) -> Response {
    match find_item(&shared.hub, &key).await {
        Ok(Some(key)) => into_response(item_history(&shared.hub, key).await),
        Ok(None) => no_item(&key),
        Err(error) => into_response(Err(error)),
    }
}

/// By its key, its name (`PARCEL-4`) or its number (`4106`, `#4106`), if only one source has it.
async fn find_item(hub: &Hub, text: &str) -> Result<Option<ItemKey>, StoreError> {
    if let Some(key) = hub.names().await.key(text) {
        return Ok(Some(key));
    }
    let Ok(number) = text.trim_start_matches('#').parse() else {
        return Ok(Some(ItemKey::from_stored(text.to_owned())));
    };
    let known = hub.store().items().with_number(ItemId(number)).await?;
    Ok(<[ItemKey; 1]>::try_from(known).ok().map(|[only]| only))
}

fn no_item(name: &str) -> Response {
    let name = clip(&plain_text(name), 80);
    let message = format!(
        "no read of the tracker has returned an item {name}; `heartbeat why {name}` asks the tracker \
         about it"
    );
    refusal(StatusCode::NOT_FOUND, "unknown_item", &message)
}

async fn item_history(hub: &Hub, key: ItemKey) -> Result<Response, StoreError> {
    let store = hub.store();
    let Some(row) = store.items().get(key.clone()).await? else {
        return Ok(no_item(key.as_str()));
    };
    let alarms = store.items().alarms(key.clone()).await?;
    let mut view = hub.view().await;
    view.titles.insert(key.clone(), row.title.clone());
    let events = store.events().of_item(key.clone()).await?;
    let newest = |of_kind: fn(&Event) -> bool| {
        events.iter().rev().map(|recorded| &recorded.event).find(|event| of_kind(event))
    };
    let surroundings = newest(|event| matches!(event, Event::SurroundingsRead { .. }));
    let rule = newest(|event| matches!(event, Event::RuleMatched { .. }));
    let lines: Vec<_> = events
        .iter()
        .filter_map(|recorded| {
            let line = crate::report::lines::line(recorded, &view)?;
            Some(json!({ "seq": recorded.seq, "at": recorded.at, "run": recorded.run, "line": line }))
        })
        .collect();
    let findings = store.findings().of_item(key.clone()).await?;
    let links = CodeLinks::configured(&hub.config());
    let findings: Vec<_> =
        findings.iter().map(|row| snapshot::whole(row, links.as_ref())).collect();
    let duplicates = store.items().duplicates_of(key.clone()).await?;
    let names = hub.names().await;
    let why =
        crate::report::why::known(&row, !findings.is_empty(), &duplicates, |key| names.name(key));
    let rows = store.suggestions().of_item(key.clone()).await?;
    let suggested = suggestions::lines(&rows, row.verdict.as_ref(), (&duplicates, &key));
    let page = json!({
        "suggested": suggested,
        "item": row,
        "findings": findings,
        "surroundings": surroundings,
        "rule": rule,
        "duplicates": duplicates,
        "sessions": store.sessions().of_item(key).await?,
        "story": lines,
        "alarm": alarms.map(crate::model::Alarms::to_text),
        "repository": hub.config().repository.path,
        "why": why,
    });
    Ok(named(hub, page).await)
}

/// Any other path: for a browser the page that says so, for a program JSON.
pub async fn nothing(headers: HeaderMap) -> Response {
    if super::answer::wants_page(&headers) {
        return super::page::not_found();
    }
    refusal(StatusCode::NOT_FOUND, "nothing_here", "no such path")
}

/// The response, or an error if the state cannot be read.
pub fn into_response(answer: Result<Response, StoreError>) -> Response {
    answer.unwrap_or_else(|error| {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "store", &error.to_string())
    })
}
