//! Pages of one run and one session, figures by day, and the report download.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{full_response, json as as_json, refusal};
use super::api::{into_response, named, titled};
use super::commands::refused;
use super::hub::Hub;
use super::server::Shared;
use super::{run_page, session_page, snapshot};
use crate::event::fold::RunView;
use crate::model::{SessionId, Stage, Usd};
use crate::report::digest::Scope;
use crate::report::fixes::{LATELY, accuracy, sentence};
use crate::report::lines::line;
use crate::report::worth;
use crate::schedule::day_in;
use crate::settings::ReportFormat;
use crate::store::StoreError;

type SharedState = State<Arc<Shared>>;

/// Days covered by `/api/figures`: twelve weeks.
const FIGURE_DAYS: i64 = 84;
/// Maximum number of days in a report.
const REPORT_DAYS: i64 = 366;
/// Newest log lines that a run's page shows.
const LINES: usize = 500;

/// `GET /api/runs/ID`
pub async fn run(State(shared): SharedState, Path(id): Path<String>) -> Response {
    into_response(the_run(&shared.hub, id).await)
}

async fn the_run(hub: &Hub, id: String) -> Result<Response, StoreError> {
    let store = hub.store();
    let Some(row) = store.runs().with_prefix(id.to_lowercase()).await? else {
        return Ok(refusal(StatusCode::NOT_FOUND, "unknown_run", "unknown run"));
    };
    let events = store.events().of_run_page(row.run).await?;
    let (mut view, mut lines) = (RunView::default(), Vec::new());
    for recorded in &events {
        view.apply(recorded);
        if let Some(line) = line(recorded, &view) {
            lines.push(json!({ "seq": recorded.seq, "at": recorded.at, "line": line }));
        }
    }
    let mut findings = store.findings().in_run(row.run).await?;
    worth::sort(&mut findings);
    let is_held = hub.snapshot().await.facts.holder.is_some();
    let older = lines.len().saturating_sub(LINES);
    let page = json!({
        "run": snapshot::run(&row, !is_held, &view),
        "items": run_page::items(&events, &findings),
        "sessions": titled(store, store.sessions().in_run(row.run).await?).await?,
        "spending": store.budget().by_stage_in_run(row.run).await?,
        "older_lines": older,
        "lines": lines.split_off(older),
    });
    Ok(named(hub, page).await)
}

/// `GET /api/sessions/ID`
pub async fn session(State(shared): SharedState, Path(id): Path<String>) -> Response {
    match id.parse() {
        Ok(id) => into_response(the_session(&shared.hub, id).await),
        Err(_) => refusal(StatusCode::BAD_REQUEST, "no_session", "not a valid session id"),
    }
}

async fn the_session(hub: &Hub, id: SessionId) -> Result<Response, StoreError> {
    let store = hub.store();
    let Some(row) = store.sessions().get(id).await? else {
        return Ok(refusal(StatusCode::NOT_FOUND, "unknown_session", "unknown session"));
    };
    let title = match &row.session.item {
        Some(key) => store.items().get(key.clone()).await?.map(|item| item.title),
        None => None,
    };
    let events = store.events().of_session(row.session.run, id).await?;
    let page = json!({
        "title": title,
        "transcript": store.sessions().transcript(id).await?,
        "life": session_page::history(&events),
        "session": row,
    });
    Ok(named(hub, page).await)
}

/// `GET /api/figures`: findings, sessions and cost by day, newest first.
pub async fn figures(State(shared): SharedState) -> Response {
    into_response(the_figures(&shared.hub).await)
}

#[derive(Default, serde::Serialize)]
struct Day {
    findings: u32,
    sessions: u32,
    triage: Usd,
    locate: Usd,
    deep: Usd,
}

async fn the_figures(hub: &Hub) -> Result<Response, StoreError> {
    let (store, config) = (hub.store(), hub.config());
    let (zone, now) = (&config.schedule.timezone, hub.snapshot().await.facts.now);
    let since = back(now, FIGURE_DAYS);
    let mut days = BTreeMap::<String, Day>::new();
    for spent in store.budget().by_stage_since(day_in(zone, since)).await? {
        let day = days.entry(spent.day).or_default();
        day.sessions += spent.money.sessions;
        match spent.stage {
            Stage::Triage => day.triage += spent.money.spent,
            Stage::Locate => day.locate += spent.money.spent,
            Stage::Deep => day.deep += spent.money.spent,
        }
    }
    for at in store.findings().times_since(since).await? {
        days.entry(day_in(zone, at)).or_default().findings += 1;
    }
    let listed: Vec<Value> = days
        .into_iter()
        .rev()
        .map(|(day, figures)| {
            let Day { findings, sessions, triage, locate, deep } = figures;
            json!({ "day": day, "findings": findings, "sessions": sessions,
                "triage": triage, "locate": locate, "deep": deep })
        })
        .collect();
    let fixed = store.findings().fixed_between(back(now, 7), now).await?;
    let accuracy = sentence(LATELY, &accuracy(&fixed));
    let today = day_in(zone, now);
    Ok(as_json(&json!({ "today": today, "timezone": zone, "days": listed, "accuracy": accuracy })))
}

fn back(now: Timestamp, days: i64) -> Timestamp {
    now.saturating_sub(SignedDuration::from_hours(24 * days)).unwrap_or(now)
}

#[derive(Debug, Deserialize)]
pub struct WantedReport {
    run: Option<String>,
    finding: Option<SessionId>,
    days: Option<i64>,
    format: Option<ReportFormat>,
}

/// `GET /api/report?run=ID` or `?days=7`, with `&format=html|md|json`: a file to download.
pub async fn report(State(shared): SharedState, Query(wanted): Query<WantedReport>) -> Response {
    let (scope, name) = match scope_of(&shared.hub, &wanted).await {
        Ok(Some(found)) => found,
        Ok(None) => return refusal(StatusCode::NOT_FOUND, "unknown_run", "unknown run"),
        Err(error) => return into_response(Err(error)),
    };
    let format = wanted.format.unwrap_or(ReportFormat::Html);
    let text = match shared.actions.report(scope, format).await {
        Ok(text) => text,
        Err(error) => return refused(&error),
    };
    let media_type = match format {
        ReportFormat::Html => "text/html; charset=utf-8",
        ReportFormat::Md => "text/markdown; charset=utf-8",
        ReportFormat::Json => "application/json",
    };
    let mut response = full_response(StatusCode::OK, media_type, text);
    let name = format!("attachment; filename=\"heartbeat-{name}.{}\"", format.extension());
    if let Ok(value) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// `GET /api/findings/SESSION/brief`: the finding as a task for a coding agent.
pub async fn brief(State(shared): SharedState, Path(id): Path<String>) -> Response {
    let Ok(session) = id.parse() else {
        return refusal(StatusCode::NOT_FOUND, "unknown_finding", "unknown finding");
    };
    match shared.actions.brief(session).await {
        Ok(text) => full_response(StatusCode::OK, "text/markdown; charset=utf-8", text),
        Err(error) => refused(&error),
    }
}

/// The scope and the file's name; `None` if there is no such run.
async fn scope_of(hub: &Hub, wanted: &WantedReport) -> Result<Option<(Scope, String)>, StoreError> {
    if let Some(session) = wanted.finding {
        let found = hub.store().findings().of_session(session).await?;
        let names = hub.names().await;
        return Ok(found.map(|row| {
            let name = names.name(&row.key);
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let name: String = name.chars().map(plain).collect();
            (Scope::Finding { session }, name.trim_matches('-').to_owned())
        }));
    }
    if let Some(id) = &wanted.run {
        let found = hub.store().runs().with_prefix(id.to_lowercase()).await?;
        return Ok(found.map(|row| {
            let name = row.started_at.strftime("%Y%m%dT%H%M%SZ").to_string();
            (Scope::Run { run: row.run }, name)
        }));
    }
    let now = hub.snapshot().await.facts.now;
    let days = wanted.days.unwrap_or(7).clamp(1, REPORT_DAYS);
    // Includes the current moment.
    let to = now.saturating_add(SignedDuration::from_millis(1)).unwrap_or(now);
    let name = format!("{days}-days-to-{}", now.strftime("%Y%m%d"));
    Ok(Some((Scope::Period { from: back(now, days), to }, name)))
}
