//! The run in progress of a daemon.

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::error::CommandError;
use super::signals::SignalRequest;
use super::watchers::Watchers;
use super::{Setting, Signals, aftermath, once, startup};
use crate::event::Trigger;
use crate::model::RunId;
use crate::report::terminal::Progress;
use crate::run::{self, RunEnd};
use crate::session::{StopHandle, StopReason};
use crate::store::{Journal, RunLock, Store};

/// A run in a task of its own, so that the daemon's loop never waits for it.
pub(super) struct Running {
    pub(super) id: RunId,
    stop: StopHandle,
    task: JoinHandle<Result<RunEnd, CommandError>>,
}

impl Running {
    /// Starts the run. Its report and webhook are tasks of `reports`, so the next run does not wait
    /// for them.
    pub(super) fn start(
        setting: &Setting,
        id: RunId,
        trigger: Trigger,
        lock: RunLock,
        progress: Progress,
        reports: &TaskTracker,
    ) -> Self {
        let stop = StopHandle::new();
        let (setting, handle, reports) = (setting.clone(), stop.clone(), reports.clone());
        let task = tokio::spawn(async move {
            let ended = perform(&setting, lock, id, trigger, handle, progress).await;
            if ended.is_ok() {
                reports.spawn(async move {
                    match Store::open(&setting.state) {
                        Ok(store) => aftermath::after_run(&setting, &store, id).await,
                        Err(error) => tracing::error!(%error, "could not build the report"),
                    }
                });
            }
            ended
        });
        Self { id, stop, task }
    }

    /// Ends the run with its sessions and waits for it; a second signal leaves out the grace.
    pub(super) async fn stop(mut self, signals: &mut Signals) {
        self.stop.stop(StopReason::Shutdown);
        loop {
            tokio::select! {
                ended = &mut self.task => return log_end(ended),
                request = signals.next() => if request == SignalRequest::Stop {
                    self.stop.stop_now(StopReason::Shutdown);
                },
            }
        }
    }
}

/// Waits for the end of the run and logs it; for ever if there is no run.
pub(super) async fn ended(running: &mut Option<Running>) {
    match running {
        Some(running) => log_end((&mut running.task).await),
        None => std::future::pending().await,
    }
}

async fn perform(
    setting: &Setting,
    mut lock: RunLock,
    id: RunId,
    trigger: Trigger,
    stop: StopHandle,
    progress: Progress,
) -> Result<RunEnd, CommandError> {
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), Some(id))?;
    startup::close_crashed_runs(journal.store(), &setting.clock).await?;
    let watchers = Watchers::attach(setting, &journal, progress);
    let cx = setting.run_context(trigger, journal.clone(), id, stop)?;
    let ended = tokio::select! {
        ended = run::perform(&cx).instrument(once::run_span(id)) => ended?,
        never = lock.keep_fresh(&setting.clock) => match never {},
    };
    once::tidy(setting, journal.store()).await;
    drop((cx, journal));
    watchers.finish().await;
    Ok(ended)
}

fn log_end(ended: Result<Result<RunEnd, CommandError>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(ended)) => match ended.error {
            Some(error) => tracing::error!(outcome = ?ended.outcome, %error, "run ended"),
            // Already logged by `lifecycle`.
            None => tracing::debug!(outcome = ?ended.outcome, "run ended"),
        },
        Ok(Err(error)) => tracing::error!(%error, "could not start a run"),
        Err(panic) => tracing::error!(%panic, "a run panicked"),
    }
}
