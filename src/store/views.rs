//! What the commands show: plain rows, read in one go.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row};
use serde::Serialize;

use super::items::Phase;
use super::ledger;
use super::rows::{Ms, from_json, from_optional_json, from_word};
use super::{Sql, Store, StoreError};
use crate::event::{Event, Reason, Recorded};
use crate::model::{Finding, ItemKey, Outcome, RunId, SessionId, Stage, Usage, Verdict};
use crate::process;

/// A live session's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActiveSession {
    /// Which.
    pub session: SessionId,
    /// Of which run.
    pub run: RunId,
    /// What for.
    pub stage: Stage,
    /// For which item.
    pub item: Option<ItemKey>,
    /// Which try.
    pub attempt: u32,
    /// Its keeper.
    pub keeper_pid: u32,
    /// The agent.
    pub agent_pid: Option<u32>,
    /// Containment in force.
    pub tier: String,
    /// When its row was written.
    pub started_at: Timestamp,
    /// When it ends at the latest.
    pub deadline_at: Timestamp,
    /// Its keeper is verifiably there. If not, heartbeat crashed; the next run closes the row.
    pub alive: bool,
}

/// A session of the history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionRow {
    /// Which.
    pub session: SessionId,
    /// Of which run.
    pub run: RunId,
    /// What for.
    pub stage: Stage,
    /// For which item.
    pub item: Option<ItemKey>,
    /// Which try.
    pub attempt: u32,
    /// Containment it had.
    pub tier: String,
    /// When.
    pub started_at: Timestamp,
    /// None while it is on record as alive.
    pub ended_at: Option<Timestamp>,
    /// Not ended, and its keeper is verifiably there.
    pub alive: bool,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Used.
    pub usage: Option<Usage>,
    /// Left alive: 0, or an alarm.
    pub survivors: Option<u32>,
}

/// An item's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ItemRow {
    /// Which.
    pub key: ItemKey,
    /// One line.
    pub title: String,
    /// Bug, Task, …
    pub item_type: String,
    /// For people.
    pub url: String,
    /// Newest revision seen.
    pub revision: i64,
    /// The tracker's date of it.
    pub last_changed: Timestamp,
    /// When it was last finished.
    pub last_processed: Option<Timestamp>,
    /// Where it stands.
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// Attempts used on its present text.
    pub attempts: u32,
    /// Not before.
    pub next_attempt: Option<Timestamp>,
    /// Runs that left it out.
    pub deferrals: u32,
    /// Triage's answer.
    pub verdict: Option<Verdict>,
}

/// A finding with where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FindingRow {
    /// Which item.
    pub key: ItemKey,
    /// Its title.
    pub title: String,
    /// For people.
    pub url: String,
    /// The revision it is about.
    pub revision: i64,
    /// By which session.
    pub session: SessionId,
    /// Of which run.
    pub run: RunId,
    /// When.
    pub created_at: Timestamp,
    /// The finding.
    pub finding: Finding,
}

/// The beginning of a line that can be as long as the backlog.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OpenItems {
    /// How many there are.
    pub total: u32,
    /// The first of them.
    pub first: Vec<ItemRow>,
}

impl OpenItems {
    /// How many are not among the first.
    pub fn beyond(&self) -> u32 {
        self.total.saturating_sub(u32::try_from(self.first.len()).unwrap_or(u32::MAX))
    }
}

impl Store {
    /// Live sessions, oldest first.
    pub async fn active_sessions(&self) -> Result<Vec<ActiveSession>, StoreError> {
        self.rows("SELECT * FROM heartbeat_active_sessions ORDER BY started_at", active).await
    }

    /// The newest sessions, newest first.
    pub async fn sessions(&self, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        let sql = format!("{SESSIONS} ORDER BY s.started_at DESC, s.session DESC LIMIT {limit}");
        self.rows(sql, session).await
    }

    /// Sessions of one item, oldest first.
    pub async fn sessions_of(&self, key: ItemKey) -> Result<Vec<SessionRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(&format!("{SESSIONS} WHERE s.item = ?1 ORDER BY s.started_at"))?
                .query_map([key], session)?
                .collect()
        })
        .await
    }

    /// One item.
    pub async fn item(&self, key: ItemKey) -> Result<Option<ItemRow>, StoreError> {
        self.read(move |connection| {
            connection
                .query_row("SELECT * FROM heartbeat_state WHERE key = ?1", [key], item)
                .optional()
        })
        .await
    }

    /// The items that are not finished: those at work, then the longest waiting, at most `most`.
    pub async fn open_items(&self, most: u32) -> Result<OpenItems, StoreError> {
        self.read(move |connection| {
            let total = connection.query_row(
                "SELECT count(*) FROM heartbeat_state WHERE phase NOT IN ('done', 'vanished')",
                [],
                |row| row.get(0),
            )?;
            let first = connection
                .prepare(
                    "SELECT * FROM heartbeat_state WHERE phase NOT IN ('done', 'vanished')
                     ORDER BY phase <> 'claimed', deferrals DESC, priority IS NULL, priority,
                              item_id LIMIT ?1",
                )?
                .query_map([most], item)?
                .collect::<Result<_, _>>()?;
            Ok(OpenItems { total, first })
        })
        .await
    }

    /// How many items stand where.
    pub async fn phase_counts(&self) -> Result<Vec<(Phase, u32)>, StoreError> {
        self.rows("SELECT phase, count(*) AS n FROM heartbeat_state GROUP BY phase", |row| {
            Ok((from_word(row, "phase")?, row.get("n")?))
        })
        .await
    }

    /// Findings of one item, newest first.
    pub async fn findings_of(&self, key: ItemKey) -> Result<Vec<FindingRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(&format!("{FINDINGS} WHERE f.key = ?1 ORDER BY f.id DESC"))?
                .query_map([key], finding)?
                .collect()
        })
        .await
    }

    /// Findings of one run, in the order they were stored.
    pub async fn findings_in(&self, run: RunId) -> Result<Vec<FindingRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(&format!("{FINDINGS} WHERE f.run = ?1 ORDER BY f.id"))?
                .query_map([run], finding)?
                .collect()
        })
        .await
    }

    /// The story of one item, as events.
    pub async fn events_of(&self, key: ItemKey) -> Result<Vec<Recorded>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare("SELECT * FROM events WHERE item = ?1 ORDER BY seq")?
                .query_map([key], recorded)?
                .collect()
        })
        .await
    }

    /// Events of one run, in order.
    pub async fn events_in(&self, run: RunId) -> Result<Vec<Recorded>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare("SELECT * FROM events WHERE run = ?1 ORDER BY seq")?
                .query_map([run], recorded)?
                .collect()
        })
        .await
    }

    /// What was wrong with the configuration when it was last read again, if it was.
    pub async fn last_config_fault(&self) -> Result<Option<String>, StoreError> {
        self.read(|connection| {
            let last = connection
                .query_row(
                    "SELECT * FROM events WHERE event IN ('config_broken', 'config_reloaded')
                     ORDER BY seq DESC LIMIT 1",
                    [],
                    recorded,
                )
                .optional()?;
            Ok(match last.map(|recorded| recorded.event) {
                Some(Event::ConfigBroken { message }) => Some(message),
                _ => None,
            })
        })
        .await
    }

    /// Keys whose new value waits for the next start of the service.
    pub async fn keys_waiting_for_restart(&self) -> Result<Vec<String>, StoreError> {
        self.read(|connection| {
            let last = connection
                .query_row(
                    "SELECT * FROM events WHERE event = 'restart_needed' ORDER BY seq DESC LIMIT 1",
                    [],
                    recorded,
                )
                .optional()?;
            Ok(match last.map(|recorded| recorded.event) {
                Some(Event::RestartNeeded { keys }) => keys,
                _ => Vec::new(),
            })
        })
        .await
    }

    async fn rows<T: Send + 'static>(
        &self,
        sql: impl Into<String>,
        read: fn(&Row<'_>) -> Sql<T>,
    ) -> Result<Vec<T>, StoreError> {
        let sql = sql.into();
        self.read(move |connection| connection.prepare(&sql)?.query_map([], read)?.collect()).await
    }
}

/// Sessions with what their keeper is known by, as long as they have a row among the live ones.
pub(super) const SESSIONS: &str = "SELECT s.*, a.keeper_start_time, a.keeper_pidfd_inode, a.boot_id
     FROM sessions s LEFT JOIN heartbeat_active_sessions a USING (session)";

pub(super) const FINDINGS: &str =
    "SELECT f.*, s.title, s.url FROM findings f JOIN heartbeat_state s USING (key)";

fn active(row: &Row<'_>) -> Sql<ActiveSession> {
    Ok(ActiveSession {
        session: row.get("session")?,
        run: row.get("run")?,
        stage: from_word(row, "stage")?,
        item: row.get("item")?,
        attempt: row.get("attempt")?,
        keeper_pid: row.get("keeper_pid")?,
        agent_pid: row.get("agent_pid")?,
        tier: row.get("tier")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        deadline_at: row.get::<_, Ms>("deadline_at")?.0,
        alive: keeper_is_alive(row)?,
    })
}

/// Is exactly the keeper on record alive, and not another process with its number?
fn keeper_is_alive(row: &Row<'_>) -> Sql<bool> {
    let on_record = row.get::<_, Option<String>>("boot_id")?.is_some();
    Ok(on_record && process::is_same(&ledger::keeper(row)?))
}

pub(super) fn session(row: &Row<'_>) -> Sql<SessionRow> {
    Ok(SessionRow {
        session: row.get("session")?,
        run: row.get("run")?,
        stage: from_word(row, "stage")?,
        item: row.get("item")?,
        attempt: row.get("attempt")?,
        tier: row.get("tier")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        ended_at: optional_time(row, "ended_at")?,
        alive: keeper_is_alive(row)?,
        outcome: from_optional_json(row, "outcome")?,
        usage: from_optional_json(row, "usage")?,
        survivors: row.get("survivors")?,
    })
}

fn item(row: &Row<'_>) -> Sql<ItemRow> {
    Ok(ItemRow {
        key: row.get("key")?,
        title: row.get("title")?,
        item_type: row.get("item_type")?,
        url: row.get("url")?,
        revision: row.get("revision")?,
        last_changed: row.get::<_, Ms>("last_changed")?.0,
        last_processed: optional_time(row, "last_processed")?,
        phase: from_word(row, "phase")?,
        reason: from_word(row, "reason")?,
        attempts: row.get("attempts")?,
        next_attempt: optional_time(row, "next_attempt")?,
        deferrals: row.get("deferrals")?,
        verdict: from_optional_json(row, "verdict")?,
    })
}

pub(super) fn finding(row: &Row<'_>) -> Sql<FindingRow> {
    Ok(FindingRow {
        key: row.get("key")?,
        title: row.get("title")?,
        url: row.get("url")?,
        revision: row.get("revision")?,
        session: row.get("session")?,
        run: row.get("run")?,
        created_at: row.get::<_, Ms>("created_at")?.0,
        finding: from_json(row, "finding")?,
    })
}

pub(super) fn recorded(row: &Row<'_>) -> Sql<Recorded> {
    Ok(Recorded {
        seq: row.get("seq")?,
        at: row.get::<_, Ms>("at")?.0,
        run: row.get("run")?,
        event: from_json(row, "body")?,
    })
}

fn optional_time(row: &Row<'_>, column: &str) -> Sql<Option<Timestamp>> {
    Ok(row.get::<_, Option<Ms>>(column)?.map(|ms| ms.0))
}
