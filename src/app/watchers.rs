//! Whoever watches a run beside its work: the screen, the log, `live.json`.

use tokio::task::JoinSet;

use super::{Setting, lifecycle};
use crate::report::live;
use crate::report::terminal::{Progress, show};
use crate::store::Journal;

/// The watchers of one run. They end with its last event, or with this.
pub struct Watchers(JoinSet<()>);

impl Watchers {
    /// To be called before the run begins, so that none misses its first event.
    pub fn attach(setting: &Setting, journal: &Journal, progress: Progress) -> Self {
        let mut watchers = JoinSet::new();
        watchers.spawn(show(journal.follow(), progress, setting.clock.clone()));
        watchers.spawn(lifecycle::follow(journal.follow(), setting.config.timeouts.stall));
        let (folder, every) = (setting.state.clone(), setting.config.timeouts.liveness);
        watchers.spawn(live::keep(journal.clone(), journal.follow(), folder, every));
        watchers.spawn(setting.telemetry.clone().follow(journal.follow()));
        setting.observers.subscribe(journal);
        Self(watchers)
    }

    /// Waits until all have told the run's end.
    pub async fn finish(mut self) {
        while let Some(ended) = self.0.join_next().await {
            if let Err(panic) = ended {
                tracing::error!(%panic, "a run observer panicked");
            }
        }
    }
}
