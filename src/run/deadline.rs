//! A run never outlives its limit, and hears whoever asks it to stop while it waits.

use std::time::Duration;

use tokio::time::Instant;

use super::Run;
use crate::fetch::FetchError;
use crate::model::{FailureClass, Stage};
use crate::report::lines::seconds;
use crate::schedule::Schedule;
use crate::session::stop::StopState;
use crate::session::{StopHandle, StopReason};

/// The limit where the configuration names none and the schedule is slower.
const LONGEST: Duration = Duration::from_hours(2);
/// From the claim to the first word of the agent, on a busy machine.
const STARTING: Duration = Duration::from_secs(5);

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
        let handle: StopHandle = self.deadline.clone();
        let begun = Instant::now();
        let far = || begun + LONGEST * 1000;
        let end = || begun.checked_add(self.limit()).unwrap_or_else(far);
        let at = *self.ends_at.get_or_init(end);
        Armed(tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            handle.stop(StopReason::RunDeadline);
        }))
    }

    /// As configured, or one interval of the schedule: but never so short that a session could not
    /// have its own time.
    fn limit(&self) -> Duration {
        self.config.limits.run_deadline.unwrap_or_else(|| {
            let schedule = &self.config.schedule;
            let interval = Schedule::parse(&schedule.cron, &schedule.timezone)
                .map_or(LONGEST, |schedule| schedule.interval_hint().min(LONGEST));
            interval.max(self.config.shortest_run())
        })
    }

    /// Why a session of this stage must not start any more: what is cut by the run's limit before
    /// its own is money for nothing.
    pub(super) fn lacks_time(&self, stage: Stage) -> Option<String> {
        let own = match stage {
            Stage::Triage => self.config.triage.timeout,
            Stage::Deep => self.config.analyze.timeout,
        };
        let (timeouts, left) = (&self.config.timeouts, self.time_left()?);
        let needed = [timeouts.grace, timeouts.drain, STARTING];
        if left >= needed.into_iter().fold(own, Duration::saturating_add) {
            return None;
        }
        let (left, own) = (readable(left), readable(own));
        Some(format!("{left} of the run's time are left, but a {stage} session may take {own}"))
    }

    /// None: nobody set a limit.
    fn time_left(&self) -> Option<Duration> {
        self.ends_at.get().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Asked to stop, by whomever?
    pub(super) fn stopping(&self) -> Option<StopReason> {
        self.stop.state().reason.or(self.deadline.state().reason)
    }

    /// Waits for `work`, unless somebody asks to stop: then it is dropped as it is.
    pub(super) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut signal = self.stop.signal().and(&self.deadline);
        tokio::select! {
            biased;
            _ = signal.changed(StopState::default()) => None,
            done = work => Some(done),
        }
    }

    /// The same for what should not be left half done: it has the grace that sessions have.
    pub(super) async fn with_grace<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut signal = self.stop.signal().and(&self.deadline);
        let over = async {
            signal.changed(StopState::default()).await;
            tokio::time::sleep(self.config.timeouts.grace).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = over => None,
        }
    }

    /// A read that the run's own limit ended is told; one that somebody stopped is no failure.
    pub(super) fn cut_short(&self) -> Result<(), FetchError> {
        if self.stop.state().reason.is_some() || self.deadline.state().reason.is_none() {
            return Ok(());
        }
        let limit = readable(self.limit());
        let message = format!(
            "the tracker could not be read completely within the run's time limit of {limit} \
             (limits.run_deadline). What was read is stored; the next run continues from there"
        );
        Err(FetchError::new(FailureClass::TooSlow, message))
    }
}

fn readable(duration: Duration) -> String {
    seconds(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
