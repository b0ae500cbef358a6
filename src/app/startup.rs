//! Before the first run of a life: what an earlier one left is put right.

use super::Setting;
use super::error::CommandError;
use crate::store::{Journal, Store, catch_up};

/// Completes the event files of crashed runs. The caller holds the run lock, so that no run is
/// going on. A file that cannot be completed is told and stands in nobody's way.
pub async fn complete_event_files(store: &Store) -> Result<(), CommandError> {
    for run in store.unfinished_runs().await? {
        match catch_up(store, run).await {
            Ok(0) => {}
            Ok(added) => tracing::info!(run_id = %run, added, "events.ndjson was completed"),
            Err(error) => tracing::warn!(run_id = %run, %error, "events.ndjson stays incomplete"),
        }
    }
    Ok(())
}

/// What a service does before it says that it is ready: ends orphans and completes files. Somebody
/// else's run in the way is no reason to wait; that run has done the same.
pub async fn settle_the_past(setting: &Setting, journal: &Journal) -> Result<(), CommandError> {
    let lock = match super::once::take_lock(setting, "start") {
        Ok(lock) => lock,
        Err(CommandError::Lock(crate::store::LockError::Held { .. })) => return Ok(()),
        Err(error) => return Err(error),
    };
    let sessions = setting.sessions(journal)?;
    if let Err(error) = crate::run::Sessions::resolve_orphans(&sessions).await {
        tracing::error!(%error, "orphaned sessions could not be resolved");
    }
    journal.flush().await?;
    complete_event_files(journal.store()).await?;
    drop(lock);
    Ok(())
}
