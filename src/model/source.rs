//! What is stored about a source between requests, runs and restarts, and how reading it can fail.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// State of one source; small, stored as one JSON value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceRecord {
    pub breaker: Breaker,
    /// The source's `Source::setting` when the breaker opened on a failure that only a person can
    /// fix.
    pub opened_with: Option<String>,
    /// The source asked for no request before this time.
    pub not_before: Option<Timestamp>,
    /// Time of the newest change whose decisions are stored.
    pub cursor: Option<Timestamp>,
    /// API versions negotiated with the server, by resource; if empty, the configured version is
    /// used.
    pub api_versions: BTreeMap<String, String>,
    /// The last rate-limit headers.
    pub rate_limit: Option<RateLimit>,
    /// Facts the server reported about itself and times of the last full reads, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// All repositories that the source ever had, if it consists of repositories. The index is part
    /// of the items' numbers, so entries are never removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repositories: Vec<RepositoryRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RepositoryRecord {
    /// The tracker's id, which does not change when the repository is renamed.
    pub id: i64,
    /// Last known name.
    pub name: String,
    /// Time of the newest change whose decisions are stored.
    pub cursor: Option<Timestamp>,
    /// Address of the last listing that fit into one response.
    pub list_address: Option<String>,
    /// The `ETag` of that listing.
    pub list_mark: Option<String>,
}

/// The last seen `X-RateLimit-*` headers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RateLimit {
    /// Name of the limited resource.
    pub resource: Option<String>,
    /// Units allowed per window.
    pub limit: Option<i64>,
    pub remaining: Option<i64>,
    /// End of the window.
    pub reset: Option<Timestamp>,
    /// How long the server delayed the request.
    pub delay_ms: Option<i64>,
    pub seen_at: Option<Timestamp>,
}

impl RateLimit {
    /// Whether less than a tenth is left in a window that has not ended.
    pub fn is_low(&self, now: Timestamp) -> bool {
        let ended = self.reset.is_some_and(|reset| reset <= now);
        match (self.remaining, self.limit) {
            (Some(remaining), Some(limit)) if !ended => remaining.saturating_mul(10) < limit,
            _ => false,
        }
    }
}

/// Circuit breaker of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    pub state: BreakerState,
    /// Counted failures since the last success.
    pub failures: u32,
    /// Times it opened since the last full success; the hold doubles each time.
    pub openings: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "is", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum BreakerState {
    #[default]
    Closed,
    Open {
        until: Timestamp,
        /// The failure that opened it.
        class: FailureClass,
    },
    /// One probe request is under way.
    HalfOpen { since: Timestamp },
}

impl BreakerState {
    /// The end of the hold, if it is open.
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
    /// The credential is missing, expired or rejected.
    Auth,
    /// Authenticated, but not permitted.
    Denied,
    /// Wrong address, project or collection.
    Config,
    /// The item does not exist any more.
    Gone,
    TooMany,
    /// The query timed out on the server.
    TooSlow,
    /// The server does not support the API version.
    Version,
    /// Wrong query or field.
    BadQuery,
    /// The item changed during an update.
    Conflict,
    /// The server asked to slow down.
    Throttled,
    /// Unavailable for longer.
    Down,
    /// A retry may help.
    Transient,
    /// No request was made: the breaker is open or the tracker set a "not before" time.
    BreakerOpen,
}

impl FailureClass {
    /// Whether only a person can fix it, by another credential or configuration.
    pub const fn needs_a_person(self) -> bool {
        matches!(self, Self::Auth | Self::Denied | Self::Config | Self::BadQuery)
    }
}
