//! The facts as JSON for the dashboard. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::facts::Facts;
use super::health::Health;
use crate::event::Liveness;
use crate::event::fold::RunView;
use crate::event::stages::{Reached, Stages};
use crate::model::text::clip;
use crate::model::{Alarms, ItemKey, SessionId, SourceRecord, Stage};
use crate::report::code_links::{self, CodeLinks};
use crate::report::worth::worth;
use crate::settings::Config;
use crate::store::{ActiveSession, FindingRow, ItemRow, ListedItem, OpenItems, RunRow};

/// Open items that are listed; the rest are counted.
pub const QUEUE: u32 = 40;
/// Maximum length of title and summary in a list, in characters.
const LINE: usize = 400;

/// What the dashboard may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Abilities {
    pub run: bool,
    /// End a session, requeue an item.
    pub act: bool,
}

/// What the log says beyond the run's view.
#[derive(Debug, Default)]
pub struct Log {
    /// The existing log was read.
    pub begun: bool,
    /// Number of its newest event.
    pub seq: i64,
    /// The newest run.
    pub view: RunView,
    /// The last liveness event of each live session.
    pub beats: BTreeMap<SessionId, Liveness>,
}

/// Everything on the first screen.
pub fn state(
    facts: &Facts,
    health: &Health,
    log: &Log,
    open: &OpenItems,
    config: &Config,
    can: Abilities,
) -> Value {
    let run = facts.runs.first();
    let titles: BTreeMap<&ItemKey, &ItemRow> =
        open.first.iter().map(|item| (&item.key, item)).collect();
    let sessions: Vec<Value> =
        facts.active.iter().map(|active| session(active, log, &titles, config)).collect();
    let queue: Vec<Value> = open.first.iter().map(queued).collect();
    let source = |(name, record): &(String, SourceRecord)| {
        json!({
            "name": name,
            "breaker": record.breaker,
            "not_before": record.not_before.filter(|until| *until > facts.now),
        })
    };
    let sources: Vec<Value> = facts.sources.iter().map(source).collect();
    json!({
        "seq": log.seq,
        "now": facts.now,
        "version": env!("CARGO_PKG_VERSION"),
        "can": can,
        "health": health,
        "run": run.map(|row| self::run(row, facts.holder.is_none(), &log.view)),
        "last_useful": facts.last_useful,
        "sessions": sessions,
        "limits": facts.limits,
        "queue": { "total": open.total, "phases": facts.items,
            "states": facts.item_states, "items": queue, "backlog": facts.backlog },
        "source": sources.first(),
        "sources": sources,
        "removed_sources": facts.removed_sources,
        "provider": facts.provider,
        "provider_breaker": facts.provider_breaker,
        "outbox": {
            "pending": facts.outbox.pending, "failed": facts.outbox.failed,
            "messages": facts.outbox_messages,
        },
        "budget": {
            "day": facts.today, "per_day": facts.limits.per_day,
            "run": facts.run_spending, "per_run": facts.limits.per_run,
            "by_stage": facts.today_by_stage,
            "others": facts.other_budgets,
            "week": facts.spending.week, "month": facts.spending.month,
            "month_forecast": facts.spending.month_forecast,
        },
        "schedule": {
            "cron": config.schedule.cron,
            "timezone": config.schedule.timezone,
            "next_run": facts.next_run,
            "paused": facts.paused,
        },
        "load": {
            "per_core": facts.machine.load_per_core(),
            "limit": facts.limits.max_load_per_core,
        },
        "repository": config.repository.path,
        "place": place(config),
    })
}

/// What this dashboard is about, for the header and the titles.
fn place(config: &Config) -> Value {
    let repository = config.repository.path.file_name().map(|name| name.to_string_lossy());
    json!({
        "organization": config.organizations(),
        "project": config.projects(),
        "repository": repository,
        "demo": config.is_simulated(),
    })
}

/// A run with its stages and figures. `is_free`: whether the run lock is free.
pub fn run(run: &RunRow, is_free: bool, view: &RunView) -> Value {
    let is_lost = run.ended_at.is_none() && is_free;
    let reached = match run.outcome {
        Some(outcome) => Reached::Ended(outcome),
        None if is_lost => Reached::Lost,
        None => Reached::Live,
    };
    // The log may be one event behind or ahead of the table; another run's figures are not shown.
    let own = (view.run == Some(run.run)).then_some(view);
    let mut value = json!({
        "run": run.run,
        "trigger": run.trigger,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "outcome": run.outcome,
        "summary": run.summary,
        "lost": is_lost,
        "stages": Stages::of(own.unwrap_or(&RunView::default()), reached),
    });
    if let Some(view) = own
        && let Some(fields) = value.as_object_mut()
    {
        let figures = json!({
            "step": view.step, "to_triage": view.to_triage, "to_analyse": view.to_analyse,
            "waits_for": view.waits_for, "error": view.error, "fetched": view.fetched, "work": view.work,
            "raw_bytes": view.raw_bytes, "clean_bytes": view.clean_bytes, "alarms": view.alarms,
            "decisions": view.decisions, "triaged": view.triaged, "deep": view.deep,
            "triage_failed": view.triage_failed,
            "source_failed": view.fetch_failed.is_some(), "analysed": view.analysed,
            "settled": view.settled, "failed": view.failed, "deferred": view.deferred,
            "waiting": view.waiting, "parked": view.parked, "cost": view.cost, "cost_estimated": view.cost_estimated,
            "ended_sessions": view.ended_sessions,
            "notices": view.notices.iter().rev().take(5).map(|n| clip(n, LINE)).collect::<Vec<_>>(),
        });
        if let Value::Object(figures) = figures {
            fields.extend(figures);
        }
    }
    value
}

fn session(
    active: &ActiveSession,
    log: &Log,
    open: &BTreeMap<&ItemKey, &ItemRow>,
    config: &Config,
) -> Value {
    let worst_case = match active.session.stage {
        Stage::Triage | Stage::Locate => config.triage.max_cost,
        Stage::Deep => config.analyze.max_cost,
    };
    let view = log.view.sessions.get(&active.session.id);
    let row = active.session.item.as_ref().and_then(|key| open.get(key));
    let title = row.map(|row| clip(&row.title, LINE));
    json!({
        "session": active.session.id,
        "stage": active.session.stage,
        "item": active.session.item,
        "title": title,
        "url": row.map(|row| &row.url),
        "attempt": active.session.attempt,
        "tier": active.tier,
        "host": active.host,
        "worst_case": worst_case,
        "started_at": active.started_at,
        "deadline_at": active.deadline_at,
        "pid": active.agent_pid.or(view.and_then(|view| view.pid)).unwrap_or(active.keeper_pid),
        "model": view.and_then(|view| view.model.as_ref()),
        "verdict": view.map(|view| view.verdict),
        "evidence": view.map(|view| clip(&view.evidence, LINE)),
        "progress": view.map(|view| view.progress),
        "last_progress": view.map(|view| clip(&view.last_progress, LINE)),
        "stopping": view.and_then(|view| view.stopping.as_ref()),
        "processes": view.map(|view| view.processes),
        "beat": log.beats.get(&active.session.id),
    })
}

fn queued(item: &ItemRow) -> Value {
    json!({
        "key": item.key,
        "title": clip(&item.title, LINE),
        "item_type": item.item_type,
        "url": item.url,
        "phase": item.phase,
        "reason": item.reason,
        "attempts": item.attempts,
        "next_attempt": item.next_attempt,
        "deferrals": item.deferrals,
    })
}

pub fn listed_item(item: &ListedItem) -> Value {
    let mut value = queued(&item.row);
    if let Some(fields) = value.as_object_mut() {
        let triage = item.row.verdict.as_ref().map(|verdict| clip(&verdict.reason, LINE));
        fields.insert("state".into(), json!(item.state));
        fields.insert("triage".into(), json!(triage));
        let summary = item.summary.as_ref().map(|summary| clip(summary, LINE));
        fields.insert("summary".into(), json!(summary));
        fields.insert("alarm".into(), json!(item.alarms.map(Alarms::to_text)));
        fields.insert("last_changed".into(), json!(item.row.last_changed));
    }
    value
}

/// A finding with its parts in the order and the words of every output.
pub fn whole(row: &FindingRow, links: Option<&CodeLinks>) -> Value {
    let mut value = json!(row);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("parts".into(), json!(code_links::parts(&row.finding, links)));
    }
    value
}

/// The beginning of a finding; its item's page has all of it.
pub fn listed(row: &FindingRow) -> Value {
    json!({
        "key": row.key,
        "title": clip(&row.title, LINE),
        "url": row.url,
        "run": row.run,
        "session": row.session,
        "revision": row.revision,
        "created_at": row.created_at,
        "area": row.area,
        "person": row.assigned_to,
        "priority": row.priority,
        "worth": worth(row),
        "summary": clip(&row.finding.summary, LINE),
        "risk": row.finding.risk,
        "effort": row.finding.effort,
        "confidence": row.finding.confidence,
        "proof": row.finding.rung(),
        "files": row.finding.files.len(),
        "cost": row.cost,
        "feedback": row.feedback,
        "fix": row.score(),
    })
}
