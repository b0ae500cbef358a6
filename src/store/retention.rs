//! Retention: findings, attempts and items are kept forever; events, transcripts, scheduled times
//! and files of runs by age and number. Counters over removed rows are added to a total first. Runs
//! between runs, in small transactions, without `VACUUM`: freed pages are reused.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::journal::run_folder;
use super::rows::Ms;
use super::{Sql, Store, StoreError, totals, transcripts};
use crate::model::RunId;

/// The newest runs are kept whatever the clock says: a clock that jumped a year ahead must not
/// empty the history.
const NEWEST_RUNS: u32 = 50;
/// Most events kept.
const MAX_EVENTS: i64 = 500_000;
/// Most scheduled times kept; a schedule in seconds has 31 million a year.
const MAX_TICKS: u32 = 100_000;
/// Rows per transaction, so that others do not wait long.
const BATCH: u32 = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    pub events: u64,
    pub ticks: u64,
    /// Outputs of sessions that are part of findings by now.
    pub outputs: u64,
    pub transcripts: u64,
    pub folders: u64,
}

impl Store {
    /// Removes rows older than `keep`, and the oldest ones above a limit. Call it with the run
    /// lock, after the run.
    pub async fn prune(&self, now: Timestamp, keep: Duration) -> Result<Pruned, StoreError> {
        let keep = SignedDuration::try_from(keep).unwrap_or(SignedDuration::MAX);
        let Ok(before) = now.checked_sub(keep) else { return Ok(Pruned::default()) };
        let store = self.clone();
        let pruned = tokio::task::spawn_blocking(move || store.prune_here(before));
        pruned.await?
    }

    fn prune_here(&self, before: Timestamp) -> Result<Pruned, StoreError> {
        let mut pruned = Pruned::default();
        let bound = self.read_here(|connection| last_to_remove(connection, before))?;
        if let Some(bound) = bound {
            loop {
                let removed =
                    self.transact_here(|transaction| remove_events(transaction, bound))?;
                pruned.events += removed as u64;
                if removed == 0 {
                    break;
                }
            }
        }
        let bound = self.read_here(|connection| oldest_tick_to_keep(connection, before))?;
        loop {
            let removed = self.transact_here(|transaction| remove_ticks(transaction, bound))?;
            pruned.ticks += removed as u64;
            if removed == 0 {
                break;
            }
        }
        let removed =
            self.transact_here(|transaction| transcripts::prune(transaction, Ms(before)))?;
        pruned.transcripts = removed as u64;
        let old = self.read_here(|connection| old_runs(connection, before))?;
        for run in &old {
            let folder = run_folder(self.folder(), *run);
            pruned.folders += u64::from(std::fs::remove_dir_all(folder).is_ok());
        }
        if old.is_empty() {
            return Ok(pruned);
        }
        let outputs = self.transact_here(|transaction| {
            transaction.execute(
                "DELETE FROM outbox WHERE state = 'delivered' AND ended_at < ?1",
                [Ms(before)],
            )?;
            transaction.execute(
                "UPDATE sessions SET output = NULL, whole_end = NULL
                 WHERE applied = 1 AND (output IS NOT NULL OR whole_end IS NOT NULL)
                   AND ended_at < ?1",
                [Ms(before)],
            )
        })?;
        Ok(Pruned { outputs: outputs as u64, ..pruned })
    }
}

/// Removes a batch of events up to number `bound`, in order; returns how many.
fn remove_events(transaction: &Transaction<'_>, bound: i64) -> Sql<usize> {
    let some = "SELECT seq FROM events WHERE seq <= ?1 ORDER BY seq LIMIT ?2";
    let orphans = transaction.query_row(
        &format!("SELECT count(*) FROM events WHERE event = 'orphan_resolved' AND seq IN ({some})"),
        params![bound, BATCH],
        |row| row.get(0),
    )?;
    totals::add(transaction, totals::ORPHANS, orphans)?;
    transaction.execute(&format!("DELETE FROM events WHERE seq IN ({some})"), params![bound, BATCH])
}

/// Scheduled times before this one may be removed.
fn oldest_tick_to_keep(connection: &Connection, before: Timestamp) -> Sql<Ms> {
    let too_many: Option<Ms> = connection
        .query_row(
            "SELECT nominal FROM ticks ORDER BY nominal DESC LIMIT 1 OFFSET ?1",
            [MAX_TICKS - 1],
            |row| row.get(0),
        )
        .optional()?;
    Ok(Ms(too_many.map_or(before, |too_many| too_many.0.max(before))))
}

/// Removes a batch of scheduled times before `bound`, except the newest of a schedule; returns how
/// many.
fn remove_ticks(transaction: &Transaction<'_>, bound: Ms) -> Sql<usize> {
    let some = "SELECT schedule, nominal FROM ticks t
                WHERE nominal < ?1
                  AND nominal < (SELECT max(nominal) FROM ticks WHERE schedule = t.schedule)
                ORDER BY schedule, nominal LIMIT ?2";
    let sums = format!(
        "SELECT coalesce(sum(decision = 'fired'), 0), coalesce(sum(decision = 'skipped'), 0),
                coalesce(sum(missed), 0)
         FROM ticks WHERE (schedule, nominal) IN ({some})"
    );
    let (fired, skipped, missed) = transaction.query_row(&sums, params![bound, BATCH], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    totals::add(transaction, totals::FIRED, fired)?;
    totals::add(transaction, totals::SKIPPED, skipped)?;
    totals::add(transaction, totals::MISSED, missed)?;
    let delete = format!("DELETE FROM ticks WHERE (schedule, nominal) IN ({some})");
    transaction.execute(&delete, params![bound, BATCH])
}

/// The newest event that may be removed; `None` if there is none.
fn last_to_remove(connection: &Connection, before: Timestamp) -> Sql<Option<i64>> {
    let newest: Option<i64> =
        connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0))?;
    let Some(newest) = newest else { return Ok(None) };
    // The log is in order, so the first event to keep ends the search.
    let first_young: Option<i64> = connection.query_row(
        "SELECT min(seq) FROM events WHERE at >= ?1 OR run IN
             (SELECT run FROM runs ORDER BY started_at DESC LIMIT ?2)",
        params![Ms(before), NEWEST_RUNS],
        |row| row.get(0),
    )?;
    let by_age = first_young.unwrap_or(newest + 1) - 1;
    let last = by_age.max(newest - MAX_EVENTS);
    let oldest: Option<i64> =
        connection.query_row("SELECT min(seq) FROM events", [], |row| row.get(0))?;
    Ok(Some(last).filter(|last| oldest.is_some_and(|oldest| oldest <= *last)))
}

fn old_runs(connection: &Connection, before: Timestamp) -> Sql<Vec<RunId>> {
    connection
        .prepare(
            "SELECT run FROM (SELECT run, started_at FROM runs ORDER BY started_at DESC
             LIMIT -1 OFFSET ?2) WHERE started_at < ?1",
        )?
        .query_map(params![Ms(before), NEWEST_RUNS], |row| row.get(0))?
        .collect()
}
