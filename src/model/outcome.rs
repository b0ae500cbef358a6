//! How a session can end: a closed list, never free text.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Usd;
use super::text::in_words;

/// What a session is for.
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
    /// All changed items at once, cheap model, no tools.
    Triage,
    /// One item on the code base.
    Deep,
}

/// Who is asked to try again, and whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryClass {
    /// Finished; nothing to repeat.
    Done,
    /// Counts as one of the item's attempts.
    CountsAsAttempt,
    /// Not the item's fault: our own shutdown, a provider limit, the configuration, the machine, an
    /// operator's word.
    DoesNotCount,
}

/// How one session ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Outcome {
    /// The result passed every check.
    Completed,
    /// Exit 0, but no usable result: no JSON, schema ignored, slash command, wrong shape.
    BadOutput {
        /// Which check failed.
        why: FailureKind,
    },
    /// The agent reported an error of its own.
    AgentError {
        /// Which one.
        why: FailureKind,
    },
    /// Left with this code and no result.
    ExitCode {
        /// As the kernel reports it.
        code: i32,
    },
    /// Ended by a signal that was not ours.
    Signal {
        /// Its number.
        signal: i32,
    },
    /// The program could not be started.
    SpawnFailed {
        /// Which step failed.
        why: FailureKind,
    },
    /// No sign of life from the agent in the first seconds.
    InitTimeout,
    /// The hard limit.
    TimedOut,
    /// No progress, no working tool, no new process, for the stall limit.
    Stalled,
    /// Stopped by us: shutdown, the run's deadline, an operator, the item went away.
    Cancelled {
        /// Who asked.
        why: FailureKind,
    },
    /// The agent's own budget limit ended it.
    OverBudget,
    /// More live processes than allowed.
    TooManyProcesses,
    /// More memory than allowed.
    TooMuchMemory,
    /// Read more distinct files than it was told to.
    TooManyReads,
    /// Wrote a line beyond the limit, or flooded its output.
    OutputFlood,
    /// Found open after a crash of heartbeat.
    Orphaned,
    /// The provider refuses more work for now: usage limit, credit, credential.
    ProviderLimit {
        /// Which one.
        why: FailureKind,
    },
    /// Something of it could not be killed; its slot stays taken.
    Unkillable,
    /// Our own code panicked, which is a bug.
    Panicked,
}

/// The detail inside an [`Outcome`]: closed as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FailureKind {
    /// No line of JSON at all.
    NoJson,
    /// The stream ended without a result line.
    NoResult,
    /// A result without the structured output that was asked for.
    SchemaIgnored,
    /// Structured output that our own validation refuses.
    SchemaViolated,
    /// The agent gave up after several invalid outputs.
    SchemaExhausted,
    /// The prompt never reached the model.
    NotSent,
    /// Interrupted from outside.
    Interrupted,
    /// The model declined.
    Refused,
    /// Turn limit.
    MaxTurns,
    /// More tool calls than allowed.
    MaxToolCalls,
    /// The answer was cut at the token limit.
    MaxOutputTokens,
    /// The provider answered with an error that retrying may cure.
    ApiError,
    /// The provider failed on this request while it answered others.
    RequestFailed,
    /// The provider refused the request itself.
    InvalidRequest,
    /// The provider refused one of the settings that every request has.
    BadSetting,
    /// The model's name is not known there.
    ModelNotFound,
    /// Too many requests, with a stated or long wait.
    RateLimit,
    /// The plan's usage limit.
    UsageLimit,
    /// No credit left.
    Billing,
    /// Credential missing or refused.
    Authentication,
    /// The executable is not there.
    NotFound,
    /// It may not be executed.
    NotExecutable,
    /// The kernel refused to start it.
    ExecFailed,
    /// The program refused its command line.
    CommandLine,
    /// The keeper did not come up.
    KeeperFailed,
    /// The sandbox of its own that the agent needs does not work on this machine.
    SandboxFailed,
    /// We are shutting down.
    Shutdown,
    /// The run reached its own limit.
    RunDeadline,
    /// `heartbeat kill`.
    Operator,
    /// The item went away or became terminal.
    ItemGone,
    /// The ledger or its lease was lost.
    LeaseLost,
}

impl Outcome {
    /// Does another try count against the item?
    pub const fn retry_class(&self) -> RetryClass {
        match self {
            Self::Completed => RetryClass::Done,
            // No session starts unless its own time limit fits into the run's: it had its time.
            Self::Cancelled { why: FailureKind::RunDeadline } => RetryClass::CountsAsAttempt,
            Self::Cancelled { .. } | Self::ProviderLimit { .. } => RetryClass::DoesNotCount,
            // The provider failed, not the item.
            Self::AgentError { why: FailureKind::ApiError } => RetryClass::DoesNotCount,
            // Nothing was started: the machine or the configuration is to blame.
            Self::SpawnFailed { .. } => RetryClass::DoesNotCount,
            outcome if outcome.is_configuration() => RetryClass::DoesNotCount,
            _ => RetryClass::CountsAsAttempt,
        }
    }

    /// Would every session end like this until somebody changes a setting?
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

    /// Is it booked with its worst case? Only a session whose cost nobody knows is, and
    /// only if the provider may have charged for it: a failing provider that sent not one token of
    /// an answer has not.
    pub fn counts_at_worst(&self, usage: &Usage) -> bool {
        let never_asked = matches!(
            self,
            Self::SpawnFailed { .. }
                | Self::BadOutput { why: FailureKind::NoJson | FailureKind::NotSent }
                | Self::ProviderLimit { .. }
        ) || self.is_configuration();
        let never_answered =
            matches!(self, Self::AgentError { why: FailureKind::ApiError }) && usage.tokens() == 0;
        usage.cost.is_none() && !never_asked && !never_answered
    }

    /// The exit code of the agent, where it left with one.
    pub const fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Completed => Some(0),
            Self::ExitCode { code } => Some(*code),
            _ => None,
        }
    }

    /// Did it do what it was asked to?
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

/// What a session used, as the agent itself reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredUsage", into = "StoredUsage")]
pub struct Usage {
    /// Fresh input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    pub cache_creation_tokens: u64,
    /// In US dollars, zero included; none if nobody knows.
    pub cost: Option<Usd>,
    /// The cost is ours, from tokens and a price list, because the agent reports none.
    pub estimated: bool,
}

impl Usage {
    /// All tokens, whatever they cost.
    pub const fn tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.output_tokens)
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_creation_tokens)
    }

    /// Did the agent itself report the cost?
    pub const fn is_reported(&self) -> bool {
        self.cost.is_some() && !self.estimated
    }

    /// The cost for people: an estimate says so.
    pub fn cost_in_words(&self) -> String {
        match (self.cost, self.estimated) {
            (Some(cost), false) => cost.to_string(),
            (Some(cost), true) => format!("{cost} (estimated)"),
            (None, _) => "cost unknown".to_owned(),
        }
    }

    /// Of both sessions together; the cost is known if both are, and an estimate if one is.
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

/// As it is stored: rows of earlier versions say whether the cost was reported, the oldest not even
/// that.
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
            Outcome::OverBudget,
            Outcome::ExitCode { code: 1 },
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
        let answered = Usage { input_tokens: 1, ..Usage::default() };
        assert!(outage.counts_at_worst(&answered));
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
    fn outcomes_are_told_in_words() {
        let told = |outcome: Outcome| outcome.to_string();
        let stopped = Outcome::Cancelled { why: FailureKind::Operator };
        assert_eq!(told(stopped), "cancelled (operator)");
        let wrong = Outcome::BadOutput { why: FailureKind::SchemaViolated };
        assert_eq!(told(wrong), "bad output (schema violated)");
        assert_eq!(told(Outcome::TooManyReads), "too many reads");
    }
}
