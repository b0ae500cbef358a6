//! All facts behind health, metrics and the dashboard, collected at once.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::budgets::{OtherBudget, other_budgets};
use crate::breaker::provider::Hold;
use crate::clock::Clock;
use crate::model::{Breaker, Phase, SourceRecord, Stage, Usd};
use crate::process::machine::Machine;
use crate::process::program;
use crate::schedule::{Schedule, date_in, day_in};
use crate::settings::{AgentKind, Config};
use crate::store::{
    ActiveSession, Held, ItemState, Message, Pause, RunLock, RunRow, Spending, SpendingTotals,
    StageSpending, Store, StoreError, Totals, Undelivered,
};

/// Runs in the history.
const RUNS: u32 = 60;
/// Differences of clocks that are not reported.
pub(super) const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// Undelivered messages that are listed.
const MESSAGES: u32 = 20;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    pub now: Timestamp,
    pub limits: Allowed,
    /// The session limit that the run in progress started with; the configuration may have changed.
    pub run_session_limit: Option<u32>,
    /// Live sessions, by their rows.
    pub active: Vec<ActiveSession>,
    pub machine: Machine,
    /// The configured sources with their stored state: breaker, not-before time.
    pub sources: Vec<(String, SourceRecord)>,
    /// Parked items of sources that are no longer configured, by source.
    pub removed_sources: BTreeMap<String, u64>,
    /// Newest first; the first may be in progress.
    pub runs: Vec<RunRow>,
    /// The newest run that triaged or analysed something.
    pub last_useful: Option<RunRow>,
    /// Who holds the run lock.
    pub holder: Option<Held>,
    /// What is wrong with the configuration file.
    pub config_fault: Option<String>,
    /// Why the state cannot be read or written.
    pub store_fault: Option<String>,
    /// Why the agent cannot be started.
    pub agent_missing: Option<String>,
    /// Why reports cannot be written.
    pub report_fault: Option<String>,
    /// The program's file was replaced or removed since it was started.
    pub is_replaced: bool,
    /// What prevents sessions at the model provider.
    pub provider: Option<Hold>,
    /// The provider breaker that most needs attention.
    pub provider_breaker: Breaker,
    /// Per agent.
    pub provider_breakers: Vec<(&'static str, Breaker)>,
    /// Undelivered comments and digests: the number, and the newest with the reason.
    pub outbox: Undelivered,
    pub outbox_messages: Vec<Message>,
    /// What is wrong with the agent's configuration, according to the last session.
    pub agent_fault: Option<String>,
    /// Items that a tracker listed and did not return in several runs.
    pub unread_items: usize,
    /// A session of the newest run was answered by another model than the configured one.
    pub is_other_model: bool,
    /// The newest date of an item that was still to come when the newest runs read it.
    pub item_to_come: Option<Timestamp>,
    /// When the work that waits will be through; `None` if the next run can do it.
    pub backlog: Option<String>,
    /// Today in the schedule's time zone.
    pub today: Spending,
    /// Today, the last seven days and the month, with a forecast.
    pub spending: SpendingTotals,
    /// Money of all sessions ever, by purpose.
    pub spent_by_stage: Vec<(Stage, Spending)>,
    /// The same by purpose.
    pub today_by_stage: Vec<StageSpending>,
    /// Budgets per month and per source.
    pub other_budgets: Vec<OtherBudget>,
    /// Cost of the newest run.
    pub run_spending: Spending,
    /// `None` while the schedule is paused.
    pub next_run: Option<Timestamp>,
    pub paused: Option<Pause>,
    /// Number of items per phase.
    pub items: Vec<(Phase, u32)>,
    /// The same by the states of the item list.
    pub item_states: Vec<(ItemState, u32)>,
    /// Totals over the whole history.
    pub totals: Totals,
    /// Milliseconds since the last output of the session that has been silent longest.
    pub oldest_output_ms: Option<u64>,
    /// Processes of all sessions at their last liveness sample.
    pub processes: u32,
    /// Number of open event streams.
    pub clients: usize,
}

/// The configured limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Allowed {
    pub max_live_sessions: u32,
    /// Load per core above which no session starts.
    pub max_load_per_core: f64,
    /// Load per core above which `/health` is unhealthy.
    pub unhealthy_load_per_core: f64,
    /// Budget per run.
    pub per_run: Usd,
    /// Budget per day.
    pub per_day: Usd,
}

impl Allowed {
    pub fn by(config: &Config) -> Self {
        Self {
            max_live_sessions: config.limits.max_live_sessions,
            max_load_per_core: config.limits.max_load_per_core,
            unhealthy_load_per_core: config
                .limits
                .unhealthy_load_per_core
                .max(config.limits.max_load_per_core),
            per_run: config.budget.per_run,
            per_day: config.budget.per_day,
        }
    }
}

impl Facts {
    /// Only the limits: before the first run, and when the state cannot be read.
    pub fn empty(now: Timestamp, config: &Config) -> Self {
        Self {
            now,
            limits: Allowed::by(config),
            run_session_limit: None,
            active: Vec::new(),
            machine: Machine::default(),
            sources: config
                .sources()
                .iter()
                .map(|source| (source.name.clone(), SourceRecord::default()))
                .collect(),
            removed_sources: BTreeMap::new(),
            runs: Vec::new(),
            last_useful: None,
            holder: None,
            config_fault: None,
            store_fault: None,
            agent_missing: None,
            report_fault: None,
            is_replaced: false,
            provider: None,
            provider_breaker: Breaker::default(),
            provider_breakers: Vec::new(),
            outbox: Undelivered::default(),
            outbox_messages: Vec::new(),
            agent_fault: None,
            unread_items: 0,
            is_other_model: false,
            item_to_come: None,
            backlog: None,
            today: Spending::default(),
            spending: SpendingTotals::default(),
            spent_by_stage: Vec::new(),
            today_by_stage: Vec::new(),
            other_budgets: Vec::new(),
            run_spending: Spending::default(),
            next_run: None,
            paused: None,
            items: Vec::new(),
            item_states: Vec::new(),
            totals: Totals::default(),
            oldest_output_ms: None,
            processes: 0,
            clients: 0,
        }
    }

    /// The run in progress.
    pub fn running(&self) -> Option<&RunRow> {
        self.runs.first().filter(|run| run.ended_at.is_none())
    }

    pub fn last_ended(&self) -> Option<&RunRow> {
        self.runs.iter().find(|run| run.ended_at.is_some())
    }
}

/// Reads the state. An unreadable state is recorded as a fact. The caller keeps `totals`, which
/// cost most and change least.
pub async fn gather(store: &Store, config: &Config, clock: &Clock) -> Facts {
    let now = clock.now();
    let mut facts = Facts::empty(now, config);
    facts.machine = Machine::read();
    facts.next_run = Schedule::parse(&config.schedule.cron, &config.schedule.timezone)
        .ok()
        .and_then(|schedule| schedule.next_after(now));
    facts.store_fault = unwritable(store);
    facts.report_fault = report_fault(&config.report.dir);
    facts.is_replaced = program::own_is_gone();
    if let Err(error) = read(&mut facts, store, config).await {
        facts.store_fault = Some(error.to_string());
    }
    match RunLock::look(store.folder(), clock) {
        Ok(holder) => facts.holder = holder,
        Err(error) => facts.store_fault = Some(error.to_string()),
    }
    facts
}

async fn read(facts: &mut Facts, store: &Store, config: &Config) -> Result<(), StoreError> {
    facts.active = store.sessions().active().await?;
    facts.paused = store.ticks().pause_state().await?;
    facts.next_run = facts.next_run.filter(|_| facts.paused.is_none());
    facts.runs = store.runs().newest(RUNS).await?;
    facts.last_useful = store.runs().last_useful().await?;
    if let Some(run) = facts.running().map(|run| run.run) {
        facts.run_session_limit = store.runs().session_limit(run).await?;
    }
    facts.items = store.items().phase_counts().await?;
    facts.item_states = store.items().state_counts().await?;
    facts.backlog = crate::report::backlog::text(store.items().waiting_work().await?, config);
    let today = day_in(&config.schedule.timezone, facts.now);
    let date = date_in(&config.schedule.timezone, facts.now);
    facts.spending = store.budget().totals_on(date).await?;
    facts.spent_by_stage = store.budget().by_stage().await?;
    facts.today = facts.spending.today;
    facts.today_by_stage = store.budget().by_stage_since(today).await?;
    if let Some(run) = facts.runs.first() {
        facts.run_spending = store.budget().in_run(run.run).await?;
    }
    if let Some(run) = facts.last_ended() {
        let (id, since) = (run.run, run.started_at);
        facts.is_other_model = store.events().answered_by_another(id).await?.is_some();
        facts.item_to_come = store.items().dated_to_come(since, CLOCK_TOLERANCE).await?;
    }
    let providers = store.provider().all(config.agents()).await?;
    facts.provider = providers.holds(facts.now).next();
    facts.provider_breaker = providers.breaker();
    facts.agent_fault = providers.agent_fault();
    facts.provider_breakers =
        providers.0.iter().map(|(agent, one)| (agent.into_str(), one.worst_breaker())).collect();
    facts.outbox = store.outbox().undelivered().await?;
    if facts.outbox != Undelivered::default() {
        facts.outbox_messages = store.outbox().open(MESSAGES).await?;
    }
    facts.config_fault = store.events().last_config_fault().await?;
    facts.sources.clear();
    for source in config.sources() {
        let memory = store.sources().memory(source.name.clone()).await?;
        let record = memory.map(|memory| serde_json::from_str(&memory)).transpose();
        let record = record.map_err(StoreError::Unreadable)?.unwrap_or_default();
        facts.sources.push((source.name.clone(), record));
        facts.unread_items += store.sources().unread(source.name.clone()).await?;
    }
    facts.other_budgets = other_budgets(store, config, facts.now).await?;
    facts.removed_sources = store.items().of_removed_sources().await?;
    Ok(())
}

/// Why no session can start: the agent is missing. Checks files only, starts nothing.
pub fn agent_missing(config: &Config, search_path: &OsStr) -> Option<String> {
    let program = |kind| config.command_of(kind).first().map_or("", String::as_str);
    let missing = |kind: &AgentKind| program::find(program(*kind), search_path).is_none();
    config.agents().into_iter().find(missing).map(|kind| {
        format!(
            "the agent {:?} does not exist or is not executable: install it, or set [{}] command",
            program(kind),
            kind.section()
        )
    })
}

/// Why no report can be written to this folder, which may not exist yet; creates nothing.
pub fn report_fault(folder: &Path) -> Option<String> {
    use nix::unistd::{AccessFlags, access};
    if folder.as_os_str().is_empty() {
        return None;
    }
    let there =
        folder.ancestors().find(|place| place.exists()).filter(|place| *place != Path::new(""));
    let there = there.unwrap_or_else(|| Path::new("."));
    let failed = |why: &str| Some(format!("cannot write reports to {}: {why}", folder.display()));
    if !there.is_dir() {
        return failed(&format!("{} is no folder", there.display()));
    }
    access(there, AccessFlags::W_OK | AccessFlags::X_OK)
        .err()
        .and_then(|error| failed(error.desc()))
}

/// Why nothing can be written, as far as that shows without writing.
fn unwritable(store: &Store) -> Option<String> {
    use nix::unistd::{AccessFlags, access};
    let folder = store.folder();
    for path in [folder.to_path_buf(), folder.join(crate::store::DATABASE)] {
        if let Err(error) = access(&path, AccessFlags::W_OK) {
            return Some(format!("cannot write {}: {}", path.display(), error.desc()));
        }
    }
    let free = nix::sys::statvfs::statvfs(folder).ok()?;
    let bytes = free.blocks_available().saturating_mul(free.fragment_size());
    (bytes < MIN_FREE_DISK).then(|| {
        format!("only {} KiB are free on the disk that holds {}", bytes >> 10, folder.display())
    })
}

/// With less free space, the next transaction may fail.
const MIN_FREE_DISK: u64 = 16 << 20;
