//! What is known about a source between requests, runs and restarts, and how reading it fails.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Everything remembered about one source; small, and stored as one JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceRecord {
    /// The circuit breaker.
    pub breaker: Breaker,
    /// The source's setting (`Source::setting`) when a failure opened the breaker that only
    /// a person can help.
    pub opened_with: Option<String>,
    /// The source asked not to be called before.
    pub not_before: Option<Timestamp>,
    /// Newest change whose decisions are stored.
    pub cursor: Option<Timestamp>,
    /// Where the revision stream goes on, in reporting mode.
    pub continuation_token: Option<String>,
    /// API versions agreed with the server, by resource; empty: the configured one.
    pub api_versions: BTreeMap<String, String>,
    /// What the source last said about its limits.
    pub rate_limit: Option<RateLimit>,
    /// What the server said about itself, and when it was last read widely, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The repositories that the source ever had, where it consists of some. The place in this list
    /// is part of the numbers of their items: entries are added and never removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<RepositoryRecord>,
}

/// What is remembered about one repository of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RepositoryRecord {
    /// The tracker's number for it, which a new name does not change.
    pub id: i64,
    /// Its name when it was last seen.
    pub name: String,
    /// Newest change whose decisions are stored.
    pub cursor: Option<Timestamp>,
    /// Address of the last list that was complete in one answer.
    pub list_address: Option<String>,
    /// The mark (`ETag`) by which the tracker says that the list is still the same.
    pub list_mark: Option<String>,
}

/// The `X-RateLimit-*` headers as last seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RateLimit {
    /// Which resource is limited.
    pub resource: Option<String>,
    /// Units allowed in the window.
    pub limit: Option<i64>,
    /// Units left.
    pub remaining: Option<i64>,
    /// When the window ends.
    pub reset: Option<Timestamp>,
    /// Milliseconds the request was held back.
    pub delay_ms: Option<i64>,
    /// When the headers were seen.
    pub seen_at: Option<Timestamp>,
}

impl RateLimit {
    /// Is less than a tenth left, in a window that has not ended?
    pub fn is_low(&self, now: Timestamp) -> bool {
        let ended = self.reset.is_some_and(|reset| reset <= now);
        match (self.remaining, self.limit) {
            (Some(remaining), Some(limit)) if !ended => remaining.saturating_mul(10) < limit,
            _ => false,
        }
    }
}

/// The breaker of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// Where it stands.
    pub state: BreakerState,
    /// Counted failures since the last success.
    pub failures: u32,
    /// Times it opened since the last whole success; the hold doubles with each.
    pub openings: u32,
}

/// Where a breaker stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "is", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum BreakerState {
    /// Requests go through.
    #[default]
    Closed,
    /// No request goes through.
    Open {
        /// Until then.
        until: Timestamp,
        /// The failure that opened it.
        class: FailureClass,
    },
    /// One probe is on its way.
    HalfOpen {
        /// When it was let through.
        since: Timestamp,
    },
}

impl BreakerState {
    /// Until when it lets nothing through, if it is open.
    pub const fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Open { until, .. } => Some(*until),
            _ => None,
        }
    }
}

/// Why a source could not be read; decides retries, the breaker and the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum FailureClass {
    /// The credential is missing, expired or refused.
    Auth,
    /// Known, but not permitted.
    Denied,
    /// Address, project or collection is wrong.
    Config,
    /// One item is gone.
    Gone,
    /// More rows than the tracker returns.
    TooMany,
    /// The query ran out of its time.
    TooSlow,
    /// The API version is not spoken there.
    Version,
    /// The query or a field is wrong.
    BadQuery,
    /// The item changed under us.
    Conflict,
    /// Asked to slow down.
    Throttled,
    /// Down for longer.
    Down,
    /// Worth another try.
    Transient,
    /// Not asked: the breaker is open or the tracker said "not before".
    BreakerOpen,
}

impl FailureClass {
    /// Can only a person help, by another credential or another configuration?
    pub const fn needs_a_person(self) -> bool {
        matches!(self, Self::Auth | Self::Denied | Self::Config | Self::BadQuery)
    }
}
