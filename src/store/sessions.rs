//! Sessions: those that are live, and every one that ever ran, with the attempts they were.

use jiff::Timestamp;
use rusqlite::Row;
use serde::Serialize;

use super::rows::{Ms, from_optional_json, optional_time};
use super::subjects::{Reader, Sessions};
use super::{Sql, StoreError, ledger};
use crate::model::{ItemKey, Outcome, RunId, SessionId, SessionRef, Usage};
use crate::process;

/// A live session's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActiveSession {
    #[serde(flatten)]
    pub session: SessionRef,
    pub keeper_pid: u32,
    pub agent_pid: Option<u32>,
    /// Containment in force.
    pub tier: String,
    /// When its row was written.
    pub started_at: Timestamp,
    /// When it ends at the latest.
    pub deadline_at: Timestamp,
    /// The host it was given to, empty while none took it; none: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its keeper is verifiably there. If not, heartbeat crashed; the next run closes the row. On
    /// another host: its row is open.
    pub alive: bool,
}

/// A session of the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionRow {
    #[serde(flatten)]
    pub session: SessionRef,
    /// Containment it had.
    pub tier: String,
    pub started_at: Timestamp,
    /// None while it is on record as alive.
    pub ended_at: Option<Timestamp>,
    /// Not ended, and its keeper is verifiably there.
    pub alive: bool,
    pub outcome: Option<Outcome>,
    pub usage: Option<Usage>,
    /// Left alive: 0, or an alarm.
    pub survivors: Option<u32>,
    /// The host it ran on; none: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// One try at an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptRow {
    /// Its number on that text.
    pub attempt: u32,
    /// Of what reached the prompt.
    pub fingerprint: String,
    pub session: SessionId,
    pub run: RunId,
    pub claimed_at: Timestamp,
    /// None while it goes on.
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    /// False: not the item's fault, or given back by a person.
    pub counted: bool,
    pub usage: Option<Usage>,
}

impl<R: Reader> Sessions<'_, R> {
    /// Live sessions, oldest first.
    pub async fn active(self) -> Result<Vec<ActiveSession>, StoreError> {
        self.rows("SELECT * FROM heartbeat_active_sessions ORDER BY started_at", [], active).await
    }

    /// One session.
    pub async fn get(self, id: SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.first_row(format!("{SESSIONS} WHERE s.session = ?1"), [id], session).await
    }

    /// The newest sessions, newest first.
    pub async fn newest(self, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        let sql = format!("{SESSIONS} ORDER BY s.started_at DESC, s.session DESC LIMIT ?1");
        self.rows(sql, [limit], session).await
    }

    /// Sessions of one item, oldest first.
    pub async fn of_item(self, key: ItemKey) -> Result<Vec<SessionRow>, StoreError> {
        let sql = format!("{SESSIONS} WHERE s.item = ?1 ORDER BY s.started_at");
        self.rows(sql, [key], session).await
    }

    /// Sessions of one run, oldest first.
    pub async fn in_run(self, run: RunId) -> Result<Vec<SessionRow>, StoreError> {
        let sql = format!("{SESSIONS} WHERE s.run = ?1 ORDER BY s.started_at, s.session");
        self.rows(sql, [run], session).await
    }

    /// Sessions that began in `[from, to)`, oldest first.
    pub async fn between(
        self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<SessionRow>, StoreError> {
        let sql = format!(
            "{SESSIONS} WHERE s.started_at >= ?1 AND s.started_at < ?2
                     ORDER BY s.started_at, s.session"
        );
        self.rows(sql, (Ms(from), Ms(to)), session).await
    }

    /// Every attempt on an item, oldest first.
    pub async fn attempts_of(self, key: ItemKey) -> Result<Vec<AttemptRow>, StoreError> {
        let sql = "SELECT a.*, s.usage FROM attempts a LEFT JOIN sessions s USING (session)
                   WHERE a.key = ?1 ORDER BY a.claimed_at";
        self.rows(sql, [key], attempt).await
    }
}

/// Sessions with what their keeper is known by, as long as they have a row among the live ones.
const SESSIONS: &str = "SELECT s.*, a.keeper_start_time, a.keeper_pidfd_inode, a.boot_id
     FROM sessions s LEFT JOIN heartbeat_active_sessions a USING (session)";

fn active(row: &Row<'_>) -> Sql<ActiveSession> {
    Ok(ActiveSession {
        session: ledger::session_ref(row)?,
        keeper_pid: row.get("keeper_pid")?,
        agent_pid: row.get("agent_pid")?,
        tier: row.get("tier")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        deadline_at: row.get::<_, Ms>("deadline_at")?.0,
        host: row.get("host")?,
        alive: keeper_is_alive(row)?,
    })
}

/// Is exactly the keeper on record alive, and not another process with its number?
fn keeper_is_alive(row: &Row<'_>) -> Sql<bool> {
    let on_record = row.get::<_, Option<String>>("boot_id")?.is_some();
    if on_record && row.get::<_, Option<String>>("host")?.is_some() {
        return Ok(true);
    }
    Ok(on_record && process::is_same(&ledger::keeper(row)?))
}

fn session(row: &Row<'_>) -> Sql<SessionRow> {
    Ok(SessionRow {
        session: ledger::session_ref(row)?,
        tier: row.get("tier")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        ended_at: optional_time(row, "ended_at")?,
        alive: keeper_is_alive(row)?,
        outcome: from_optional_json(row, "outcome")?,
        usage: from_optional_json(row, "usage")?,
        survivors: row.get("survivors")?,
        host: row.get("host")?,
    })
}

fn attempt(row: &Row<'_>) -> Sql<AttemptRow> {
    Ok(AttemptRow {
        attempt: row.get("attempt")?,
        fingerprint: row.get("fingerprint")?,
        session: row.get("session")?,
        run: row.get("run")?,
        claimed_at: row.get::<_, Ms>("claimed_at")?.0,
        ended_at: optional_time(row, "ended_at")?,
        outcome: from_optional_json(row, "outcome")?,
        counted: row.get("counted")?,
        usage: from_optional_json(row, "usage")?,
    })
}
