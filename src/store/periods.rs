//! What a report and a check of the service ask for: one run or a stretch of time.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::rows::Ms;
use super::runs::run_row;
use super::views::{FINDINGS, SESSIONS, finding, session};
use super::{FindingRow, RunRow, SessionRow, Store, StoreError};
use crate::model::RunId;

impl Store {
    /// One run, by the beginning of its id; none if there is no such run or there are several.
    pub async fn run_like(&self, beginning: String) -> Result<Option<RunRow>, StoreError> {
        self.read(move |connection| {
            let mut found: Vec<RunRow> = connection
                .prepare("SELECT * FROM runs WHERE substr(run, 1, length(?1)) = ?1 LIMIT 2")?
                .query_map([beginning], run_row)?
                .collect::<Result<_, _>>()?;
            Ok(if found.len() == 1 { found.pop() } else { None })
        })
        .await
    }

    /// Runs that began in `[from, to)`, oldest first.
    pub async fn runs_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(
                    "SELECT * FROM runs WHERE started_at >= ?1 AND started_at < ?2
                     ORDER BY started_at, run",
                )?
                .query_map(params![Ms(from), Ms(to)], run_row)?
                .collect()
        })
        .await
    }

    /// Runs that were never ended. Whoever holds the run lock knows them for crashed.
    pub async fn unfinished_runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.read(|connection| {
            connection
                .prepare(
                    "SELECT run FROM runs WHERE ended_at IS NULL OR outcome = 'crashed'
                          ORDER BY started_at DESC LIMIT 10",
                )?
                .query_map([], |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Findings stored in `[from, to)`, in their order.
    pub async fn findings_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<FindingRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(&format!(
                    "{FINDINGS} WHERE f.created_at >= ?1 AND f.created_at < ?2 ORDER BY f.id"
                ))?
                .query_map(params![Ms(from), Ms(to)], finding)?
                .collect()
        })
        .await
    }

    /// Sessions that began in `[from, to)`, oldest first.
    pub async fn sessions_between(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<SessionRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(&format!(
                    "{SESSIONS} WHERE s.started_at >= ?1 AND s.started_at < ?2
                     ORDER BY s.started_at, s.session"
                ))?
                .query_map(params![Ms(from), Ms(to)], session)?
                .collect()
        })
        .await
    }

    /// Sessions of one run, oldest first.
    pub async fn sessions_in(&self, run: RunId) -> Result<Vec<SessionRow>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(&format!("{SESSIONS} WHERE s.run = ?1 ORDER BY s.started_at, s.session"))?
                .query_map([run], session)?
                .collect()
        })
        .await
    }

    /// Ids of the live sessions that begin with this text.
    pub async fn live_like(
        &self,
        beginning: String,
    ) -> Result<Vec<crate::model::SessionId>, StoreError> {
        self.read(move |connection| {
            connection
                .prepare(
                    "SELECT session FROM heartbeat_active_sessions
                     WHERE substr(session, 1, length(?1)) = ?1 ORDER BY started_at",
                )?
                .query_map([beginning], |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Shows that the state can be written right now, without writing anything.
    pub async fn prove_alive(&self) -> Result<(), StoreError> {
        let store = self.clone();
        let proof = move || {
            store.transact_here(|transaction| {
                transaction.query_row("SELECT 1", [], |_| Ok(())).optional().map(drop)
            })
        };
        tokio::task::spawn_blocking(proof).await.map_err(|e| StoreError::Worker(e.to_string()))?
    }
}
