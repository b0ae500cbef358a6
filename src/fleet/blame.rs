//! Whether a session's end concerns the work or the host that ran it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::Taken;
use super::keys::SessionKey;
use crate::model::{FailureKind, Outcome, SessionEnd, Untrusted};
use crate::settings::FleetAccount;

/// How long a faulty host does not ask for work.
pub(super) const PAUSE: Duration = Duration::from_mins(10);

/// The stored id of a session on the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) token: Vec<u8>,
    /// Seals its end; `None` before its order was there.
    pub(super) key: Option<SessionKey>,
}

impl Token {
    pub(super) fn stored(taken: &Taken, key: Option<SessionKey>) -> Vec<u8> {
        let token = Self { id: taken.id.clone(), token: taken.token.clone(), key };
        serde_json::to_vec(&token).unwrap_or_default()
    }
}

/// Whether an end concerns the work or this host.
pub(super) enum HostBlame {
    Session(Box<SessionEnd>),
    Host(String),
}

pub(super) fn blame(end: &SessionEnd, account: FleetAccount) -> HostBlame {
    let own_account = account == FleetAccount::PerHost;
    match &end.outcome {
        Outcome::SpawnFailed { .. } => {
            let line = end.stderr_tail.last_line(400);
            let outcome = end.outcome.to_string();
            HostBlame::Host(if line.is_empty() { outcome } else { line })
        }
        Outcome::ProviderLimit { .. }
            if own_account && end.usage.cost.is_none_or(|cost| cost.micros() == 0) =>
        {
            HostBlame::Host(end.outcome.to_string())
        }
        // It has a cost, which must be booked; it says nothing about other hosts' accounts.
        Outcome::ProviderLimit { why } if own_account => {
            let outcome = Outcome::Cancelled { why: *why };
            HostBlame::Session(Box::new(SessionEnd { outcome, ..end.clone() }))
        }
        _ => HostBlame::Session(Box::new(end.clone())),
    }
}

pub(super) fn not_started(why: &str) -> SessionEnd {
    let outcome = Outcome::SpawnFailed { why: FailureKind::KeeperFailed };
    SessionEnd { stderr_tail: Untrusted::new(why), ..SessionEnd::empty(outcome) }
}
