//! Runs: begun, ended, and closed at the next start if they crashed.

use jiff::Timestamp;
use rusqlite::{Connection, Params, Row, params};
use serde::Serialize;

use super::ndjson::catch_up;
use super::rows::{Ms, from_optional_json, from_optional_word, from_word, to_json};
use super::subjects::{Reader, Runs};
use super::{Journal, Sql, Store, StoreError, budget, claims, outbox};
use crate::clock::Clock;
use crate::event::fold::RunView;
use crate::event::{Event, RunOutcome, RunSummary, Trigger};
use crate::model::RunId;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    pub run: RunId,
    pub trigger: Trigger,
    pub started_at: Timestamp,
    /// `None` while it is in progress.
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<RunOutcome>,
    pub summary: Option<RunSummary>,
}

/// Whether the end of a run is announced by the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    Queued,
    None,
}

impl Runs<'_, Journal> {
    /// Begins a run. The caller holds the run lock, so any unfinished run has crashed and is closed
    /// as such.
    pub async fn begin(
        self,
        run: RunId,
        trigger: Trigger,
        max_live_sessions: u32,
    ) -> Result<(), StoreError> {
        let now = Ms(self.0.clock().now());
        self.0
            .commit(move |transaction, events| {
                transaction.execute(
                    "UPDATE runs SET ended_at = ?1, outcome = 'crashed' WHERE ended_at IS NULL",
                    [now],
                )?;
                transaction.execute(
                    "INSERT INTO runs (run, trigger, started_at) VALUES (?1, ?2, ?3)",
                    params![run, trigger.into_str(), now],
                )?;
                events.push(Event::RunStarted { trigger, max_live_sessions });
                Ok(())
            })
            .await
    }

    pub async fn end(
        self,
        run: RunId,
        outcome: RunOutcome,
        summary: RunSummary,
        digest: Digest,
    ) -> Result<RunSummary, StoreError> {
        let now = self.0.clock().now();
        let ended = self
            .0
            .commit(move |transaction, events| {
                let summary = with_money(transaction, run, with_queue(transaction, summary)?)?;
                // A clock that was set back makes no negative time.
                let started: Ms = transaction.query_row(
                    "UPDATE runs SET ended_at = max(?2, started_at), outcome = ?3, summary = ?4
                 WHERE run = ?1 RETURNING started_at",
                    params![run, Ms(now), outcome.into_str(), to_json(&summary)?],
                    |row| row.get(0),
                )?;
                // Items that are still queued were not reached by this run. All of them age alike,
                // so later arrivals cannot overtake them.
                transaction.execute(
                    "UPDATE heartbeat_state SET deferrals = deferrals + 1 WHERE phase = 'pending'",
                    [],
                )?;
                let duration = now.duration_since(started.0).as_millis();
                let duration_ms = u64::try_from(duration).unwrap_or(0);
                if digest == Digest::Queued {
                    outbox::queue_digest(transaction, run, now)?;
                }
                events.push(Event::RunEnded { outcome, summary, duration_ms });
                Ok(summary)
            })
            .await?;
        self.0.keep_spent().await;
        self.0.keep_finished().await;
        Ok(ended)
    }
}

impl<R: Reader> Runs<'_, R> {
    pub async fn newest(self, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        // In the order in which they began, whatever the clock said.
        self.found("SELECT * FROM runs ORDER BY rowid DESC LIMIT ?1", [limit]).await
    }

    /// The newest run that judged or analysed an item.
    pub async fn last_useful(self) -> Result<Option<RunRow>, StoreError> {
        // Ids grow with time, so the newest match is found without sorting.
        let sql = "SELECT * FROM runs WHERE json_extract(summary, '$.triaged') > 0
                       OR json_extract(summary, '$.analysed') > 0 ORDER BY run DESC LIMIT 1";
        Ok(self.found(sql, []).await?.pop())
    }

    /// Rows of runs, with the money of the ledger.
    async fn found(
        self,
        sql: &'static str,
        values: impl Params + Send + 'static,
    ) -> Result<Vec<RunRow>, StoreError> {
        self.read(move |connection| {
            let mut found: Vec<RunRow> =
                connection.prepare_cached(sql)?.query_map(values, run_row)?.collect::<Sql<_>>()?;
            for row in &mut found {
                // A crashed run has no summary until a start closes it, but its sessions cost money.
                let known = row.summary.or(row.ended_at.map(|_| RunSummary::default()));
                let Some(known) = known else { continue };
                let with_money = with_money(connection, row.run, known)?;
                if row.summary.is_some() || with_money != known {
                    row.summary = Some(with_money);
                }
            }
            Ok(found)
        })
        .await
    }

    /// The run in progress, if there is one.
    pub async fn current(self) -> Result<Option<RunRow>, StoreError> {
        Ok(self.found("SELECT * FROM runs WHERE ended_at IS NULL LIMIT 1", []).await?.pop())
    }

    /// The session limit that a run started with.
    pub async fn session_limit(self, run: RunId) -> Result<Option<u32>, StoreError> {
        let sql = "SELECT json_extract(body, '$.max_live_sessions') FROM events
                   WHERE run = ?1 AND event = 'run_started' LIMIT 1";
        self.first_row(sql, [run], |row| row.get(0)).await
    }

    /// One run by a prefix of its id; `None` if no run or several match.
    pub async fn with_prefix(self, beginning: String) -> Result<Option<RunRow>, StoreError> {
        let sql = "SELECT * FROM runs WHERE substr(run, 1, length(?1)) = ?1 LIMIT 2";
        let mut found = self.found(sql, [beginning]).await?;
        Ok(if found.len() == 1 { found.pop() } else { None })
    }

    /// Runs that began in `[from, to)`, oldest first.
    pub async fn between(self, from: Timestamp, to: Timestamp) -> Result<Vec<RunRow>, StoreError> {
        let sql = "SELECT * FROM runs WHERE started_at >= ?1 AND started_at < ?2
                   ORDER BY started_at, run";
        self.found(sql, (Ms(from), Ms(to))).await
    }

    /// Runs that were never ended. To the holder of the run lock they are crashed runs.
    pub async fn unfinished(self) -> Result<Vec<RunId>, StoreError> {
        let sql = "SELECT run FROM runs WHERE ended_at IS NULL OR outcome = 'crashed'
                   ORDER BY started_at DESC LIMIT 10";
        self.rows(sql, [], |row| row.get(0)).await
    }
}

/// The summary with the money and the sessions of the ledger, which also has what was settled after
/// the run, such as a session that a crash had cut off.
fn with_money(connection: &Connection, run: RunId, summary: RunSummary) -> Sql<RunSummary> {
    let money = budget::in_run(connection, run)?;
    // A run of a state from before there was a ledger keeps its own figures.
    if money.sessions == 0 {
        return Ok(summary);
    }
    Ok(RunSummary {
        sessions: money.sessions.into(),
        cost: money.billed,
        cost_estimated: money.estimated,
        cost_at_worst: money.assumed,
        ..summary
    })
}

/// The summary with what is left in the queue, whichever run put it there.
fn with_queue(connection: &Connection, summary: RunSummary) -> Sql<RunSummary> {
    let left = |phase: &str| {
        let sql = "SELECT count(*) FROM heartbeat_state WHERE phase = ?1";
        connection.query_row(sql, [phase], |row| row.get::<_, u32>(0)).map(u64::from)
    };
    let (deferred, waiting, parked) = (left("pending")?, left("waiting")?, left("parked")?);
    Ok(RunSummary { deferred, waiting, parked, ..summary })
}

fn run_row(row: &Row<'_>) -> Sql<RunRow> {
    Ok(RunRow {
        run: row.get("run")?,
        trigger: from_word(row, "trigger")?,
        started_at: row.get::<_, Ms>("started_at")?.0,
        ended_at: row.get::<_, Option<Ms>>("ended_at")?.map(|ms| ms.0),
        outcome: from_optional_word(row, "outcome")?,
        summary: from_optional_json(row, "summary")?,
    })
}

/// Ends crashed runs in the log and completes their event files; returns the last view of the
/// newest. The caller holds the run lock, so no run is in progress. A file that cannot be completed
/// is logged and ignored.
pub async fn close_crashed_runs(
    store: &Store,
    clock: &Clock,
) -> Result<Option<RunView>, StoreError> {
    let mut newest = None;
    for run in store.runs().unfinished().await? {
        if let Some(view) = close_crashed(store, clock, run).await? {
            tracing::warn!(run_id = %run, "previous run crashed");
            newest = newest.or(Some(view));
        }
        match catch_up(store, run).await {
            Ok(0) => {}
            Ok(added) => tracing::info!(run_id = %run, added, "completed events.ndjson"),
            Err(error) => tracing::warn!(run_id = %run, %error, "could not complete events.ndjson"),
        }
    }
    Ok(newest)
}

/// Ends `run` as crashed, at the time of its last event, with the figures of its log. Returns its
/// last view; `None` if it has already ended.
async fn close_crashed(
    store: &Store,
    clock: &Clock,
    run: RunId,
) -> Result<Option<RunView>, StoreError> {
    let events = store.events().in_run(run).await?;
    let mut view = RunView::default();
    for recorded in &events {
        view.apply(recorded);
    }
    // A run without events has nothing to report.
    let (Some(started), Some(last), None) = (view.started_at, view.at, view.outcome) else {
        return Ok(None);
    };
    let (outcome, figures) = (RunOutcome::Crashed, view.figures());
    let duration_ms = u64::try_from(last.duration_since(started).as_millis()).unwrap_or(0);
    // Its file is completed afterwards, as for any run that ended badly.
    let journal = Journal::without_file(store.clone(), clock.clone(), run);
    journal
        .commit(move |transaction, events| {
            // A claim that never became a session is none of its sessions.
            claims::give_back_unstarted(transaction)?;
            let summary = with_money(transaction, run, with_queue(transaction, figures)?)?;
            transaction.execute(
                "UPDATE runs SET ended_at = coalesce(ended_at, ?2), outcome = 'crashed', summary = ?3
                 WHERE run = ?1",
                params![run, Ms(last), to_json(&summary)?],
            )?;
            events.push(Event::RunEnded { outcome, summary, duration_ms });
            Ok(())
        })
        .await?;
    let closed = store.events().in_run(run).await?;
    closed.iter().skip(events.len()).for_each(|recorded| view.apply(recorded));
    Ok(Some(view))
}
