//! How a session can end: closed enums, no free text.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Usd;
use super::text::in_words;

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Stage {
    /// Many changed items in one session: cheap model, no tools.
    Triage,
    /// The candidate files of many items in one session: like triage.
    Locate,
    /// One item, with access to the code base.
    Deep,
}

/// Whether a session is retried, and whether it costs the item an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryClass {
    /// Finished; not retried.
    Done,
    /// Retried; costs one of the item's attempts.
    CountsAsAttempt,
    /// Retried without cost: the cause was our shutdown, a provider limit, the configuration, the
    /// machine or an operator.
    DoesNotCount,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Outcome {
    /// The result passed every check.
    Completed,
    /// Exit 0, but no usable result: no JSON, schema ignored, slash command, wrong shape.
    BadOutput {
        why: FailureKind,
    },
    /// The agent reported an error.
    AgentError {
        why: FailureKind,
    },
    /// The agent exited with this code and without a result.
    ExitCode {
        code: i32,
    },
    /// Ended by a signal that we did not send.
    Signal {
        signal: i32,
    },
    SpawnFailed {
        why: FailureKind,
    },
    /// No output from the agent within the startup time.
    InitTimeout,
    /// The time limit.
    TimedOut,
    /// No progress, no running tool and no new process for the stall limit.
    Stalled,
    /// Stopped by us: shutdown, deadline of the run, operator, or the item is gone.
    Cancelled {
        why: FailureKind,
    },
    /// The session cost as much as it may: by heartbeat's count, or by the agent's own.
    BudgetReached,
    TooManyProcesses,
    TooMuchMemory,
    /// Read more distinct files than allowed.
    TooManyReads,
    /// More bytes or files in its folder than allowed.
    TooMuchDisk,
    /// Wrote a line beyond the limit, or too much output.
    OutputFlood,
    /// Found open after heartbeat crashed.
    Orphaned,
    /// The provider accepts no more work for now: usage limit, credit, credential.
    ProviderLimit {
        why: FailureKind,
    },
    /// A process could not be killed; the session's slot stays in use.
    Unkillable,
    /// Our own code panicked: a bug.
    Panicked,
}

/// The cause inside an [`Outcome`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FailureKind {
    /// No line of JSON at all.
    NoJson,
    /// The stream ended without a result line.
    NoResult,
    /// A result without the requested structured output.
    SchemaIgnored,
    /// Structured output that fails our validation.
    SchemaViolated,
    /// The agent gave up after several invalid outputs.
    SchemaExhausted,
    /// Every tool call of an analysis failed: its answer is about code that it did not see.
    NothingRead,
    /// The prompt never reached the model.
    NotSent,
    Interrupted,
    /// The model declined the request.
    Refused,
    MaxTurns,
    /// More tool calls than allowed.
    MaxToolCalls,
    MaxOutputTokens,
    /// A provider error that may be temporary.
    ApiError,
    /// The provider failed on this request but answered others.
    RequestFailed,
    /// The provider rejected the request.
    InvalidRequest,
    /// The provider rejected a setting that every request has.
    BadSetting,
    /// The provider does not know the model.
    ModelNotFound,
    /// Too many requests, with a stated or long wait.
    RateLimit,
    /// The plan's usage limit.
    UsageLimit,
    Billing,
    /// Credential missing or rejected.
    Authentication,
    /// The executable does not exist.
    NotFound,
    NotExecutable,
    /// The kernel refused to start it.
    ExecFailed,
    /// The agent rejected its command line.
    CommandLine,
    /// The keeper did not start.
    KeeperFailed,
    /// The sandbox that the agent needs does not work on this machine.
    SandboxFailed,
    /// heartbeat is shutting down.
    Shutdown,
    /// The run reached its time limit.
    RunDeadline,
    /// `heartbeat kill`.
    Operator,
    /// The item is gone or in a terminal state.
    ItemGone,
    /// The ledger or its lease was lost.
    LeaseLost,
}

impl Outcome {
    /// For people: names the host that a session was lost with.
    pub fn text_on(&self, host: Option<&str>) -> String {
        match (self, host) {
            (Self::Orphaned, Some(host)) if !host.is_empty() => {
                format!("{self} (host {host} was lost)")
            }
            _ => self.to_string(),
        }
    }

    /// Ended by a limit of the account of the host that ran it, which says nothing about others.
    pub const fn is_of_one_host(&self) -> bool {
        use FailureKind::{Authentication, Billing, RateLimit, UsageLimit};
        matches!(self, Self::Cancelled { why: RateLimit | UsageLimit | Billing | Authentication })
    }

    pub const fn retry_class(&self) -> RetryClass {
        match self {
            Self::Completed => RetryClass::Done,
            // A session starts only if its time limit fits into the run's, so it had its full time.
            Self::Cancelled { why: FailureKind::RunDeadline } => RetryClass::CountsAsAttempt,
            Self::Cancelled { .. } | Self::ProviderLimit { .. } => RetryClass::DoesNotCount,
            // The provider failed, not the item.
            Self::AgentError { why: FailureKind::ApiError } => RetryClass::DoesNotCount,
            // Our own crash, or a lost host.
            Self::Orphaned => RetryClass::DoesNotCount,
            // Nothing was started: the cause is the machine or the configuration.
            Self::SpawnFailed { .. } => RetryClass::DoesNotCount,
            outcome if outcome.is_configuration() => RetryClass::DoesNotCount,
            _ => RetryClass::CountsAsAttempt,
        }
    }

    /// Whether every session would end like this until a setting changes.
    pub const fn is_configuration(&self) -> bool {
        use FailureKind::{
            BadSetting, CommandLine, ExecFailed, ModelNotFound, NotExecutable, NotFound,
        };
        matches!(
            self,
            Self::AgentError { why: ModelNotFound | BadSetting }
                | Self::SpawnFailed { why: NotFound | NotExecutable | ExecFailed | CommandLine }
        )
    }

    /// Whether the session is charged at its worst case: its cost is not known and the provider may
    /// have charged for it. A provider that failed without sending a token has not.
    pub fn counts_at_worst(&self, usage: &Usage) -> bool {
        // An agent that never wrote a line has not heard from its provider either. A limit may
        // also end a session that was served before.
        let never_answered = matches!(
            self,
            Self::SpawnFailed { .. }
                | Self::BadOutput { why: FailureKind::NotSent }
                | Self::ProviderLimit { .. }
                | Self::AgentError { why: FailureKind::ApiError }
                | Self::InitTimeout
        ) || self.is_configuration();
        usage.cost.is_none() && !(never_answered && usage.tokens() == 0)
    }

    pub const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Completed => Some(0),
            Self::ExitCode { code } => Some(*code),
            _ => None,
        }
    }

    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Completed)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadOutput { why }
            | Self::AgentError { why }
            | Self::SpawnFailed { why }
            | Self::Cancelled { why }
            | Self::ProviderLimit { why } => {
                write!(f, "{} ({why})", in_words(self))
            }
            Self::ExitCode { code } => write!(f, "exit code {code}"),
            Self::Signal { signal } => write!(f, "signal {signal}"),
            _ => f.write_str(&in_words(self)),
        }
    }
}

/// `SchemaViolated` as `schema violated`.
impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&in_words(self))
    }
}

/// What a session used, as reported by the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredUsage", into = "StoredUsage")]
pub struct Usage {
    /// Without cached tokens.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    pub cache_creation_tokens: u64,
    /// `None` if not known; zero is a known cost.
    pub cost: Option<Usd>,
    /// Computed by us from tokens and the price list, because the agent reports no cost.
    pub estimated: bool,
}

impl Usage {
    /// Without figures that no session can have. They come from other programs, and are summed up.
    #[must_use]
    pub fn bounded(self) -> Self {
        const MAX_TOKENS: u64 = 1_000_000_000_000;
        const MAX: Usd = Usd::from_micros(1_000_000_000_000);
        Self {
            input_tokens: self.input_tokens.min(MAX_TOKENS),
            output_tokens: self.output_tokens.min(MAX_TOKENS),
            cache_read_tokens: self.cache_read_tokens.min(MAX_TOKENS),
            cache_creation_tokens: self.cache_creation_tokens.min(MAX_TOKENS),
            cost: self.cost.map(|cost| cost.clamp(Usd::ZERO, MAX)),
            estimated: self.estimated,
        }
    }

    /// Tokens of all kinds.
    pub const fn tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_creation_tokens)
    }

    pub const fn is_reported(&self) -> bool {
        self.cost.is_some() && !self.estimated
    }

    /// The cost as text; an estimate is marked.
    pub fn cost_text(&self) -> String {
        match (self.cost, self.estimated) {
            (Some(cost), false) => cost.to_string(),
            (Some(cost), true) => format!("{cost} (estimated)"),
            (None, _) => "cost unknown".to_owned(),
        }
    }

    /// The share of the input that the provider read from its cache; empty if none.
    pub fn cached_text(&self) -> String {
        let input = self.tokens().saturating_sub(self.output_tokens);
        match self.cache_read_tokens {
            0 => String::new(),
            cached => {
                let share = u128::from(cached) * 100 / u128::from(input.max(1));
                format!(", {share} % of the input cached")
            }
        }
    }

    /// The sum. The cost is known if both are, and an estimate if either is.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_creation_tokens: self
                .cache_creation_tokens
                .saturating_add(other.cache_creation_tokens),
            cost: self.cost.zip(other.cost).map(|(one, more)| one + more),
            estimated: self.estimated || other.estimated,
        }
    }
}

/// The stored form. Rows of earlier versions record whether the cost was reported; the oldest do
/// not.
#[derive(Serialize, Deserialize)]
struct StoredUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_creation_tokens: u64,
    cost: Option<Usd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reported: Option<bool>,
    #[serde(default)]
    estimated: bool,
}

impl From<StoredUsage> for Usage {
    fn from(stored: StoredUsage) -> Self {
        let known = match stored.reported {
            Some(reported) => reported || stored.estimated,
            None => stored.cost.is_some_and(|cost| cost > Usd::ZERO),
        };
        Self {
            input_tokens: stored.input_tokens,
            output_tokens: stored.output_tokens,
            cache_read_tokens: stored.cache_read_tokens,
            cache_creation_tokens: stored.cache_creation_tokens,
            cost: stored.cost.filter(|_| known),
            estimated: stored.estimated,
        }
        .bounded()
    }
}

impl From<Usage> for StoredUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_creation_tokens: usage.cache_creation_tokens,
            cost: usage.cost,
            reported: Some(usage.is_reported()),
            estimated: usage.estimated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_cost_is_what_is_booked_whatever_the_end() {
        let reported = Usage { cost: Some(Usd::ZERO), ..Usage::default() };
        let error = |why| Outcome::AgentError { why };
        for outcome in [
            Outcome::Completed,
            error(FailureKind::MaxTurns),
            Outcome::TimedOut,
            Outcome::BudgetReached,
            Outcome::ExitCode { code: 1 },
            Outcome::BadOutput { why: FailureKind::NoJson },
        ] {
            assert!(!outcome.counts_at_worst(&reported), "{outcome}");
            assert!(outcome.counts_at_worst(&Usage::default()), "{outcome}");
        }
        let spawn = Outcome::SpawnFailed { why: FailureKind::NotFound };
        assert!(!spawn.counts_at_worst(&Usage::default()), "it never reached the provider");
    }

    #[test]
    fn an_outage_costs_its_worst_case_only_if_a_part_of_an_answer_came() {
        let outage = Outcome::AgentError { why: FailureKind::ApiError };
        assert!(!outage.counts_at_worst(&Usage::default()));
        assert!(!Outcome::InitTimeout.counts_at_worst(&Usage::default()));
        let answered = Usage { input_tokens: 1, ..Usage::default() };
        assert!(outage.counts_at_worst(&answered));
        let limit = Outcome::ProviderLimit { why: FailureKind::RateLimit };
        assert!(!limit.counts_at_worst(&Usage::default()));
        assert!(limit.counts_at_worst(&answered), "it was served before the limit");
        assert!(!outage.counts_at_worst(&Usage { cost: Some(Usd::ZERO), ..answered }));
    }

    #[test]
    fn a_stored_usage_is_read_back_and_that_of_earlier_versions_too() {
        let read = |cost: &str, more: &str| {
            let tokens = r#""input_tokens":1,"output_tokens":2,"cache_read_tokens":0,"cache_creation_tokens":0"#;
            serde_json::from_str::<Usage>(&format!("{{{tokens},\"cost\":{cost}{more}}}")).unwrap()
        };
        let cent = Some(Usd::from_dollars(0.01));
        assert_eq!(read("0.01", "").cost, cent, "the oldest");
        assert_eq!(read("0.0", "").cost, None);
        assert_eq!(read("0.01", r#","reported":true"#).cost, cent);
        assert_eq!(read("0.0", r#","reported":true"#).cost, Some(Usd::ZERO));
        assert_eq!(read("0.0", r#","reported":false"#).cost, None);
        for cost in [None, Some(Usd::ZERO), cent] {
            for estimated in [false, cost.is_some()] {
                let usage = Usage { cost, estimated, output_tokens: 3, ..Usage::default() };
                let text = serde_json::to_string(&usage).unwrap();
                assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage, "{text}");
            }
        }
    }

    #[test]
    fn outcomes_are_reported_in_words() {
        let text = |outcome: Outcome| outcome.to_string();
        let stopped = Outcome::Cancelled { why: FailureKind::Operator };
        assert_eq!(text(stopped), "cancelled (operator)");
        let wrong = Outcome::BadOutput { why: FailureKind::SchemaViolated };
        assert_eq!(text(wrong), "bad output (schema violated)");
        assert_eq!(text(Outcome::TooManyReads), "too many reads");
    }
}
