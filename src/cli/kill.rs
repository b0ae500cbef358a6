//! `heartbeat kill SESSION`: ends one session with its whole tree, whoever runs it.
//!
//! Its keeper is asked, and it is certain that it is its keeper: by start time, boot and handle,
//! never by number. The keeper ends the agent with grace and sweeps; whoever supervises the session
//! records it as cancelled by an operator. Of a heartbeat that is gone, the next run does.

use std::time::Duration;

use serde::Serialize;

use super::error::CommandError;
use crate::clock::Clock;
use crate::model::SessionId;
use crate::ports::{Ledger, LedgerRow};
use crate::process;
use crate::session::orphans;
use crate::store::{Journal, Store};

/// What a keeper may take beyond the grace.
const BEYOND_GRACE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What became of it.
#[derive(Debug, Serialize)]
pub struct Killed {
    /// Which.
    pub session: SessionId,
    /// Its keeper has certified that nothing is left, and is gone.
    pub gone: bool,
    /// Its row is closed.
    pub closed: bool,
}

/// Ends the session and waits for its end.
pub async fn kill(
    store: &Store,
    clock: &Clock,
    session: &str,
    grace: Duration,
) -> Result<Killed, CommandError> {
    let id = find(store, session).await?;
    let journal = Journal::open(store.clone(), clock.clone(), None)?;
    let row = row(&journal, id).await?;
    let asked = orphans::request_end(&row)
        .map_err(CommandError::io(format!("the keeper of session {id} cannot be signalled")))?;
    if !asked {
        return Err(CommandError::NotFound(format!(
            "the keeper of session {id} is gone already; what is left of it is ended before the next run"
        )));
    }
    let waited = tokio::time::timeout(grace + BEYOND_GRACE, gone(&journal, &row));
    let gone = waited.await.is_ok();
    let closed = !is_open(&journal, id).await?;
    Ok(Killed { session: id, gone, closed })
}

async fn find(store: &Store, session: &str) -> Result<SessionId, CommandError> {
    let found = store.sessions().live_with_prefix(session.to_lowercase()).await?;
    match found.as_slice() {
        [one] if !session.is_empty() => Ok(*one),
        [] => Err(CommandError::NotFound(format!(
            "no live session begins with {session:?}; `heartbeat status` lists them"
        ))),
        several => Err(CommandError::Usage(format!(
            "{} live sessions begin with {session:?}; give more of the id",
            several.len()
        ))),
    }
}

async fn row(journal: &Journal, id: SessionId) -> Result<LedgerRow, CommandError> {
    let rows = open_rows(journal).await?;
    rows.into_iter()
        .find(|row| row.session.id == id)
        .ok_or_else(|| CommandError::NotFound(format!("session {id} ended by itself just now")))
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

/// For a terminal.
pub fn render(killed: &Killed) -> String {
    let session = killed.session;
    match (killed.gone, killed.closed) {
        (true, true) => format!("session {session} is ended, nothing of it is left\n"),
        (true, false) => format!(
            "session {session} is ended, nothing of it is left; its row is closed by the next run\n"
        ),
        (false, _) => format!(
            "session {session} was asked to end and its keeper is not gone yet; look with `heartbeat \
             status`\n"
        ),
    }
}
