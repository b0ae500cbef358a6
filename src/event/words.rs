//! The values in events: decisions, reasons, verdicts, outcomes of runs.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::Usd;

/// Why a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Trigger {
    /// The schedule.
    Schedule,
    /// A person, by `--once` or the dashboard.
    Manual,
}

/// What the plan says about one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Decision {
    /// Never seen before.
    New,
    /// What would reach the prompt differs from what was last finished.
    Changed,
    /// Nothing to do.
    Unchanged,
    /// Work, but not in this run.
    Deferred,
    /// Failed before; its next attempt is not due yet.
    Waiting,
    /// Out of attempts, or left to a person; stays so until it changes or is retried.
    Parked,
    /// Deleted, or no longer in the query.
    Vanished,
}

/// Why the plan says it, or why work did not start: stable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reason {
    /// First sight.
    FirstSeen,
    /// The text or a watched field changed.
    ContentChanged,
    /// An earlier run left it for this one.
    CarriedOver,
    /// Its next attempt is due.
    RetryDue,
    /// An operator put it back in line.
    RetryRequested,
    /// Same fingerprint as last finished.
    SameFingerprint,
    /// Recorded as seen by the first run's baseline.
    Baseline,
    /// Only our own write-back changed it.
    OwnWriteBack,
    /// `limits.max_items_per_run`.
    MaxItemsPerRun,
    /// `limits.max_deep_per_run`.
    MaxDeepPerRun,
    /// `limits.max_live_sessions`, over all processes that share the state.
    MaxLiveSessions,
    /// `limits.max_live_sessions_per_machine`, over all states of this user.
    MachineSessions,
    /// Load per core.
    Load,
    /// Memory available.
    Memory,
    /// Processes alive in our trees.
    Processes,
    /// A budget's worst case would be passed.
    Budget,
    /// The same for a budget of the item's source.
    SourceBudget,
    /// The provider refuses more work until a stated time.
    ProviderLimit,
    /// The provider does not answer, or only with errors of its own.
    ProviderDown,
    /// The provider refuses the agent's credential.
    ProviderCredential,
    /// The agent cannot be used as it is configured.
    AgentConfig,
    /// Its code base is not there.
    NoCodeBase,
    /// The machine starts no process for us.
    CannotStart,
    /// The server of the fleet cannot be reached or used.
    EngineUnavailable,
    /// No host of the fleet takes sessions.
    NoWorker,
    /// The run's own time limit.
    RunDeadline,
    /// Heartbeat is stopping.
    Shutdown,
    /// A person ended its session; it stays so until it changes or is retried.
    StoppedByOperator,
    /// Triage failed for it.
    TriageFailed,
    /// Triage gave no usable verdict; the stated default applies.
    NoVerdict,
    /// Next attempt is in the future.
    Backoff,
    /// Out of attempts.
    AttemptsExhausted,
    /// Triage says a person should look first.
    ForAPerson,
    /// Triage says no deep analysis is needed.
    NotNeeded,
    /// Our cleaner failed on its text, which is a bug; it stays so until it changes or is retried.
    CannotBeRead,
    /// The query named it, and the tracker did not deliver it in several runs.
    NotDelivered,
    /// No longer readable.
    Deleted,
    /// Reached a terminal state, or left the query.
    OutOfQuery,
    /// A session for it is running.
    InFlight,
    /// A rule of the configuration says that triage is enough.
    TriageOnly,
    /// The configuration does not name its source any more; it is queued again when it does.
    SourceRemoved,
}

impl Reason {
    /// The configuration key that sets the limit behind it, if one does.
    pub const fn limit_key(self) -> Option<&'static str> {
        Some(match self {
            Self::MaxItemsPerRun => "limits.max_items_per_run",
            Self::MaxDeepPerRun => "limits.max_deep_per_run",
            Self::MaxLiveSessions => "limits.max_live_sessions",
            Self::MachineSessions => "limits.max_live_sessions_per_machine",
            Self::Load => "limits.max_load_per_core",
            Self::Memory => "limits.min_free_memory, limits.max_memory_pressure",
            Self::Processes => "limits.max_processes",
            Self::Budget => "budget.per_run, budget.per_day, budget.per_month",
            Self::SourceBudget => "budget_per_day and budget_per_month of its source",
            Self::RunDeadline => "timeouts.run",
            Self::AttemptsExhausted => "limits.max_attempts",
            _ => return None,
        })
    }
}

/// Judgement of a live session, from evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LiveVerdict {
    /// No init line yet.
    Starting,
    /// Progress within the last minute, or its tools use the machine.
    Working,
    /// No progress for a while; nothing suspicious.
    Quiet,
    /// A request is open and no tool runs.
    WaitingForModel,
    /// The agent announced a wait.
    Retrying,
    /// The result is there, the process is not gone.
    FinishedNotExiting,
    /// No progress for long, tools idle.
    Suspect,
    /// Suspect on several samples in a row: it will be stopped.
    Hung,
}

/// The regular sign of life of one session; emitted by a timer, never by output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Liveness {
    /// Counts up from 1 within the session.
    pub beat: u64,
    /// The judgement.
    pub verdict: LiveVerdict,
    /// One line of evidence for it.
    pub evidence: String,
    /// Since the spawn, time asleep not counted.
    pub elapsed_ms: u64,
    /// Until the hard limit.
    pub deadline_in_ms: u64,
    /// Since content, tool use, tool result or result.
    pub since_progress_ms: u64,
    /// Since any byte.
    pub since_output_ms: u64,
    /// Bytes read from stdout so far.
    pub stdout_bytes: u64,
    /// Lines decoded so far.
    pub lines: u64,
    /// Name of the open tool call, if any.
    pub open_tool: Option<String>,
    /// Live processes in its tree, keeper excluded.
    pub processes: u32,
    /// Processes that are new since the last sample.
    pub new_processes: u32,
    /// CPU of the agent itself since the last sample.
    pub cpu_leader_ms: u64,
    /// CPU of everything below it since the last sample.
    pub cpu_tools_ms: u64,
    /// Resident memory of the tree.
    pub rss_kib: u64,
}

/// What became of everything that was fetched: each item stands in one place, so that the sum is
/// what was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Shares {
    /// Never seen before.
    pub new: u64,
    /// Known, with another text than before.
    pub changed: u64,
    /// Left by an earlier run, or due for another attempt.
    pub carried_over: u64,
    /// Nothing to do.
    pub unchanged: u64,
    /// Recorded as seen by the first run's baseline.
    pub baseline: u64,
    /// Work over `limits.max_items_per_run` or `limits.max_deep_per_run`.
    #[serde(rename = "crowded_out")]
    pub over_limit: u64,
    /// Not to be worked on now: waiting, parked, in flight, or finished in the tracker.
    pub resting: u64,
}

impl std::ops::AddAssign for Shares {
    fn add_assign(&mut self, other: Self) {
        self.new += other.new;
        self.changed += other.changed;
        self.carried_over += other.carried_over;
        self.unchanged += other.unchanged;
        self.baseline += other.baseline;
        self.over_limit += other.over_limit;
        self.resting += other.resting;
    }
}

/// Counts a run ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSummary {
    /// Items the source delivered.
    pub fetched: u64,
    /// What became of them.
    #[serde(flatten)]
    pub shares: Shares,
    /// Verdicts given.
    pub triaged: u64,
    /// Deep analyses finished and stored.
    pub analysed: u64,
    /// Finished by triage alone.
    pub settled_by_triage: u64,
    /// Left for the next run.
    pub deferred: u64,
    /// Waiting for their next attempt.
    pub waiting: u64,
    /// Parked.
    pub parked: u64,
    /// Gone from the source.
    pub vanished: u64,
    /// Sessions that did not complete.
    pub failed_sessions: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Spent, as the agents report it or as it is estimated.
    pub cost: Usd,
    /// The part of it that is estimated from tokens and prices, since the agent reports no cost.
    pub cost_estimated: Usd,
    /// Beside that, what budgets count for sessions that never reported their cost: their worst case.
    pub cost_at_worst: Usd,
}

impl RunSummary {
    /// The cost for people: what is estimated says so.
    pub fn cost_in_words(&self) -> String {
        self.cost.with_estimate(self.cost_estimated)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunOutcome {
    /// Everything that was due was done.
    Completed,
    /// Nothing was due.
    NothingNew,
    /// Some analyses failed.
    SomeFailed,
    /// Triage failed.
    TriageFailed,
    /// The source could not be read, or its breaker is open.
    SourceUnavailable,
    /// Some of several sources could not be read; the items of the others were processed.
    SourcesFailed,
    /// The source refused the credential.
    CredentialRefused,
    /// The source says the configuration is wrong, or it names what is not there.
    ConfigRefused,
    /// A budget, admission or a person did not allow the work.
    NotNow,
    /// Stopped by a signal.
    Interrupted,
    /// Found unfinished by a later start.
    Crashed,
    /// The state could not be written.
    StoreFailed,
}
