//! The values in events: decisions, reasons, verdicts, outcomes of runs.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::Usd;
use crate::model::text::in_words;

/// What started a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Trigger {
    Schedule,
    /// A person, with `--once` or in the dashboard.
    Manual,
}

/// The plan's decision on an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Decision {
    /// Never seen before.
    New,
    /// The text for the prompt differs from the last one that was finished.
    Changed,
    Unchanged,
    /// To be processed, but not in this run.
    Deferred,
    /// Failed before; the next attempt is not due yet.
    Waiting,
    /// Out of attempts, or a person must act; stays so until it changes or is requeued.
    Parked,
    /// Deleted, or no longer in the query.
    Vanished,
}

/// Why an item was decided so, or why its work did not start; stable codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Reason {
    FirstSeen,
    ContentChanged,
    /// An earlier run deferred it.
    CarriedOver,
    RetryDue,
    /// An operator requeued it.
    RetryRequested,
    /// Same fingerprint as when it was last finished.
    SameFingerprint,
    /// Marked as seen by the first run.
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
    /// Load per core is over its limit.
    Load,
    /// Not enough free memory.
    Memory,
    /// Too many processes in our trees.
    Processes,
    /// The worst case would exceed a budget.
    Budget,
    /// The worst case would exceed a budget of the item's source.
    SourceBudget,
    /// The provider accepts no more work until a stated time.
    ProviderLimit,
    /// The provider does not answer, or answers with server errors.
    ProviderDown,
    /// The provider rejects the agent's credential.
    ProviderCredential,
    /// The agent's configuration does not work.
    AgentConfig,
    /// The agent's program works for no session; a probe finds out when it does.
    AgentBroken,
    /// Several items in a row failed alike; the next run tries one first.
    FailsAlike,
    /// The machine, a lost host or a crash ended its session; the attempt is not counted.
    CutOff,
    /// The item's code base does not exist.
    NoCodeBase,
    /// This machine cannot start processes.
    CannotStart,
    /// The fleet's server is unreachable or unusable.
    EngineUnavailable,
    /// No host of the fleet takes sessions.
    NoWorker,
    /// The time limit of the run.
    RunDeadline,
    Shutdown,
    /// A person stopped its session; stays so until it changes or is requeued.
    StoppedByOperator,
    TriageFailed,
    /// Triage fails because of this item alone; stays so until it changes or is requeued.
    FailsTriage,
    /// Triage gave no usable verdict; the default applies.
    NoVerdict,
    /// The next attempt is in the future.
    Backoff,
    AttemptsExhausted,
    /// Triage says that a person should look first.
    ForAPerson,
    /// Triage says no deep analysis is needed.
    NotNeeded,
    /// Our cleaner failed on its text (a bug); stays so until it changes or is requeued.
    CannotBeRead,
    /// The query listed it, but the tracker did not return it in several runs.
    NotDelivered,
    Deleted,
    /// In a terminal state, or no longer in the query.
    OutOfQuery,
    InFlight,
    /// A configured rule limits the item to triage.
    TriageOnly,
    /// Its source is no longer configured; it is queued again when the source returns.
    SourceRemoved,
}

impl Reason {
    /// For people; the codes are for programs and for `heartbeat items --reason`.
    pub fn to_text(self) -> String {
        match self {
            Self::SameFingerprint => "no change since".to_owned(),
            Self::OwnWriteBack => "only heartbeat's own comment is new".to_owned(),
            Self::AgentBroken => "the agent's program does not work".to_owned(),
            Self::FailsAlike => "several items failed alike".to_owned(),
            Self::CutOff => "its session was cut off; not counted".to_owned(),
            Self::FailsTriage => "triage fails because of this item alone".to_owned(),
            other => in_words(other),
        }
    }

    /// Whether the provider, the agent's program or a lost session kept the work from being done.
    pub const fn is_agents(self) -> bool {
        matches!(
            self,
            Self::ProviderDown
                | Self::ProviderLimit
                | Self::ProviderCredential
                | Self::AgentBroken
                | Self::FailsAlike
                | Self::CutOff
        )
    }

    /// The configuration key of the limit, if there is one.
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

/// Assessment of a live session, from measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LiveVerdict {
    /// No output yet.
    Starting,
    /// Progress within the last minute, or its tools use CPU.
    Working,
    /// No progress for a while, but nothing suspicious.
    Quiet,
    /// A request is open and no tool runs.
    WaitingForModel,
    /// The agent announced a wait before a retry.
    Retrying,
    /// The result has arrived, but the process still runs.
    FinishedNotExiting,
    /// No progress for a long time and idle tools.
    Suspect,
    /// Suspect in several samples in a row; it will be stopped.
    Hung,
}

/// Periodic measurement of one session; emitted by a timer, independent of output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Liveness {
    /// From 1 within the session.
    pub beat: u64,
    pub verdict: LiveVerdict,
    /// One line that explains the verdict.
    pub evidence: String,
    /// Since the spawn, without time asleep.
    pub elapsed_ms: u64,
    /// Until the time limit.
    pub deadline_in_ms: u64,
    /// Since the last content, tool use, tool result or result.
    pub since_progress_ms: u64,
    /// Since the last byte.
    pub since_output_ms: u64,
    pub stdout_bytes: u64,
    /// Lines decoded so far.
    pub lines: u64,
    pub open_tool: Option<String>,
    /// Live processes in its tree, without the keeper.
    pub processes: u32,
    /// Since the last sample.
    pub new_processes: u32,
    /// Of the agent process, since the last sample.
    pub cpu_leader_ms: u64,
    /// Of all its descendants, since the last sample.
    pub cpu_tools_ms: u64,
    /// Of the whole tree.
    pub rss_kib: u64,
}

/// All fetched items by what was decided; each item counts once, so the sum is the number fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionCounts {
    pub new: u64,
    /// Known, with a changed text.
    pub changed: u64,
    /// Deferred by an earlier run, or due for a retry.
    pub carried_over: u64,
    pub unchanged: u64,
    /// Marked as seen by the first run.
    pub baseline: u64,
    /// Over `limits.max_items_per_run` or `limits.max_deep_per_run`.
    #[serde(rename = "crowded_out")]
    pub over_limit: u64,
    /// Not processed now: waiting, parked, in flight, or finished in the tracker.
    pub resting: u64,
}

impl std::ops::AddAssign for DecisionCounts {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunSummary {
    /// Items that the source returned.
    pub fetched: u64,
    #[serde(flatten)]
    pub shares: DecisionCounts,
    /// Verdicts given.
    pub triaged: u64,
    /// Findings stored.
    pub analysed: u64,
    pub settled_by_triage: u64,
    /// Items deferred to the next run.
    pub deferred: u64,
    /// Items waiting for a retry.
    pub waiting: u64,
    pub parked: u64,
    /// Items that are gone from the source.
    pub vanished: u64,
    pub failed_sessions: u64,
    /// Sessions started.
    pub sessions: u64,
    /// As reported by the agents, or estimated.
    pub cost: Usd,
    /// The part of `cost` that is estimated from tokens and prices, because the agent reports no
    /// cost.
    pub cost_estimated: Usd,
    /// Worst case that budgets count for sessions that never reported their cost; not part of
    /// `cost`.
    pub cost_at_worst: Usd,
}

impl RunSummary {
    /// The cost as text; estimates are marked.
    pub fn cost_text(&self) -> String {
        self.cost.with_estimate(self.cost_estimated)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum RunOutcome {
    /// All due work was done.
    Completed,
    NothingNew,
    SomeFailed,
    TriageFailed,
    /// The source could not be read, or its breaker is open.
    SourceUnavailable,
    /// Some of several sources could not be read; the items of the others were processed.
    SourcesFailed,
    /// The source rejected the credential.
    CredentialRefused,
    /// The source rejected the configuration, or it refers to something that does not exist.
    ConfigRefused,
    /// A budget, admission control or a person prevented the work.
    NotNow,
    /// Stopped by a signal.
    Interrupted,
    /// Found unfinished at a later start.
    Crashed,
    StoreFailed,
}
