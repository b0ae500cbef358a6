//! The closed set of events.
//!
//! Everything that people and programs see is a fold over these events, in order: the terminal,
//! `events.ndjson`, `live.json`, `status`, the dashboard and the metrics. An event is a fact in the
//! past tense, written once and never changed. It contains no texts of work items except titles.

mod about;
pub mod fold;
pub mod stages;
mod values;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{
    Alarms, AnalysedCode, FailureKind, ItemKey, Outcome, ReadLinkedContent, RunId, SessionId,
    Stage, Usage, Usd,
};

pub use values::{
    Decision, DecisionCounts, LiveVerdict, Liveness, Reason, RunOutcome, RunSummary, Trigger,
};

/// One entry of the event log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Position in the log, from 1, without gaps.
    pub seq: i64,
    pub at: Timestamp,
    /// `None` for events between runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Event {
    RunStarted {
        trigger: Trigger,
        /// The configured limit, for display.
        max_live_sessions: u32,
    },
    RunEnded {
        outcome: RunOutcome,
        summary: RunSummary,
        duration_ms: u64,
    },
    /// A scheduled time did not start a run.
    TickSkipped {
        /// The scheduled time.
        nominal: Timestamp,
        /// The run that was still active; `None` if the time was missed while heartbeat was down.
        blocked_by: Option<RunId>,
        /// Number of scheduled times that this event covers.
        missed: u32,
    },
    SchedulePaused {
        /// The person's note; may be empty.
        note: String,
    },
    ScheduleResumed,
    /// The configuration was reloaded and applies from the next run.
    ConfigReloaded,
    /// The reloaded configuration is invalid; the last valid one stays in use.
    ConfigBroken {
        /// First paragraph of the error.
        message: String,
    },
    /// Keys whose new value applies after a restart; empty when none is left.
    RestartNeeded {
        /// As `section.key`.
        keys: Vec<String>,
    },
    FetchStarted,
    FetchProgressed {
        /// Items received so far.
        items: u64,
    },
    /// Reading ended; at least one source was read.
    FetchCompleted {
        items: u64,
        /// Items requested by id that do not exist any more.
        vanished: u64,
        /// Number of requests sent.
        requests: u64,
    },
    /// One of several sources was read completely.
    SourceRead {
        source: String,
        items: u64,
        /// Items requested by id that do not exist any more.
        vanished: u64,
        /// Number of requests sent.
        requests: u64,
    },
    FetchFailed {
        /// Empty if there is only one.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        source: String,
        /// The failure class, a stable code.
        class: String,
        message: String,
    },
    BreakerChanged {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        source: String,
        from: String,
        to: String,
        /// End of the hold, if it is open.
        until: Option<Timestamp>,
        reason: String,
    },
    ItemsCleaned {
        items: u64,
        /// Before cleaning.
        raw_bytes: u64,
        /// After cleaning.
        clean_bytes: u64,
        /// Number of items with hidden or invisible text.
        alarms: u64,
    },
    /// A text of an item contains content that a person may not see.
    TextAlarm {
        item: ItemKey,
        alarms: Alarms,
    },
    /// The plan's decision on an item. `unchanged` items are only counted.
    ItemDecided {
        item: ItemKey,
        rev: i64,
        title: String,
        decision: Decision,
        reason: Reason,
    },
    /// A configured rule applies to an item that will be processed.
    RuleMatched {
        item: ItemKey,
        /// The rule's name, or its position in the list.
        rule: String,
        /// What it changes, as text.
        changes: String,
    },
    /// What was decided about all items fetched so far, in figures.
    ItemsShared {
        #[serde(flatten)]
        shares: DecisionCounts,
    },
    /// Every fetched item has a decision.
    PlanMade {
        /// Items to process in this run.
        work: u64,
        /// Deferred by limits.
        deferred: u64,
        unchanged: u64,
    },
    TriageStarted {
        /// Items in all batches.
        items: u64,
        sessions: u32,
    },
    ItemTriaged {
        item: ItemKey,
        complexity: crate::model::Complexity,
        /// Whether it goes on to deep analysis.
        deep: bool,
        /// False if triage gave no usable verdict and the default applies.
        from_model: bool,
        /// One sentence.
        reason: String,
    },
    /// Values were suggested for an item's fields that are right often enough to be shown.
    FieldsSuggested {
        item: ItemKey,
        /// `area Shop\Cart`, one each.
        fields: Vec<String>,
    },
    TriageEnded {
        /// Items with a verdict.
        triaged: u64,
        /// Verdicts that ask for deep analysis.
        deep: u64,
        /// Items whose triage session failed; they stay queued.
        failed: u64,
    },
    /// The links and attachments of an item were read for its analysis.
    SurroundingsRead {
        item: ItemKey,
        #[serde(flatten)]
        read: Box<ReadLinkedContent>,
    },
    /// The code-base context of an item is ready.
    ContextBuilt {
        item: ItemKey,
        /// Number of files it names.
        files: u32,
        /// Estimated.
        tokens: u64,
        /// The code base; items may have different ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<std::path::PathBuf>,
        /// The analysed commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// All code bases of an item with several that matter, beginning with `root`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        code_bases: Vec<AnalysedCode>,
    },
    /// Admission control refused to start a session for now.
    AdmissionRefused {
        /// `None` for triage.
        item: Option<ItemKey>,
        /// The check that refused.
        reason: Reason,
        /// The measured value, as text.
        detail: String,
        /// Until when it is retried; `None` if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    AnalysisStarted {
        /// Items to analyse in this run.
        items: u64,
    },
    /// The run could not do its work.
    RunFailed {
        /// What happened and what to do.
        message: String,
    },
    /// The session's row is committed; its keeper waits for the go-ahead.
    SessionRegistered {
        session: SessionId,
        stage: Stage,
        /// `None` for triage.
        item: Option<ItemKey>,
        /// From 1.
        attempt: u32,
        keeper_pid: u32,
        /// Containment in use.
        tier: String,
        /// The time limit, for display.
        limit_ms: u64,
        /// The maximum cost, reserved in the budget.
        #[serde(default)]
        worst_case: Usd,
    },
    /// The agent was started.
    SessionSpawned {
        session: SessionId,
        /// The agent's pid in our pid namespace.
        pid: u32,
        /// Set if it runs on another host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// No host started the session; its row is removed and its item requeued.
    SessionWithdrawn {
        session: SessionId,
        reason: Reason,
        detail: String,
    },
    /// The agent wrote its first line.
    SessionInitialised {
        session: SessionId,
        model: String,
        version: String,
    },
    /// Periodic, by a timer.
    SessionLiveness {
        session: SessionId,
        #[serde(flatten)]
        liveness: Liveness,
    },
    /// The session made progress: content, tool use, tool result or result.
    SessionProgressed {
        session: SessionId,
        /// The kind of progress.
        what: String,
    },
    /// The agent announced a wait before it retries its request to the provider.
    SessionRetrying {
        session: SessionId,
        attempt: u32,
        delay_ms: Option<u64>,
        /// HTTP status, if there was a response.
        status: Option<u16>,
    },
    /// We began to end the session.
    SessionStopping {
        session: SessionId,
        /// Name of an outcome.
        reason: String,
        /// Details, such as who requested it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<FailureKind>,
    },
    /// The session is over and its process tree is empty or swept.
    SessionEnded {
        session: SessionId,
        stage: Stage,
        /// `None` for triage.
        item: Option<ItemKey>,
        outcome: Outcome,
        usage: Usage,
        /// From spawn until its process tree is certified empty.
        duration_ms: u64,
        /// Distinct files.
        #[serde(default)]
        files_read: u32,
        /// Processes that the sweep had to kill.
        swept: u32,
        /// Processes that could not be killed; anything but 0 needs attention.
        survivors: u32,
        /// Set if it ran on another host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// The last words of an agent that failed: bounded, plain, without tokens.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
        /// The model that answered instead of the configured one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<String>,
    },
    /// A session row of an earlier process was resolved.
    OrphanResolved {
        session: SessionId,
        /// Number of processes killed for it.
        killed: u32,
    },
    /// A process could not be killed; the session's slot stays in use.
    Unkillable {
        session: SessionId,
        /// Process ids and states.
        detail: String,
    },
    /// A finding is stored and its item is finished.
    FindingStored {
        item: ItemKey,
        session: SessionId,
    },
    /// A session completed, but its finding was rejected: a failed attempt of the item.
    FindingRejected {
        item: ItemKey,
        session: SessionId,
        why: FailureKind,
    },
    /// A finding was written to its work item.
    FindingPublished {
        item: ItemKey,
        /// The revision that our write created.
        rev: i64,
    },
    /// Suggested values were written to fields of an item.
    FieldsWritten {
        item: ItemKey,
        /// The revision that our write created.
        rev: i64,
    },
    /// A finding could not be written to its work item; it stays stored.
    PublishFailed {
        item: ItemKey,
        /// The failure class, a stable code.
        class: String,
        message: String,
    },
    /// The patch of a finding was built and its test was run.
    FindingVerified {
        item: ItemKey,
        session: SessionId,
        /// What was reached.
        rung: crate::model::Rung,
    },
    /// A person rated an item's newest finding.
    FeedbackGiven {
        item: ItemKey,
        opinion: crate::model::Opinion,
    },
    /// New commits that fix an item with a finding were found.
    FixFound {
        item: ItemKey,
        /// The session that made the finding.
        session: SessionId,
        /// Number of changed files that the finding names.
        named: u32,
        /// Number of files that the fix changed.
        changed: u32,
    },
    /// Triage was enough; the item is finished.
    ItemSettled {
        item: ItemKey,
    },
    /// An item was not processed in this run.
    ItemDeferred {
        item: ItemKey,
        reason: Reason,
    },
    /// An attempt failed and will be retried.
    ItemWaiting {
        item: ItemKey,
        /// Attempts used.
        attempts: u32,
        /// Not before this time.
        next_attempt: Timestamp,
        /// Of the last attempt.
        outcome: Outcome,
    },
    /// An item is not retried until it changes or a person requeues it.
    ItemParked {
        item: ItemKey,
        reason: Reason,
    },
    ProviderBreakerChanged {
        /// The agent that uses the provider; empty if there is only one agent.
        #[serde(default)]
        agent: String,
        from: String,
        to: String,
        /// End of the hold, if it is open.
        until: Option<Timestamp>,
        reason: String,
    },
    /// A provider accepts no more work for now.
    ProviderSuspended {
        /// The agent that uses the provider; empty if there is only one agent.
        #[serde(default)]
        agent: String,
        until: Timestamp,
        /// Name of a failure kind.
        reason: String,
    },
}

/// Receives events. The production implementation orders and stores them; tests collect them.
pub trait Sink: Send + Sync {
    /// Never blocks on a reader and never fails: a sink that cannot store an event reports it
    /// itself.
    fn emit(&self, event: Event);
}
