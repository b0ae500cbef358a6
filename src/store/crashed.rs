//! Closes runs that crashed, at the next start.

use rusqlite::params;

use super::ndjson::catch_up;
use super::rows::{Ms, to_json};
use super::{Journal, Store, StoreError};
use crate::clock::Clock;
use crate::event::fold::RunView;
use crate::event::{Event, RunOutcome};
use crate::model::RunId;

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
    let (outcome, summary) = (RunOutcome::Crashed, view.figures());
    let duration_ms = u64::try_from(last.duration_since(started).as_millis()).unwrap_or(0);
    // Its file is completed afterwards, as for any run that ended badly.
    let journal = Journal::without_file(store.clone(), clock.clone(), run);
    journal
        .commit(move |transaction, events| {
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
