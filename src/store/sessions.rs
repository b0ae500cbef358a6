//! Live and past sessions, with their attempts.

use jiff::Timestamp;
use rusqlite::Row;
use serde::Serialize;

use super::rows::{Ms, from_optional_json, optional_time};
use super::subjects::{Reader, Sessions};
use super::{Spending, Sql, StoreError, budget, ledger};
use crate::model::{ItemKey, Outcome, RunId, SessionId, SessionRef, Usage};
use crate::process;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActiveSession {
    #[serde(flatten)]
    pub session: SessionRef,
    pub keeper_pid: u32,
    pub agent_pid: Option<u32>,
    /// Effective containment.
    pub tier: String,
    /// When its row was written.
    pub started_at: Timestamp,
    /// Its hard limit.
    pub deadline_at: Timestamp,
    /// The host that runs it; empty until one took it; `None`: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its keeper is verifiably alive. If not, heartbeat crashed and the next run closes the row.
    /// On another host: its row is open.
    pub alive: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionRow {
    #[serde(flatten)]
    pub session: SessionRef,
    pub tier: String,
    /// What held it, by subject; `None` for a session of another host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_force: Option<serde_json::Value>,
    pub started_at: Timestamp,
    /// `None` while it is recorded as live.
    pub ended_at: Option<Timestamp>,
    /// Not ended, and its keeper is verifiably alive.
    pub alive: bool,
    pub outcome: Option<Outcome>,
    pub usage: Option<Usage>,
    /// What it is booked at.
    pub money: Spending,
    /// Processes left alive; anything but 0 is an alarm.
    pub survivors: Option<u32>,
    /// The host it ran on; `None`: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// One attempt at an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptRow {
    /// Number of the attempt on that text.
    pub attempt: u32,
    /// Of the text in the prompt.
    pub fingerprint: String,
    pub session: SessionId,
    pub run: RunId,
    pub claimed_at: Timestamp,
    /// `None` while it is in progress.
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<Outcome>,
    /// False if the item did not cause the failure, or a user requeued it.
    pub counted: bool,
    pub usage: Option<Usage>,
    /// The host it ran on; `None`: this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl<R: Reader> Sessions<'_, R> {
    /// Live sessions, oldest first.
    pub async fn active(self) -> Result<Vec<ActiveSession>, StoreError> {
        self.rows("SELECT * FROM heartbeat_active_sessions ORDER BY started_at", [], active).await
    }

    pub async fn get(self, id: SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.first_row(format!("{SESSIONS} WHERE s.session = ?1"), [id], session).await
    }

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
        let sql = "SELECT a.*, s.usage, s.host FROM attempts a LEFT JOIN sessions s USING (session)
                   WHERE a.key = ?1 ORDER BY a.claimed_at";
        self.rows(sql, [key], attempt).await
    }
}

/// Sessions with their keeper's identity, while they have a live row, and what they are booked at,
/// as in [`budget::MONEY`].
const SESSIONS: &str = "SELECT s.*, a.keeper_start_time, a.keeper_pidfd_inode, a.boot_id,
         1 AS sessions, coalesce(b.spent, 0) AS spent,
         iif(b.assumed = 0, coalesce(b.spent, 0), 0) AS billed,
         iif(b.assumed = 0 AND b.estimated = 1, coalesce(b.spent, 0), 0) AS estimated,
         iif(b.assumed = 1, coalesce(b.spent, 0), 0) AS assumed,
         iif(b.spent IS NULL, coalesce(b.reserved, 0), 0) AS reserved
     FROM sessions s LEFT JOIN heartbeat_active_sessions a USING (session)
     LEFT JOIN budget b USING (session)";

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

/// Whether exactly the recorded keeper is alive, and not another process with its pid.
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
        in_force: from_optional_json(row, "in_force")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        ended_at: optional_time(row, "ended_at")?,
        alive: keeper_is_alive(row)?,
        outcome: from_optional_json(row, "outcome")?,
        usage: from_optional_json(row, "usage")?,
        money: budget::spending(row)?,
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
        host: row.get("host")?,
    })
}
