//! `status`, `runs`, `sessions`, `show`: what is going on and what was found.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;

use super::error::CommandError;
use crate::analyze;
use crate::config::Config;
use crate::event::Recorded;
use crate::event::fold::RunView;
use crate::fetch::SourceMemory;
use crate::model::{ItemId, ItemKey};
use crate::report::lines::{clip, line, seconds, short_key, word};
use crate::session::containment::detect;
use crate::store::{
    ActiveSession, AttemptRow, FindingRow, Holder, HolderHealth, ItemRow, Journal, Phase, RunLock,
    RunRow, SessionRow, Spending, Store,
};

/// Everything `heartbeat status` knows.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Who holds the run lock.
    pub holder: Option<Holder>,
    /// Is it at work?
    pub holder_health: Option<HolderHealth>,
    /// The newest run.
    pub last_run: Option<RunRow>,
    /// When the schedule fires next.
    pub next_run: Option<Timestamp>,
    /// Live sessions.
    pub sessions: Vec<ActiveSession>,
    /// How many items stand where.
    pub items: Vec<(Phase, u32)>,
    /// Items that are not finished.
    pub open: Vec<ItemRow>,
    /// Money today, UTC.
    pub today: Spending,
    /// The day's budget.
    pub budget_per_day: crate::model::Usd,
    /// What is remembered of the source: breaker, not-before.
    pub source: serde_json::Value,
    /// The provider refuses work until then, for this reason.
    pub provider_suspended: Option<(Timestamp, String)>,
    /// Containment this machine allows.
    pub containment: String,
    /// What is wrong with the configuration on disk, as the running service saw it.
    pub config_fault: Option<String>,
}

/// Gathers the status. Reads only.
pub async fn status(
    store: &Store,
    config: &Config,
    now: Timestamp,
) -> Result<Status, CommandError> {
    let holder = RunLock::look(store.folder())?;
    let schedule =
        crate::schedule::Schedule::parse(&config.schedule.cron, &config.schedule.timezone)?;
    let journal = Journal::open(store.clone(), crate::clock::Clock::system(), None)?;
    let memory = journal.load(&config.source.name).await;
    Ok(Status {
        holder_health: holder.as_ref().map(|holder| holder.health(now)),
        holder,
        last_run: store.runs(1).await?.pop(),
        next_run: schedule.next_after(now),
        sessions: store.active_sessions().await?,
        items: store.phase_counts().await?,
        open: store.open_items().await?,
        today: store.spending_on(now.strftime("%F").to_string()).await?,
        budget_per_day: config.budget.per_day,
        source: serde_json::to_value(memory.ok()).unwrap_or_default(),
        provider_suspended: store.provider_suspension("agent", now).await?,
        containment: containment(config).await,
        config_fault: store.last_config_fault().await?,
    })
}

/// The strongest containment this machine allows, found out by trying.
async fn containment(config: &Config) -> String {
    let tried = match std::env::current_exe() {
        Ok(keeper) => detect(&keeper, config.state.containment).await,
        Err(error) => Err(error),
    };
    tried.map_or_else(|error| format!("unknown: {error}"), |tier| tier.to_string())
}

/// For a terminal.
pub fn render_status(status: &Status, now: Timestamp) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _: std::fmt::Result = writeln!(text, "{name:<12}{value}");
    };
    row("running", status.holder.as_ref().map_or_else(|| "no".into(), |h| describe_holder(h, now)));
    row("last run", status.last_run.as_ref().map_or_else(|| "none yet".into(), describe_run));
    row("next run", status.next_run.map_or_else(|| "never".into(), |t| t.to_string()));
    row("contained", status.containment.clone());
    let counts: Vec<String> =
        status.items.iter().map(|(phase, n)| format!("{n} {}", word(phase))).collect();
    row("items", if counts.is_empty() { "none yet".into() } else { counts.join(", ") });
    row(
        "today",
        format!(
            "{} spent, {} reserved, of {}",
            status.today.spent, status.today.reserved, status.budget_per_day
        ),
    );
    if let Some(breaker) = status.source.get("breaker") {
        row("breaker", describe_json(breaker));
    }
    if let Some((until, why)) = &status.provider_suspended {
        row("PROVIDER", format!("refuses work until {until}: {why}"));
    }
    if let Some(fault) = &status.config_fault {
        row("CONFIG", format!("broken on disk, the last good one is in force: {fault}"));
    }
    for session in &status.sessions {
        row("session", describe_active(session, now));
    }
    for item in &status.open {
        row(&word(&item.phase), describe_item(item));
    }
    text
}

fn describe_holder(holder: &Holder, now: Timestamp) -> String {
    let health = match holder.health(now) {
        HolderHealth::Alive => "alive",
        HolderHealth::Hung => "HUNG: no heartbeat for over two minutes",
    };
    format!("{} (process {}) since {}, {health}", holder.purpose, holder.process.pid, holder.since)
}

fn describe_run(run: &RunRow) -> String {
    let outcome = run.outcome.map_or_else(|| "going on".into(), |outcome| word(&outcome));
    let took = run
        .ended_at
        .map(|end| end.duration_since(run.started_at).as_millis())
        .and_then(|ms| u64::try_from(ms).ok())
        .map(|ms| format!(" after {}", seconds(ms)))
        .unwrap_or_default();
    let figures = run.summary.map_or_else(String::new, |s| {
        format!(
            ": {} fetched, {} triaged, {} analysed, {} deferred, {}",
            s.fetched, s.triaged, s.analysed, s.deferred, s.cost
        )
    });
    format!("{} {outcome}{took}{figures}", run.started_at)
}

fn describe_active(session: &ActiveSession, now: Timestamp) -> String {
    let item = session.item.as_ref().map(short_key).unwrap_or_default();
    let elapsed = now.duration_since(session.started_at).as_secs();
    let limit = session.deadline_at.duration_since(session.started_at).as_secs();
    let pid = session.agent_pid.unwrap_or(session.keeper_pid);
    format!(
        "{} {} {item} pid {pid}, {elapsed} s of {limit} s [{}]",
        session.session, session.stage, session.tier
    )
}

fn describe_item(item: &ItemRow) -> String {
    let next = item.next_attempt.map(|t| format!(", next attempt {t}")).unwrap_or_default();
    format!(
        "{} {} ({}, {} attempt(s){next})",
        short_key(&item.key),
        clip(&item.title, 50),
        word(&item.reason),
        item.attempts
    )
}

/// `{"state":"closed","failures":0}` as `state closed, failures 0`.
fn describe_json(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Object(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| format!("{key} {}", describe_json(value)))
                .collect();
            parts.join(", ")
        }
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A list of runs for a terminal.
pub fn render_runs(runs: &[RunRow]) -> String {
    runs.iter().map(|run| format!("{}  {}\n", run.run, describe_run(run))).collect()
}

/// A list of sessions for a terminal.
pub fn render_sessions(sessions: &[SessionRow]) -> String {
    let one = |session: &SessionRow| {
        let outcome = session.outcome.as_ref().map_or_else(|| "alive".into(), ToString::to_string);
        let cost = session.usage.map(|usage| format!(", {}", usage.cost)).unwrap_or_default();
        let item = session.item.as_ref().map(short_key).unwrap_or_default();
        format!(
            "{}  {} {:<6} {item:<8} attempt {} {outcome}{cost} [{}]\n",
            session.started_at,
            session.session,
            session.stage.as_str(),
            session.attempt,
            session.tier
        )
    };
    sessions.iter().map(one).collect()
}

/// Everything `heartbeat show ITEM` knows.
#[derive(Debug, Serialize)]
pub struct Story {
    /// Where it stands.
    pub item: ItemRow,
    /// What was found, newest first.
    pub findings: Vec<FindingRow>,
    /// Every try at it, oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Its sessions, oldest first.
    pub sessions: Vec<SessionRow>,
    /// Everything that happened to it.
    pub events: Vec<Recorded>,
}

/// The story of an item, named by number or key.
pub async fn story(store: &Store, source: &str, item: &str) -> Result<Story, CommandError> {
    let key = parse_key(source, item)?;
    let row = store.item(key.clone()).await?.ok_or_else(|| {
        CommandError::NotFound(format!(
            "{key} has never been seen in {}; `heartbeat status` lists what has",
            store.folder().display()
        ))
    })?;
    Ok(Story {
        item: row,
        findings: store.findings_of(key.clone()).await?,
        attempts: store.attempts_of(key.clone()).await?,
        sessions: store.sessions_of(key.clone()).await?,
        events: store.events_of(key).await?,
    })
}

fn render_attempts(attempts: &[AttemptRow]) -> String {
    let one = |attempt: &AttemptRow| {
        let outcome =
            attempt.outcome.as_ref().map_or_else(|| "going on".into(), ToString::to_string);
        let cost = attempt.usage.map(|usage| format!(", {}", usage.cost)).unwrap_or_default();
        let counted = if attempt.counted { "" } else { ", does not count" };
        format!("\nattempt {} at {}: {outcome}{cost}{counted}", attempt.attempt, attempt.claimed_at)
    };
    attempts.iter().map(one).collect()
}

/// `123`, `#123` or `ado/123`.
pub fn parse_key(source: &str, item: &str) -> Result<ItemKey, CommandError> {
    if item.contains('/') {
        return Ok(ItemKey::from_stored(item.to_owned()));
    }
    item.trim_start_matches('#').parse().map(|id| ItemKey::new(source, ItemId(id))).map_err(|_| {
        CommandError::Usage(format!("{item:?} is no item; give its number, such as 123 or #123"))
    })
}

/// For a terminal.
pub fn render_story(story: &Story) -> String {
    let item = &story.item;
    let mut text = format!(
        "{} {}\n{} · revision {} · changed {}\n{}\n\n{} ({})",
        short_key(&item.key),
        item.title,
        item.item_type,
        item.revision,
        item.last_changed,
        item.url,
        word(&item.phase),
        word(&item.reason),
    );
    if let Some(verdict) = &item.verdict {
        let _: std::fmt::Result = write!(
            text,
            "\ntriage: {}, {}: {}",
            word(&verdict.complexity),
            if verdict.needs_deep_analysis { "deep analysis" } else { "no deep analysis" },
            verdict.reason
        );
    }
    text.push_str(&render_attempts(&story.attempts));
    text.push_str("\n\nStory\n");
    let mut view = RunView::default();
    for recorded in &story.events {
        view.apply(recorded);
        if let Some(line) = line(recorded, &view) {
            let _: std::fmt::Result = writeln!(text, "  {} {line}", recorded.at.strftime("%F"));
        }
    }
    for row in &story.findings {
        let _: std::fmt::Result = write!(
            text,
            "\nFinding of {} on revision {}\n\n{}",
            row.created_at,
            row.revision,
            analyze::markdown(&row.finding)
        );
    }
    text
}
