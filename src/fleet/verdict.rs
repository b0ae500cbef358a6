//! What a session's end says: something about the work, or about the host that ran it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::model::{FailureKind, Foreign, Outcome, SessionEnd};
use crate::settings::Account;

/// How long a host with a fault asks for no work.
pub(super) const PAUSE: Duration = Duration::from_mins(10);

/// What the server knows a session by, as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) id: String,
    pub(super) token: Vec<u8>,
}

/// Whether an end says something about the work or about this host.
pub(super) enum Verdict {
    Its(SessionEnd),
    Hosts(String),
}

pub(super) fn verdict(end: &SessionEnd, account: Account) -> Verdict {
    let own_account = account == Account::PerHost;
    match &end.outcome {
        Outcome::SpawnFailed { .. } => {
            let line = end.stderr_tail.last_line(400);
            let outcome = end.outcome.to_string();
            Verdict::Hosts(if line.is_empty() { outcome } else { line })
        }
        Outcome::ProviderLimit { .. }
            if own_account && end.usage.cost.is_none_or(|cost| cost.micros() == 0) =>
        {
            Verdict::Hosts(end.outcome.to_string())
        }
        // It cost something, which must be booked; it says nothing about other hosts' accounts.
        Outcome::ProviderLimit { why } if own_account => {
            Verdict::Its(SessionEnd { outcome: Outcome::Cancelled { why: *why }, ..end.clone() })
        }
        _ => Verdict::Its(end.clone()),
    }
}

pub(super) fn pause_for(end: &SessionEnd, clock: &Clock) -> Duration {
    let until = end.suspended_until.map(|until| until.duration_since(clock.now()));
    until.and_then(|left| Duration::try_from(left).ok()).unwrap_or(PAUSE)
}

pub(super) fn not_started(why: &str) -> SessionEnd {
    let outcome = Outcome::SpawnFailed { why: FailureKind::KeeperFailed };
    SessionEnd { stderr_tail: Foreign::new(why), ..SessionEnd::empty(outcome) }
}
