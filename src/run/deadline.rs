//! A run never outlives its limit.

use std::time::Duration;

use crate::schedule::Schedule;
use crate::session::{StopHandle, StopReason};

use super::Run;

/// The limit where the configuration names none and the schedule is slower.
const LONGEST: Duration = Duration::from_hours(2);

/// Ends the clock when the run is over.
pub(super) struct Armed(tokio::task::JoinHandle<()>);

impl Drop for Armed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Run {
    /// From now on, the run's sessions end when its limit is reached.
    pub(super) fn arm_deadline(&self) -> Armed {
        let (limit, handle): (Duration, StopHandle) = (self.limit(), self.deadline.clone());
        Armed(tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            handle.stop(StopReason::RunDeadline);
        }))
    }

    fn limit(&self) -> Duration {
        self.config.limits.run_deadline.unwrap_or_else(|| {
            let schedule = &self.config.schedule;
            Schedule::parse(&schedule.cron, &schedule.timezone)
                .map_or(LONGEST, |schedule| schedule.interval_hint().min(LONGEST))
        })
    }
}
