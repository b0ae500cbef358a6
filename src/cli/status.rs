//! `heartbeat status`: the current run, the queue and the spending.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::error::CommandError;
use super::show::{CRASHED, describe_run};
use crate::breaker::provider::{Hold, HoldKind};
use crate::event::fold::of_source;
use crate::model::text::{clip, in_words};
use crate::model::{Breaker, BreakerState, Phase, RunId, SourceRecord};
use crate::ports::SourceMemory;
use crate::report::lines::short_key;
use crate::report::moment::moment;
use crate::report::paint::Paint;
use crate::schedule::{date_in, day_in};
use crate::session::containment::detect;
use crate::session::keeper::launch::own_program;
use crate::settings::Config;
use crate::store::{
    ActiveSession, Holder, HolderHealth, ItemRow, Journal, Message, MessageState, OpenItems, Pause,
    RunLock, RunRow, SchedulerMark, Spending, SpendingTotals, StageSpending, Store, Undelivered,
    WORKER,
};
use crate::web::budgets::{OtherBudget, other_budgets};
use crate::web::health::Health;

/// Items shown on a terminal; the JSON has all of them.
pub const MAX_ITEMS: u32 = 20;

/// How far back spending is shown.
const SPENDING_SHOWN: SignedDuration = SignedDuration::from_hours(24 * 6);

/// Everything that `heartbeat status` prints.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The same word and reasons as `/health`.
    pub health: Health,
    /// The process that holds the run lock.
    pub holder: Option<Holder>,
    /// Whether it still sends heartbeats.
    pub holder_health: Option<HolderHealth>,
    /// The run in progress: started, and its process holds the lock.
    pub running: Option<RunId>,
    /// The newest run.
    pub last_run: Option<RunRow>,
    /// What prevented the newest run's work, and what to do.
    pub last_run_error: Option<String>,
    /// Whether a scheduler runs on this state.
    pub scheduler: bool,
    /// The last runs in a row that read no item at all, if no run ever has.
    pub empty_runs: u32,
    /// `None` without a scheduler.
    pub next_run: Option<Timestamp>,
    /// Why the configured schedule cannot be used.
    pub schedule_fault: Option<String>,
    pub paused: Option<Pause>,
    pub sessions: Vec<ActiveSession>,
    /// Number of items per phase.
    pub items: Vec<(Phase, u32)>,
    /// When the work that waits will be through; `None` if the next run can do it.
    pub backlog: Option<String>,
    pub open: OpenItems,
    /// Today in the schedule's time zone.
    pub today: Spending,
    /// Today, the last seven days and the month, with a forecast.
    pub spending_totals: SpendingTotals,
    /// Cost of the last days, by day and purpose.
    pub spending: Vec<StageSpending>,
    pub budget_per_day: crate::model::Usd,
    /// Budgets per month and per source.
    pub other_budgets: Vec<OtherBudget>,
    /// Stored state of the first source: breaker, not-before time.
    pub source: Option<SourceRecord>,
    /// The same for each configured source.
    pub sources: BTreeMap<String, SourceRecord>,
    /// Parked items of sources that are no longer configured, by source.
    pub removed_sources: BTreeMap<String, u64>,
    /// The first of `providers`.
    pub provider: Option<Hold>,
    /// The current hold of each provider that prevents sessions.
    pub providers: Vec<Hold>,
    /// The same as end and reason.
    pub provider_suspended: Option<(Timestamp, String)>,
    /// The model provider's circuit breaker.
    pub provider_breaker: Breaker,
    /// Number of comments and digests that are not delivered.
    pub outbox: Undelivered,
    /// The newest of them.
    pub undelivered: Vec<Message>,
    /// What is wrong with the agent's configuration, according to the last session.
    pub agent_fault: Option<String>,
    /// Containment that this machine supports.
    pub containment: String,
    /// What is wrong with the configuration file, as seen by the running service.
    pub config_fault: Option<String>,
    /// Keys whose new value needs a restart of the service.
    pub config_waiting: Vec<String>,
}

/// Runs without a single item after which the query is suspected.
const EMPTY_RUNS_TOLD: u32 = 3;

/// Undelivered messages that are listed.
const UNDELIVERED_SHOWN: u32 = 5;

/// Collects the status, with at most `most_items` items by name. Read-only.
pub async fn status(
    store: &Store,
    config: &Config,
    now: Timestamp,
    most_items: u32,
) -> Result<Status, CommandError> {
    let clock = crate::clock::Clock::system();
    let held = RunLock::look(store.folder(), &clock)?;
    let (next_run, schedule_fault) = next_run(config, now);
    let journal = Journal::open(store.clone(), clock, None)?;
    let sources = remembered(&journal, config).await;
    let newest = store.runs().newest(EMPTY_RUNS_TOLD).await?;
    let items = store.items().phase_counts().await?;
    let empty_runs = empty_runs(&newest, &items);
    let last_run = newest.into_iter().next();
    let going_on = last_run.as_ref().filter(|run| run.ended_at.is_none() && held.is_some());
    let zone = &config.schedule.timezone;
    let scheduler = SchedulerMark::is_set(store.folder());
    let paused = store.ticks().pause_state().await?;
    let providers = store.provider().all(config.agents()).await?;
    let holds: Vec<Hold> = providers.holds(now).collect();
    Ok(Status {
        health: health(store, config).await,
        holder_health: held.as_ref().map(|held| held.health),
        holder: held.map(|held| held.holder),
        running: going_on.map(|run| run.run),
        last_run_error: match &last_run {
            Some(run) => store.events().failure_of(run.run).await?,
            None => None,
        },
        scheduler,
        schedule_fault,
        next_run: next_run.filter(|_| scheduler && paused.is_none()),
        paused,
        last_run,
        sessions: store.sessions().active().await?,
        empty_runs,
        items,
        backlog: crate::report::backlog::text(store.items().waiting_work().await?, config),
        open: store.items().open(most_items).await?,
        today: store.budget().on_day(day_in(zone, now)).await?,
        spending_totals: store.budget().totals_on(date_in(zone, now)).await?,
        spending: store
            .budget()
            .by_stage_since(day_in(zone, now.saturating_sub(SPENDING_SHOWN).unwrap_or(now)))
            .await?,
        budget_per_day: config.budget.per_day,
        other_budgets: other_budgets(store, config, now).await?,
        source: config.sources().first().and_then(|first| sources.get(&first.name)).cloned(),
        sources,
        removed_sources: store.items().of_removed_sources().await?,
        provider_suspended: holds.first().map(|hold| (hold.until, hold.reason.clone())),
        provider: holds.first().cloned(),
        providers: holds,
        provider_breaker: providers.breaker(),
        agent_fault: providers.agent_fault(),
        outbox: store.outbox().undelivered().await?,
        undelivered: store.outbox().open(UNDELIVERED_SHOWN).await?,
        containment: containment(config).await,
        config_fault: store.events().last_config_fault().await?,
        config_waiting: store.events().keys_waiting_for_restart().await?,
    })
}

/// What is remembered about each source, by its name.
async fn remembered(journal: &Journal, config: &Config) -> BTreeMap<String, SourceRecord> {
    let mut sources = BTreeMap::new();
    for source in config.sources() {
        if let Ok(memory) = journal.load(&source.name).await {
            sources.insert(source.name.clone(), memory);
        }
    }
    sources
}

/// The next scheduled time, or why there is none. An invalid schedule is one of the things to show,
/// and must not hide the rest.
fn next_run(config: &Config, now: Timestamp) -> (Option<Timestamp>, Option<String>) {
    match crate::schedule::Schedule::parse(&config.schedule.cron, &config.schedule.timezone) {
        Ok(schedule) => (schedule.next_after(now), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

/// As `/health` would judge now.
async fn health(store: &Store, config: &Config) -> Health {
    let facts = crate::web::facts::gather(store, config, &crate::clock::Clock::system()).await;
    crate::web::health::judge(&facts, std::time::Duration::ZERO)
}

/// The newest runs in a row that read nothing, if nothing is known at all.
fn empty_runs(newest: &[RunRow], items: &[(Phase, u32)]) -> u32 {
    let is_empty = |run: &&RunRow| run.summary.is_some_and(|summary| summary.fetched == 0);
    match items.is_empty() {
        true => u32::try_from(newest.iter().take_while(is_empty).count()).unwrap_or(u32::MAX),
        false => 0,
    }
}

/// The strongest containment that this machine supports, found by testing.
async fn containment(config: &Config) -> String {
    let tried = match own_program() {
        Ok(keeper) => detect(&keeper, config.state.containment).await,
        Err(error) => Err(error),
    };
    tried.map_or_else(|error| format!("unknown: {error}"), |tier| tier.to_string())
}

pub fn render(status: &Status, now: Timestamp, paint: Paint) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _: std::fmt::Result = writeln!(text, "{name:<12}{value}");
    };
    let holder = status.holder.as_ref().zip(status.holder_health);
    row("health", describe_health(&status.health));
    row(
        "running",
        holder.map_or_else(|| "no".into(), |(h, health)| describe_holder(h, health, now)),
    );
    let last = status.last_run.as_ref();
    row("last run", last.map_or_else(|| "none yet".into(), |run| moment(run.started_at, now)));
    if let Some(run) = last {
        row("", describe_run(run, status.running == Some(run.run), 12));
    }
    if let Some(error) = &status.last_run_error {
        row("because", error.clone());
    }
    if status.empty_runs >= EMPTY_RUNS_TOLD {
        let text = "the last three runs found no item, and none is known: the query matches nothing; \
                    `heartbeat doctor` shows its conditions";
        row("query", text.to_owned());
    }
    row("next run", describe_next_run(status, now));
    row("contained", status.containment.clone());
    let counts: Vec<String> =
        status.items.iter().map(|(phase, n)| format!("{n} {}", in_words(phase))).collect();
    row("items", if counts.is_empty() { "none yet".into() } else { counts.join(", ") });
    if let Some(backlog) = &status.backlog {
        row("backlog", backlog.clone());
    }
    row("today", format!("{} of {}", status.today.to_text(), status.budget_per_day));
    let totals = &status.spending_totals;
    row("last 7 days", format!("{} in {} sessions", totals.week.to_text(), totals.week.sessions));
    row("month", describe_month(totals));
    for budget in &status.other_budgets {
        let OtherBudget { source, window, used, limit } = budget;
        let whose = source.as_ref().map(|name| format!(" for {name}")).unwrap_or_default();
        row("budget", format!("per {window}{whose}: {} of {limit}", used.to_text()));
    }
    for spent in &status.spending {
        let (sessions, stage) = (spent.money.sessions, spent.stage);
        let many = if sessions == 1 { "session" } else { "sessions" };
        let money = spent.money.to_text();
        row("spent", format!("{} {stage:<6} {money} in {sessions} {many}", spent.day));
    }
    add_services(status, now, &mut row);
    for session in &status.sessions {
        row("session", describe_active(session, now));
    }
    for item in &status.open.first {
        row(&in_words(item.phase), describe_item(item, now));
    }
    if status.open.beyond() > 0 {
        row("", format!("and {} more; `heartbeat items` lists them", status.open.beyond()));
    }
    paint.rows(&text, 0, 12)
}

/// The word, and the worst reason for it.
fn describe_health(health: &Health) -> String {
    let word: &str = health.status.into();
    match health.reasons.first() {
        Some(reason) => format!("{}: {}", word.to_uppercase(), reason.message),
        None => word.to_owned(),
    }
}

/// Billed is what the provider's invoice of the month should say.
fn describe_month(totals: &SpendingTotals) -> String {
    let money = totals.month.to_text();
    let forecast = totals.month_forecast.map(|at_end| format!("; about {at_end} at its end"));
    format!("{money}{} (compare with the invoice)", forecast.unwrap_or_default())
}

fn describe_next_run(status: &Status, now: Timestamp) -> String {
    if let Some(Pause { since, note }) = &status.paused {
        let why = if note.is_empty() { String::new() } else { format!(" ({note})") };
        let since = moment(*since, now);
        return format!("PAUSED since {since}{why}; `heartbeat resume` resumes it");
    }
    if status.holder.as_ref().is_some_and(|holder| holder.purpose == WORKER) {
        return "by the coordinator: this host runs the sessions that it gets".into();
    }
    if let Some(fault) = &status.schedule_fault {
        return format!("UNKNOWN: {fault}");
    }
    match (status.scheduler, status.next_run) {
        (true, Some(at)) => moment(at, now),
        (true, None) => "never: the schedule has no future time".into(),
        (false, _) => "none: no scheduler is running; start one with `heartbeat`, or \
                       `heartbeat service install`"
            .into(),
    }
}

/// The source, the provider, deliveries, and configuration errors.
fn add_services(status: &Status, now: Timestamp, row: &mut impl FnMut(&str, String)) {
    for (name, source) in &status.sources {
        let several = if status.sources.len() > 1 { name.as_str() } else { "" };
        row("breaker", of_source(several, &describe_breaker(name, &source.breaker, now)));
        if let Some(until) = source.not_before.filter(|until| *until > now) {
            let asked = format!("asked heartbeat to send no request before {}", moment(until, now));
            row("source", of_source(several, &asked));
        }
    }
    for (name, items) in &status.removed_sources {
        row(
            "SOURCE",
            format!(
                "{name} is no longer configured: {items} item(s) are parked until it is \
                 configured again"
            ),
        );
    }
    row("provider", describe_provider(status, now));
    for message in &status.undelivered {
        row("undelivered", describe_message(message, now));
    }
    if let Some(fault) = &status.agent_fault {
        row("AGENT", fault.clone());
    }
    if let Some(fault) = &status.config_fault {
        row(
            "CONFIG",
            format!("the file on disk is invalid, the last valid one is in use: {fault}"),
        );
    }
    if !status.config_waiting.is_empty() {
        let keys = status.config_waiting.join(", ");
        row("CONFIG", format!("changed keys that need a restart of the service: {keys}"));
    }
}

fn describe_breaker(source: &str, breaker: &Breaker, now: Timestamp) -> String {
    match &breaker.state {
        BreakerState::Closed if breaker.failures == 0 => "closed: no failure".into(),
        BreakerState::Closed => format!("closed, {} failure(s) in a row", breaker.failures),
        BreakerState::Open { until, class } => format!(
            "OPEN ({}) until {}; `heartbeat retry --source {source}` closes it",
            class.into_str(),
            moment(*until, now)
        ),
        BreakerState::HalfOpen { since, .. } => {
            format!("half-open: probing since {}", moment(*since, now))
        }
    }
}

fn describe_provider(status: &Status, now: Timestamp) -> String {
    if !status.providers.is_empty() {
        let holds: Vec<String> = status.providers.iter().map(|hold| held(hold, now)).collect();
        return format!("{}; `heartbeat retry --provider` lifts it", holds.join("; "));
    }
    match (&status.provider_breaker.state, status.provider_breaker.failures) {
        (BreakerState::Closed, 0) => "closed: no failure".into(),
        (BreakerState::Closed, failures) => format!("closed, {failures} failure(s) in a row"),
        (BreakerState::HalfOpen { since }, _) => {
            format!("half-open: probing since {}", moment(*since, now))
        }
        (BreakerState::Open { .. }, _) => "down; the next run probes it".into(),
    }
}

fn held(hold: &Hold, now: Timestamp) -> String {
    let what = match hold.kind {
        HoldKind::Outage => "DOWN, no session starts",
        HoldKind::Credential => "REFUSES THE CREDENTIAL, no session starts",
        HoldKind::Limit => "SUSPENDED, no session starts",
        HoldKind::Probing => "being probed",
        HoldKind::Program => "not asked: the agent's program does not work",
    };
    format!("{what} until {}: {}", moment(hold.until, now), hold.reason)
}

fn describe_message(message: &Message, now: Timestamp) -> String {
    let what = match &message.item {
        Some(item) => format!("comment on {}", short_key(item)),
        None => "digest of a run".to_owned(),
    };
    let why = message.last_error.as_deref().unwrap_or("not tried yet");
    let attempts = message.attempts;
    match message.state {
        MessageState::Failed => format!("{what}: GIVEN UP after {attempts} attempts: {why}"),
        _ => format!(
            "{what}: attempts so far: {attempts}, next {}: {why}",
            moment(message.next_attempt, now)
        ),
    }
}

fn describe_holder(holder: &Holder, health: HolderHealth, now: Timestamp) -> String {
    let health = match health {
        HolderHealth::Alive => "alive",
        HolderHealth::Hung => "HUNG: no heartbeat for over two minutes",
    };
    format!(
        "{} (process {}) since {}, {health}",
        holder.purpose,
        holder.process.pid,
        moment(holder.since, now)
    )
}

fn describe_active(row: &ActiveSession, now: Timestamp) -> String {
    let item = row.session.item.as_ref().map(short_key).unwrap_or_default();
    let elapsed = now.duration_since(row.started_at).as_secs();
    let limit = row.deadline_at.duration_since(row.started_at).as_secs();
    let pid = row.agent_pid.unwrap_or(row.keeper_pid);
    let state = match &row.host {
        Some(host) if host.is_empty() => format!("waiting for a host, {elapsed} s"),
        Some(host) => format!("on {host}, {elapsed} s of {limit} s"),
        None if row.alive => format!("pid {pid}, {elapsed} s of {limit} s"),
        None => CRASHED.into(),
    };
    format!("{} {} {item} {state} [{}]", row.session.id.short(), row.session.stage, row.tier)
}

pub(super) fn describe_item(item: &ItemRow, now: Timestamp) -> String {
    let (title, reason) = (clip(&item.title, 50), item.reason.to_text());
    let tried = if item.attempts == 0 {
        String::new()
    } else {
        format!(", attempts so far: {}", item.attempts)
    };
    let next = item
        .next_attempt
        .map_or_else(String::new, |at| format!(", next attempt {}", moment(at, now)));
    format!("{} {title} ({reason}{tried}{next})", short_key(&item.key))
}
