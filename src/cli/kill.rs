//! `heartbeat kill`: ends sessions with their process trees, whichever process runs them.
//!
//! The command signals the session's keeper, verified by start time, boot and process handle, never
//! by pid alone. The keeper ends the agent with grace and sweeps; the process that supervises the
//! session records it as cancelled by an operator. If that process is gone, the next run does.

use std::time::Duration;

use serde::Serialize;

use super::error::CommandError;
use crate::app::fleet;
use crate::clock::Clock;
use crate::model::{ItemKey, SessionId, SessionRef};
use crate::ports::{Ledger, LedgerRow};
use crate::process;
use crate::report::lines::short_key;
use crate::report::names::Names;
use crate::session::orphans;
use crate::settings::{Config, Environment};
use crate::store::{Journal, Store};

/// Time that a keeper may take beyond the grace period.
const BEYOND_GRACE: Duration = Duration::from_secs(20);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize)]
pub struct Killed {
    pub session: SessionId,
    /// The keeper has certified that no process is left, and has exited.
    pub gone: bool,
    pub closed: bool,
}

/// Signals all these sessions, then waits for each.
pub async fn kill(
    store: &Store,
    clock: &Clock,
    sessions: &[SessionId],
    (config, environment): (&Config, &Environment),
) -> Result<Vec<Result<Killed, CommandError>>, CommandError> {
    let journal = Journal::open(store.clone(), clock.clone(), None)?;
    let grace = config.timeouts.grace;
    let mut asked = Vec::with_capacity(sessions.len());
    for id in sessions {
        asked.push(request_end(&journal, *id, config, environment).await);
    }
    let mut killed = Vec::with_capacity(asked.len());
    for row in asked {
        killed.push(match row {
            Ok(row) if row.host.is_some() => wait_for_host(&journal, &row, config).await,
            Ok(row) => wait_for_end(&journal, &row, grace).await,
            Err(error) => Err(error),
        });
    }
    Ok(killed)
}

async fn request_end(
    journal: &Journal,
    id: SessionId,
    config: &Config,
    environment: &Environment,
) -> Result<LedgerRow, CommandError> {
    let row = row(journal, id).await?;
    let short = id.short();
    if row.host.is_some() {
        let asked = fleet::cancel(config, environment, journal, id).await;
        return asked.map(|()| row).map_err(CommandError::Fleet);
    }
    let asked = orphans::request_end(&row)
        .map_err(CommandError::io(format!("cannot signal the keeper of session {short}")))?;
    if asked {
        return Ok(row);
    }
    Err(CommandError::NotFound(format!(
        "the keeper of session {short} has already exited; the next run cleans up"
    )))
}

async fn wait_for_end(
    journal: &Journal,
    row: &LedgerRow,
    grace: Duration,
) -> Result<Killed, CommandError> {
    let gone = tokio::time::timeout(grace + BEYOND_GRACE, gone(journal, row)).await.is_ok();
    let session = row.session.id;
    Ok(Killed { session, gone, closed: !is_open(journal, session).await? })
}

/// The host receives it with its next heartbeat. The process that follows the session closes the
/// row; without one, the next run does.
async fn wait_for_host(
    journal: &Journal,
    row: &LedgerRow,
    config: &Config,
) -> Result<Killed, CommandError> {
    let session = row.session.id;
    let closed = async {
        while is_open(journal, session).await.unwrap_or(true) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let longest = config.timeouts.grace + BEYOND_GRACE;
    let closed = tokio::time::timeout(longest, closed).await.is_ok();
    Ok(Killed { session, gone: closed, closed })
}

/// The live session that the user named: by the short id from `status`, by its item, or by a prefix
/// of the full id.
pub fn find(live: &[SessionRef], names: &Names, text: &str) -> Result<SessionId, CommandError> {
    let wanted = text.to_lowercase();
    let is_item = |item: &ItemKey| {
        let own = [item.to_string(), short_key(item), names.name(item)];
        let named = own.iter().any(|name| name.eq_ignore_ascii_case(text));
        named || item.item_id().is_some_and(|id| text.trim_start_matches('#') == id.to_string())
    };
    let only = |is_meant: &dyn Fn(&SessionRef) -> bool| {
        let mut meant = live.iter().filter(|session| is_meant(session));
        meant.next().filter(|_| meant.next().is_none()).map(|session| session.id)
    };
    only(&|session| session.id.short() == wanted)
        .or_else(|| only(&|session| session.item.as_ref().is_some_and(is_item)))
        .or_else(|| only(&|session| !wanted.is_empty() && session.id.to_string().starts_with(&wanted)))
        .ok_or_else(|| {
            CommandError::NotFound(format!(
                "{text:?} does not name exactly one live session; `heartbeat status` lists their ids"
            ))
        })
}

async fn row(journal: &Journal, id: SessionId) -> Result<LedgerRow, CommandError> {
    let rows = open_rows(journal).await?;
    rows.into_iter()
        .find(|row| row.session.id == id)
        .ok_or_else(|| CommandError::NotFound(format!("session {} has already ended", id.short())))
}

async fn open_rows(journal: &Journal) -> Result<Vec<LedgerRow>, CommandError> {
    journal.open_rows().await.map_err(|error| CommandError::NotFound(error.to_string()))
}

async fn is_open(journal: &Journal, id: SessionId) -> Result<bool, CommandError> {
    Ok(open_rows(journal).await?.iter().any(|row| row.session.id == id))
}

/// Waits until the keeper is gone, and a moment longer for its row.
async fn gone(journal: &Journal, row: &LedgerRow) {
    while process::is_same(&row.keeper) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    for _ in 0..40 {
        if !is_open(journal, row.session.id).await.unwrap_or(true) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

pub fn render(killed: &Killed) -> String {
    let session = killed.session.short();
    match (killed.gone, killed.closed) {
        (true, true) => format!("session {session} ended; no process of it is left\n"),
        (true, false) => format!(
            "session {session} ended; no process of it is left, and the next run closes its row\n"
        ),
        (false, _) => format!(
            "session {session} was signalled, but its keeper is still running; see `heartbeat \
             status`\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ItemId, RunId, Stage};

    fn session(tail: u8, item: Option<i64>) -> SessionRef {
        let random = [7, 7, 7, 7, 7, 7, tail, tail, tail, tail];
        let id = uuid::Builder::from_unix_timestamp_millis(1_800_000_000_000, &random).into_uuid();
        SessionRef {
            id: SessionId(id),
            run: RunId(id),
            stage: Stage::Deep,
            item: item.map(|id| ItemKey::new("ado", ItemId(id))),
            attempt: 1,
        }
    }

    #[test]
    fn one_of_three_sessions_of_the_same_millisecond_is_found_by_what_is_shown() {
        let live = [session(1, None), session(2, Some(42)), session(3, Some(43))];
        for one in &live {
            assert_eq!(find(&live, &Names::default(), &one.id.short()).unwrap(), one.id);
            assert_eq!(find(&live, &Names::default(), &one.id.to_string()).unwrap(), one.id);
        }
        for text in ["42", "#42", "ado/42"] {
            assert_eq!(find(&live, &Names::default(), text).unwrap(), live[1].id, "{text}");
        }
        for text in ["", "44", &live[0].id.to_string()[..18]] {
            let error = find(&live, &Names::default(), text).unwrap_err().to_string();
            assert!(error.contains("heartbeat status"), "{text}: {error}");
        }
    }
}
