//! Before the first run of the daemon: cleans up after an earlier process.

use super::Setting;
use super::error::CommandError;
use crate::event::{Event, Sink as _};
use crate::report::live;
use crate::store::{Journal, LockError, RunLock, STARTING, close_crashed_runs};

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

/// Ends orphaned sessions and crashed runs before the daemon is ready. If another process holds the
/// run lock, its run has done the same.
pub async fn recover_on_start(setting: &Setting, journal: &Journal) -> Result<(), CommandError> {
    let lock = match RunLock::acquire(&setting.state, STARTING, None, &setting.clock) {
        Ok(lock) => lock,
        Err(LockError::Held { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let sessions = setting.sessions(journal)?;
    if let Err(error) = crate::session::Sessions::resolve_orphans(&sessions).await {
        tracing::error!(%error, "could not resolve orphaned sessions");
    }
    journal.flush().await?;
    if let Some(view) = close_crashed_runs(journal.store(), &setting.clock).await? {
        let every = setting.config.timeouts.liveness;
        live::write_final(setting.clock.now(), &setting.state, every, &view).await;
    }
    drop(lock);
    Ok(())
}
