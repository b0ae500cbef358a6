//! The closed vocabulary of what can happen.
//!
//! Everything a person or a machine sees is a fold over these events, in their order: the
//! terminal, `events.ndjson`, `live.json`, `status`, the dashboard and the metrics. An event is a
//! fact in the past tense, written once and never changed. Texts of work items are not in it.

mod about;
pub mod fold;
pub mod stages;
mod words;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{
    Alarms, FailureKind, ItemKey, Outcome, ReadSurroundings, RunId, SessionId, Stage, Usage, Usd,
};

pub use words::{Decision, LiveVerdict, Liveness, Reason, RunOutcome, RunSummary, Shares, Trigger};

/// One entry of the log: a fact, when it happened and in which order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Position in the log of this state, counted from 1, without gaps.
    pub seq: i64,
    /// Wall time.
    pub at: Timestamp,
    /// The run it belongs to; absent for what happens between runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The fact.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Event {
    /// A run began.
    RunStarted {
        /// Why.
        trigger: Trigger,
        /// Sessions that may live at once, for displays.
        max_live_sessions: u32,
    },
    /// A run ended.
    RunEnded {
        /// How.
        outcome: RunOutcome,
        /// With what.
        summary: RunSummary,
        /// From start to end.
        duration_ms: u64,
    },
    /// A scheduled time was not used.
    TickSkipped {
        /// The time it was due.
        nominal: Timestamp,
        /// The run in the way, or nothing if it was missed while down.
        blocked_by: Option<RunId>,
        /// How many due times this one stands for.
        missed: u32,
    },
    /// A person paused the schedule.
    SchedulePaused {
        /// Why, in their words; may be empty.
        note: String,
    },
    /// The schedule is followed again.
    ScheduleResumed,
    /// The configuration was read again and is in force from the next run.
    ConfigReloaded,
    /// The configuration was read again and is broken; the last good one stays in force.
    ConfigBroken {
        /// The first paragraph of the error.
        message: String,
    },
    /// Keys whose new value waits for the next start; none: nothing waits any more.
    RestartNeeded {
        /// As `section.key`.
        keys: Vec<String>,
    },
    /// Reading from the sources began.
    FetchStarted,
    /// One page of items arrived.
    FetchProgressed {
        /// Items so far.
        items: u64,
    },
    /// Reading ended, well for at least one source.
    FetchCompleted {
        /// Items delivered.
        items: u64,
        /// Asked for by id and not there any more.
        vanished: u64,
        /// Requests sent.
        requests: u64,
    },
    /// One of several sources was read to its end.
    SourceRead {
        /// Which.
        source: String,
        /// Items delivered.
        items: u64,
        /// Asked for by id and not there any more.
        vanished: u64,
        /// Requests sent.
        requests: u64,
    },
    /// Reading from a source failed.
    FetchFailed {
        /// Which one, if there are several.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        source: String,
        /// The class, as a stable code.
        class: String,
        /// For people.
        message: String,
    },
    /// The circuit breaker of a source changed its state.
    BreakerChanged {
        /// Which source.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        source: String,
        /// Before.
        from: String,
        /// After.
        to: String,
        /// Until when it holds, if it holds.
        until: Option<Timestamp>,
        /// What led to it.
        reason: String,
    },
    /// Fetched texts were cleaned.
    ItemsCleaned {
        /// How many items.
        items: u64,
        /// Bytes before.
        raw_bytes: u64,
        /// Bytes after.
        clean_bytes: u64,
        /// Items with hidden or invisible text.
        alarms: u64,
    },
    /// A text of an item shows a machine what a person may not see.
    TextAlarm {
        item: ItemKey,
        /// How much, and why.
        alarms: Alarms,
    },
    /// The plan says something about an item. `unchanged` items are only counted.
    ItemDecided {
        /// Which.
        item: ItemKey,
        /// Its revision.
        rev: i64,
        /// One line, for displays.
        title: String,
        /// What.
        decision: Decision,
        /// Why.
        reason: Reason,
    },
    /// A rule of the configuration applies to an item that is work.
    RuleMatched {
        /// Which.
        item: ItemKey,
        /// The rule's name, or its place in the list.
        rule: String,
        /// What it changes, in words.
        changes: String,
    },
    /// What became of everything that was fetched so far.
    ItemsShared {
        /// In figures.
        #[serde(flatten)]
        shares: Shares,
    },
    /// Every fetched item has its decision.
    PlanMade {
        /// Work for this run.
        work: u64,
        /// Left for later, by limits.
        deferred: u64,
        /// Nothing to do.
        unchanged: u64,
    },
    /// Triage of a batch began.
    TriageStarted {
        /// Items in all batches.
        items: u64,
        /// Sessions they fit in.
        sessions: u32,
    },
    /// Triage judged an item.
    ItemTriaged {
        /// Which.
        item: ItemKey,
        /// Its size.
        complexity: crate::model::Complexity,
        /// Goes on to deep analysis?
        deep: bool,
        /// False: the stated default, because triage gave no usable verdict.
        from_model: bool,
        /// In a sentence.
        reason: String,
    },
    /// Triage ended.
    TriageEnded {
        /// Items with a verdict.
        triaged: u64,
        /// Of these, for deep analysis.
        deep: u64,
        /// Items whose triage session failed; they stay in line.
        failed: u64,
    },
    /// What stands around an item in its tracker was read for its analysis.
    SurroundingsRead {
        /// For which.
        item: ItemKey,
        /// Links, and what became of attached files.
        #[serde(flatten)]
        read: Box<ReadSurroundings>,
    },
    /// The code-base context of an item is ready.
    ContextBuilt {
        /// For which.
        item: ItemKey,
        /// Files named in it.
        files: u32,
        /// Estimated tokens.
        tokens: u64,
        /// The code base; an item may have one of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<std::path::PathBuf>,
    },
    /// Admission said no for now.
    AdmissionRefused {
        /// For which item; none for triage.
        item: Option<ItemKey>,
        /// Which gate.
        reason: Reason,
        /// What was measured, for people.
        detail: String,
        /// Until when it is tried again; none where it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// Deep analysis begins.
    AnalysisStarted {
        /// Items it will work on in this run.
        items: u64,
    },
    /// Something kept the run from its work.
    RunFailed {
        /// For people: what, and what to do.
        message: String,
    },
    /// A session's row is committed; its keeper waits for the word.
    SessionRegistered {
        /// Which.
        session: SessionId,
        /// For what.
        stage: Stage,
        /// For which item; none for triage.
        item: Option<ItemKey>,
        /// 1 is the first try.
        attempt: u32,
        /// Process id of its keeper.
        keeper_pid: u32,
        /// Containment in force.
        tier: String,
        /// The hard limit, for displays.
        limit_ms: u64,
        /// The most it may cost: what is reserved for it.
        #[serde(default)]
        worst_case: Usd,
    },
    /// The agent runs.
    SessionSpawned {
        /// Which.
        session: SessionId,
        /// Process id of the agent, as we see it.
        pid: u32,
        /// The host it runs on, if that is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// No host started it; its row is removed and its work given back.
    SessionWithdrawn {
        /// Which.
        session: SessionId,
        /// Why.
        reason: Reason,
        /// For people.
        detail: String,
    },
    /// The agent said hello.
    SessionInitialised {
        /// Which.
        session: SessionId,
        /// The model in use.
        model: String,
        /// The agent's version.
        version: String,
    },
    /// The regular sign of life.
    SessionLiveness {
        /// Which.
        session: SessionId,
        /// The sample.
        #[serde(flatten)]
        liveness: Liveness,
    },
    /// Content, tool use, tool result or result: something was achieved.
    SessionProgressed {
        /// Which.
        session: SessionId,
        /// What kind.
        what: String,
    },
    /// The agent announced a wait before it asks the provider again.
    SessionRetrying {
        /// Which.
        session: SessionId,
        /// Which try.
        attempt: u32,
        /// How long.
        delay_ms: Option<u64>,
        /// HTTP status, if there was one.
        status: Option<u16>,
    },
    /// We began to end it.
    SessionStopping {
        /// Which.
        session: SessionId,
        /// As an outcome's name.
        reason: String,
        /// In detail: who asked for it, where somebody did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<FailureKind>,
    },
    /// It is over and its tree is swept.
    SessionEnded {
        /// Which.
        session: SessionId,
        /// For what.
        stage: Stage,
        /// For which item.
        item: Option<ItemKey>,
        /// How.
        outcome: Outcome,
        /// Used.
        usage: Usage,
        /// From spawn to certificate.
        duration_ms: u64,
        /// Distinct files it read.
        #[serde(default)]
        files_read: u32,
        /// Processes that the sweep had to end.
        swept: u32,
        /// Processes left alive: anything but 0 is an alarm.
        survivors: u32,
    },
    /// A row of an earlier life was resolved.
    OrphanResolved {
        /// Which session.
        session: SessionId,
        /// Processes ended for it.
        killed: u32,
    },
    /// Something could not be killed; the slot stays taken.
    Unkillable {
        /// Which session.
        session: SessionId,
        /// Process ids and states.
        detail: String,
    },
    /// A finding is stored and its item is finished.
    FindingStored {
        /// Which.
        item: ItemKey,
        /// By which session.
        session: SessionId,
    },
    /// A finding was left on its work item.
    FindingPublished {
        /// Which.
        item: ItemKey,
        /// The revision our write made.
        rev: i64,
    },
    /// A finding could not be left on its work item; it is stored all the same.
    PublishFailed {
        /// Which.
        item: ItemKey,
        /// The class, as a stable code.
        class: String,
        /// For people.
        message: String,
    },
    /// A person said what they think of an item's newest finding.
    FeedbackGiven {
        /// Which.
        item: ItemKey,
        /// In one word.
        opinion: crate::model::Opinion,
    },
    /// Commits that fix an item with a finding were found, or more of them.
    FixFound {
        /// Which.
        item: ItemKey,
        /// The session that made the finding.
        session: SessionId,
        /// How many of the changed files the finding names.
        named: u32,
        /// How many files the fix changed.
        changed: u32,
    },
    /// Triage alone was enough; the item is finished.
    ItemSettled {
        /// Which.
        item: ItemKey,
    },
    /// An item did not get its turn.
    ItemDeferred {
        /// Which.
        item: ItemKey,
        /// Why.
        reason: Reason,
    },
    /// An item's attempt failed; there will be another.
    ItemWaiting {
        /// Which.
        item: ItemKey,
        /// Attempts used.
        attempts: u32,
        /// The next one is not before.
        next_attempt: Timestamp,
        /// How the last one ended.
        outcome: Outcome,
    },
    /// An item is left to people.
    ItemParked {
        /// Which.
        item: ItemKey,
        /// Why.
        reason: Reason,
    },
    /// The circuit breaker of a model provider changed its state.
    ProviderBreakerChanged {
        /// Whose provider; empty: that of the only agent.
        #[serde(default)]
        agent: String,
        /// Before.
        from: String,
        /// After.
        to: String,
        /// Until when it holds, if it holds.
        until: Option<Timestamp>,
        /// What led to it.
        reason: String,
    },
    /// A provider refuses more work.
    ProviderSuspended {
        /// Whose provider; empty: that of the only agent.
        #[serde(default)]
        agent: String,
        /// Until.
        until: Timestamp,
        /// As an outcome's detail.
        reason: String,
    },
}

/// Where facts go. The one implementation orders and stores them; tests collect them.
pub trait Sink: Send + Sync {
    /// Takes one fact. Never blocks on a reader and never fails: a sink that cannot store says so
    /// by itself.
    fn emit(&self, event: Event);
}
