//! `heartbeat_active_sessions`: the durable rows of live sessions.

use std::path::PathBuf;

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use super::rows::{Ms, from_optional_json, from_word, to_json};
use super::subjects::Reader;
use super::{Journal, Sql, budget, hosted};
use crate::model::{
    BoxFuture, Outcome, ProcessIdentity, SessionEnd, SessionId, SessionRef, SessionTranscript,
    Usage, Usd,
};
use crate::ports::{Ledger, LedgerError, LedgerRow};

impl Ledger for Journal {
    fn register(&self, row: LedgerRow, max_live: u32) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let registered = self.commit(move |transaction, _| {
                let live: u32 = transaction.query_row(
                    "SELECT count(*) FROM heartbeat_active_sessions WHERE session != ?1",
                    [row.session.id],
                    |row| row.get(0),
                )?;
                if live >= max_live {
                    return Ok(Err(LedgerError::Full { live, max: max_live }));
                }
                insert_active(transaction, &row)?;
                Ok(Ok(()))
            });
            registered.await.map_err(LedgerError::store)?
        })
    }

    fn spawned(&self, session: SessionId, pid: u32) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.commit(move |transaction, _| {
                transaction.execute(
                    "UPDATE heartbeat_active_sessions SET agent_pid = ?2 WHERE session = ?1",
                    params![session, pid],
                )?;
                Ok(())
            })
            .await
            .map_err(LedgerError::store)
        })
    }

    fn said(
        &self,
        session: SessionId,
        transcript: SessionTranscript,
    ) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let kept = self.sessions().keep_transcript(session, transcript).await;
            kept.map_err(LedgerError::store)
        })
    }

    fn used(&self, session: SessionId, usage: Usage) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.commit(move |transaction, _| {
                transaction.execute(
                    "UPDATE heartbeat_active_sessions SET used = ?2 WHERE session = ?1",
                    params![session, to_json(&usage)?],
                )?;
                Ok(())
            })
            .await
            .map_err(LedgerError::store)
        })
    }

    fn close(&self, session: SessionId, end: SessionEnd) -> BoxFuture<'_, Result<(), LedgerError>> {
        let now = Ms(self.clock().now());
        Box::pin(async move {
            self.commit(move |transaction, _| {
                let mut end = SessionEnd { usage: end.usage.bounded(), ..end };
                if end.outcome == Outcome::Orphaned && end.usage == Usage::default() {
                    end.usage = used_before(transaction, session)?;
                }
                transaction.execute(
                    "DELETE FROM heartbeat_active_sessions WHERE session = ?1",
                    [session],
                )?;
                let output = end.output.as_ref().map(ToString::to_string);
                transaction.execute(
                    "UPDATE sessions SET ended_at = max(?2, started_at), outcome = ?3, output = ?4, usage = ?5,
                         survivors = ?6 WHERE session = ?1 AND ended_at IS NULL",
                    params![
                        session,
                        now,
                        to_json(&end.outcome)?,
                        output,
                        to_json(&end.usage)?,
                        end.survivors
                    ],
                )?;
                hosted::keep_end(transaction, session, &end)?;
                settle(transaction, session, &end.outcome, &end.usage)
            })
            .await
            .map_err(LedgerError::store)?;
            self.keep_spent().await;
            Ok(())
        })
    }

    fn placed(&self, session: SessionId, host: String) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.commit(move |transaction, _| {
                for table in ["heartbeat_active_sessions", "sessions"] {
                    transaction.execute(
                        &format!("UPDATE {table} SET host = ?2 WHERE session = ?1"),
                        params![session, host],
                    )?;
                }
                Ok(())
            })
            .await
            .map_err(LedgerError::store)
        })
    }

    fn withdraw(&self, session: SessionId) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            self.commit(move |transaction, _| {
                transaction.execute(
                    "DELETE FROM heartbeat_active_sessions WHERE session = ?1",
                    [session],
                )?;
                Ok(())
            })
            .await
            .map_err(LedgerError::store)
        })
    }

    fn open_rows(&self) -> BoxFuture<'_, Result<Vec<LedgerRow>, LedgerError>> {
        Box::pin(async move {
            self.store()
                .read(|connection| {
                    connection
                        .prepare("SELECT * FROM heartbeat_active_sessions ORDER BY started_at")?
                        .query_map([], ledger_row)?
                        .collect()
                })
                .await
                .map_err(LedgerError::store)
        })
    }
}

fn insert_active(transaction: &Transaction<'_>, row: &LedgerRow) -> Sql<()> {
    transaction.execute(
        "INSERT OR REPLACE INTO heartbeat_active_sessions
             (session, run, stage, item, attempt, keeper_pid, keeper_start_time,
              keeper_pidfd_inode, boot_id, tier, cgroup, scratch, started_at, deadline_at, host)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![
            row.session.id,
            row.session.run,
            row.session.stage.into_str(),
            row.session.item,
            row.session.attempt,
            row.keeper.pid,
            bits(row.keeper.start_time),
            row.keeper.pidfd_inode.map(bits),
            row.keeper.boot_id,
            row.tier,
            row.cgroup.as_ref().map(|path| path.to_string_lossy().into_owned()),
            row.scratch.to_string_lossy(),
            Ms(row.started_at),
            Ms(row.deadline_at),
            row.host,
        ],
    )?;
    transaction
        .execute(
            "UPDATE sessions SET tier = ?2, keeper_pid = ?3, started_at = ?4, host = ?5,
                 in_force = ?6
             WHERE session = ?1",
            params![
                row.session.id,
                row.tier,
                row.keeper.pid,
                Ms(row.started_at),
                row.host,
                row.in_force
            ],
        )
        .map(drop)
}

fn ledger_row(row: &Row<'_>) -> Sql<LedgerRow> {
    Ok(LedgerRow {
        session: session_ref(row)?,
        keeper: keeper(row)?,
        tier: row.get("tier")?,
        cgroup: row.get::<_, Option<String>>("cgroup")?.map(PathBuf::from),
        scratch: PathBuf::from(row.get::<_, String>("scratch")?),
        started_at: row.get::<_, Ms>("started_at")?.0,
        deadline_at: row.get::<_, Ms>("deadline_at")?.0,
        host: row.get("host")?,
        in_force: None,
    })
}

/// The session of a row of `heartbeat_active_sessions` or `sessions`.
pub(super) fn session_ref(row: &Row<'_>) -> Sql<SessionRef> {
    Ok(SessionRef {
        id: row.get("session")?,
        run: row.get("run")?,
        stage: from_word(row, "stage")?,
        item: row.get("item")?,
        attempt: row.get("attempt")?,
    })
}

/// Identity of a row's keeper.
pub(super) fn keeper(row: &Row<'_>) -> Sql<ProcessIdentity> {
    Ok(ProcessIdentity {
        pid: row.get("keeper_pid")?,
        start_time: unbits(row.get("keeper_start_time")?),
        pidfd_inode: row.get::<_, Option<i64>>("keeper_pidfd_inode")?.map(unbits),
        boot_id: row.get("boot_id")?,
    })
}

/// SQLite has no unsigned 64-bit column; only the bits are compared.
const fn bits(value: u64) -> i64 {
    value.cast_signed()
}

const fn unbits(value: i64) -> u64 {
    value.cast_unsigned()
}

/// What a session that was cut off had used, as far as its row says. One whose agent never started
/// has used nothing.
pub(super) fn used_before(transaction: &Transaction<'_>, session: SessionId) -> Sql<Usage> {
    let row = |row: &Row<'_>| {
        let used: Option<Usage> = from_optional_json(row, "used")?;
        let (pid, host): (Option<u32>, Option<String>) = (row.get("agent_pid")?, row.get("host")?);
        let nothing = Usage { cost: Some(Usd::ZERO), ..Usage::default() };
        Ok(used.or((pid.is_none() && host.is_none()).then_some(nothing)).unwrap_or_default())
    };
    let sql = "SELECT used, agent_pid, host FROM heartbeat_active_sessions WHERE session = ?1";
    Ok(transaction.query_row(sql, [session], row).optional()?.unwrap_or_default())
}

/// Books the reported cost, zero included, or the estimate. A session of unknown cost is booked
/// with its worst case.
pub(super) fn settle(
    transaction: &Transaction<'_>,
    session: SessionId,
    outcome: &Outcome,
    usage: &Usage,
) -> Sql<()> {
    if outcome.counts_at_worst(usage) {
        budget::settle_at_worst(transaction, session)
    } else {
        let cost = usage.cost.unwrap_or_default();
        budget::settle(transaction, session, cost, usage.estimated)
    }
}
