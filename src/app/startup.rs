//! Before the first run of a process: what an earlier process left is cleared.

use super::Setting;
use super::error::CommandError;
use crate::clock::Clock;
use crate::event::fold::RunView;
use crate::event::{Event, Sink as _};
use crate::report::live;
use crate::store::{Journal, Store, catch_up, close_crashed};

/// Ends crashed runs in the log and completes their event files; returns the last view of the
/// newest. The caller holds the run lock, so no run is in progress. A file that cannot be completed
/// is logged and ignored.
pub async fn close_crashed_runs(
    store: &Store,
    clock: &Clock,
) -> Result<Option<RunView>, CommandError> {
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

/// Configuration errors of an earlier process no longer apply: this one started.
pub async fn forget_config_faults(journal: &Journal) -> Result<(), CommandError> {
    if journal.store().events().last_config_fault().await?.is_some() {
        journal.emit(Event::ConfigReloaded);
    }
    if !journal.store().events().keys_waiting_for_restart().await?.is_empty() {
        journal.emit(Event::RestartNeeded { keys: Vec::new() });
    }
    Ok(journal.flush().await?)
}

/// Before the daemon is ready: ends orphaned sessions and crashed runs. If another process holds the
/// run lock, its run has done the same.
pub async fn recover_on_start(setting: &Setting, journal: &Journal) -> Result<(), CommandError> {
    let lock = match setting.take_lock("start", None) {
        Ok(lock) => lock,
        Err(crate::store::LockError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let sessions = setting.sessions(journal)?;
    if let Err(error) = crate::session::Sessions::resolve_orphans(&sessions).await {
        tracing::error!(%error, "could not resolve orphaned sessions");
    }
    journal.flush().await?;
    if let Some(view) = close_crashed_runs(journal.store(), &setting.clock).await? {
        let every = setting.config.timeouts.liveness;
        live::leave(setting.clock.now(), &setting.state, every, &view).await;
    }
    drop(lock);
    Ok(())
}
