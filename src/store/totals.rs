//! Totals over the whole history, for monitoring.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use serde::Serialize;

use super::subjects::Reader;
use super::{Sql, Store, StoreError};
use crate::model::Usd;

/// Upper bounds of the buckets of session durations, in seconds.
pub const DURATION_BUCKETS: [u32; 8] = [5, 15, 30, 60, 120, 300, 600, 1800];

/// Totals over everything that ended on this state.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Totals {
    /// Sessions by stage and outcome.
    pub sessions: Vec<SessionTotal>,
    /// The agents' exit codes, with the number of sessions.
    pub exit_codes: Vec<(i32, u64)>,
    /// 95th percentile of the session duration, in milliseconds; `None` before the first end.
    pub duration_p95_ms: Option<u64>,
    /// Runs by outcome.
    pub runs: Vec<(String, u64)>,
    /// Findings by rating; `none` without a rating.
    pub feedback: Vec<(String, u64)>,
    /// Findings by their item's fix: confirmed, missed, too late, or not fixed yet.
    pub fixes: Vec<(String, u64)>,
    /// Scheduled times by decision.
    pub ticks: Vec<(String, u64)>,
    /// Scheduled times that passed while no scheduler ran.
    pub missed_ticks: u64,
    /// Sessions of an earlier heartbeat process that were resolved.
    pub orphans: u64,
    /// Processes that survived the end of their session; anything but 0 is an alarm.
    pub survivors: u64,
    /// Sessions that could not be killed and are still recorded as live.
    pub unkillable: Vec<String>,
}

/// Totals over the sessions of one stage and outcome.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SessionTotal {
    pub stage: String,
    pub outcome: String,
    /// Detail, such as who stopped them; may be empty.
    pub reason: String,
    pub count: u64,
    /// Total time from start to end, in milliseconds.
    pub duration_ms: u64,
    /// Number of sessions that took no longer than each of [`DURATION_BUCKETS`].
    pub within: [u64; DURATION_BUCKETS.len()],
    /// Uncached input tokens.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    pub cache_creation_tokens: u64,
    pub cost: Usd,
}

/// Facts that keep the totals of removed rows, so that a total never decreases.
pub(super) const FIRED: &str = "removed.ticks_fired";
pub(super) const SKIPPED: &str = "removed.ticks_skipped";
pub(super) const MISSED: &str = "removed.ticks_missed";
pub(super) const ORPHANS: &str = "removed.orphans";

/// Adds to such a total, in the transaction that removes the rows.
pub(super) fn add(transaction: &Transaction<'_>, name: &str, more: i64) -> Sql<()> {
    if more == 0 {
        return Ok(());
    }
    transaction
        .execute(
            "INSERT INTO facts (name, value) VALUES (?1, CAST(?2 AS TEXT))
             ON CONFLICT (name) DO UPDATE
             SET value = CAST(CAST(value AS INTEGER) + CAST(excluded.value AS INTEGER) AS TEXT)",
            params![name, more],
        )
        .map(drop)
}

fn removed(connection: &Connection, name: &str) -> Sql<u64> {
    let sql = "SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM facts WHERE name = ?1";
    connection.query_row(sql, [name], |row| sum(row, 0))
}

/// Scheduled times by decision, including removed rows.
fn ticks(connection: &Connection) -> Sql<Vec<(String, u64)>> {
    let mut found = Vec::new();
    for (decision, gone) in [("fired", FIRED), ("skipped", SKIPPED)] {
        let sql = "SELECT count(*) FROM ticks WHERE decision = ?1";
        let there = connection.query_row(sql, [decision], |row| sum(row, 0))?;
        let all = there + removed(connection, gone)?;
        if all > 0 {
            found.push((decision.to_owned(), all));
        }
    }
    Ok(found)
}

impl Store {
    pub async fn totals(&self) -> Result<Totals, StoreError> {
        self.read(|connection| {
            let count = |sql: &str| connection.query_row(sql, [], |row| sum(row, 0));
            let unkillable = "SELECT DISTINCT session FROM events
                              WHERE event = 'unkillable'
                                AND session IN (SELECT session FROM heartbeat_active_sessions)";
            Ok(Totals {
                sessions: session_totals(connection)?,
                exit_codes: exit_codes(connection)?,
                duration_p95_ms: duration_p95(connection)?,
                runs: pairs(
                    connection,
                    "SELECT outcome, count(*) FROM runs WHERE outcome IS NOT NULL GROUP BY 1",
                )?,
                feedback: pairs(
                    connection,
                    "SELECT coalesce(o.opinion, 'none'), count(*) FROM findings f
                     LEFT JOIN feedback o ON o.session = f.session GROUP BY 1",
                )?,
                fixes: pairs(
                    connection,
                    "SELECT CASE WHEN x.fixed_at IS NULL THEN 'not_fixed'
                         WHEN f.created_at / 1000 > x.fixed_at / 1000 THEN 'too_late'
                         WHEN x.hits > 0 THEN 'confirmed' ELSE 'missed' END, count(*)
                     FROM findings f LEFT JOIN fixes x ON x.session = f.session GROUP BY 1",
                )?,
                ticks: ticks(connection)?,
                missed_ticks: count("SELECT coalesce(sum(missed), 0) FROM ticks")?
                    + removed(connection, MISSED)?,
                orphans: count("SELECT count(*) FROM events WHERE event = 'orphan_resolved'")?
                    + removed(connection, ORPHANS)?,
                survivors: count("SELECT coalesce(sum(survivors), 0) FROM sessions")?,
                unkillable: connection
                    .prepare(unkillable)?
                    .query_map([], |row| row.get(0))?
                    .collect::<Sql<_>>()?,
            })
        })
        .await
    }
}

/// Ended sessions; a session whose row is still open counts as live.
const ENDED: &str = "outcome IS NOT NULL AND ended_at IS NOT NULL
    AND session NOT IN (SELECT session FROM heartbeat_active_sessions)";

fn exit_codes(connection: &Connection) -> Sql<Vec<(i32, u64)>> {
    let sql = format!(
        "SELECT CASE json_extract(outcome, '$.kind') WHEN 'completed' THEN 0
             ELSE json_extract(outcome, '$.code') END AS code, count(*)
         FROM sessions WHERE {ENDED} AND code IS NOT NULL GROUP BY 1 ORDER BY 1"
    );
    connection.prepare(&sql)?.query_map([], |row| Ok((row.get(0)?, sum(row, 1)?)))?.collect()
}

/// Nearest-rank percentile: the shortest duration that 95 of 100 sessions did not exceed.
fn duration_p95(connection: &Connection) -> Sql<Option<u64>> {
    let sql = format!(
        "SELECT max(ended_at - started_at, 0) AS took FROM sessions WHERE {ENDED} ORDER BY took
         LIMIT 1 OFFSET max((SELECT (count(*) * 95 + 99) / 100 - 1 FROM sessions WHERE {ENDED}), 0)"
    );
    connection.query_row(&sql, [], |row| sum(row, 0)).optional()
}

/// SQLite has no unsigned column; these sums are never negative.
fn sum(row: &Row<'_>, index: usize) -> Sql<u64> {
    Ok(u64::try_from(row.get::<_, i64>(index)?).unwrap_or(0))
}

fn pairs(connection: &Connection, sql: &str) -> Sql<Vec<(String, u64)>> {
    connection.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, sum(row, 1)?)))?.collect()
}

fn session_totals(connection: &Connection) -> Sql<Vec<SessionTotal>> {
    let within: String = DURATION_BUCKETS
        .iter()
        .map(|bound| format!(", sum(ended_at - started_at <= {})", u64::from(*bound) * 1000))
        .collect();
    let usage = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens"]
        .map(|name| format!(", coalesce(sum(json_extract(usage, '$.{name}')), 0)"))
        .concat();
    let sql = format!(
        "SELECT s.stage, json_extract(outcome, '$.kind'), coalesce(json_extract(outcome, '$.why'), ''),
                count(*), sum(max(ended_at - started_at, 0)), coalesce(sum(b.spent), 0){usage}{within}
         FROM sessions s LEFT JOIN budget b USING (session)
         WHERE {ENDED} GROUP BY 1, 2, 3"
    );
    connection
        .prepare(&sql)?
        .query_map([], |row| {
            let mut within = [0; DURATION_BUCKETS.len()];
            for (index, count) in within.iter_mut().enumerate() {
                *count = sum(row, 10 + index)?;
            }
            Ok(SessionTotal {
                stage: row.get(0)?,
                outcome: row.get(1)?,
                reason: row.get(2)?,
                count: sum(row, 3)?,
                duration_ms: sum(row, 4)?,
                cost: row.get(5)?,
                input_tokens: sum(row, 6)?,
                output_tokens: sum(row, 7)?,
                cache_read_tokens: sum(row, 8)?,
                cache_creation_tokens: sum(row, 9)?,
                within,
            })
        })?
        .collect()
}
