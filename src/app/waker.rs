//! Wakes the daemon so that it reads the clock often enough.
//!
//! tokio-cron-scheduler is only a tick source: its job sends to a channel of one. What is due is
//! decided elsewhere from the wall clock, so a late, doubled or lost tick has no effect. The
//! library's tasks keep each other alive after its `shutdown`, so it runs in a separate runtime on
//! a separate thread, and ends with them.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

use crate::schedule::Schedule;

/// Upper bound of every sleep: timers stop while a machine sleeps, the wall clock does not.
pub const MAX_SLEEP: Duration = Duration::from_secs(30);

/// Interval of the ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// For schedules in seconds.
    EverySecond,
    /// For all others.
    EveryFiveSeconds,
}

impl Pace {
    pub fn of(schedule: &Schedule) -> Self {
        if schedule.interval_hint() < Duration::from_secs(60) {
            Self::EverySecond
        } else {
            Self::EveryFiveSeconds
        }
    }

    fn cron(self) -> &'static str {
        match self {
            Self::EverySecond => "* * * * * *",
            Self::EveryFiveSeconds => "*/5 * * * * *",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum WakeError {
    #[error("cannot start the scheduler thread: {0}")]
    Thread(#[from] std::io::Error),
    #[error("cannot start the tick source: {0}")]
    Scheduler(#[from] JobSchedulerError),
    #[error("the scheduler thread exited while it was starting")]
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    ByTick,
    /// By its own timer.
    ByAlarm,
}

/// If the next run is further away than this, the timer alone is enough.
const NEAR: Duration = Duration::from_secs(120);

/// A source of wake-ups that ticks while something is due soon. Dropping it stops it;
/// [`WakeSource::shutdown`] also waits for its end.
#[derive(Debug)]
pub struct WakeSource {
    pace: Pace,
    ticking: Option<Ticking>,
}

/// The tick source while it runs.
#[derive(Debug)]
struct Ticking {
    ticks: mpsc::Receiver<()>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl WakeSource {
    pub async fn start(pace: Pace) -> Result<Self, WakeError> {
        Ok(Self { pace, ticking: Some(Ticking::start(pace).await?) })
    }

    /// Ticks if the next event is due soon, otherwise rests: an idle machine is then woken twice a
    /// minute instead of twice a second.
    pub async fn expect_in(&mut self, due: Duration) {
        let near = due <= NEAR;
        match self.ticking.take() {
            Some(ticking) if near => self.ticking = Some(ticking),
            // The thread ends on its own.
            Some(ticking) => drop(ticking),
            None if near => match Ticking::start(self.pace).await {
                Ok(ticking) => self.ticking = Some(ticking),
                // The timer still works, and the next iteration tries again.
                Err(error) => tracing::warn!(%error, "scheduler failed; falling back to a timer"),
            },
            None => {}
        }
    }

    pub fn is_ticking(&self) -> bool {
        self.ticking.is_some()
    }

    /// Sleeps until the next tick, at most `at_most`, and never longer than [`MAX_SLEEP`].
    /// Cancel-safe.
    pub async fn woken(&mut self, at_most: Duration) -> Woken {
        let alarm = tokio::time::sleep(at_most.min(MAX_SLEEP));
        let tick = async {
            match &mut self.ticking {
                Some(ticking) => ticking.ticks.recv().await,
                None => None,
            }
        };
        tokio::select! {
            // A source that rests or has ended sends nothing; the timer still works.
            Some(()) = tick => Woken::ByTick,
            () = alarm => Woken::ByAlarm,
        }
    }

    /// Stops the tick source and waits until its thread has ended.
    pub async fn shutdown(self) {
        let Some(Ticking { stop, thread, .. }) = self.ticking else { return };
        // The thread may have ended already.
        stop.send(()).ok();
        // The thread has printed its panic, which changes nothing here.
        tokio::task::spawn_blocking(move || thread.join().ok()).await.ok();
    }
}

impl Ticking {
    async fn start(pace: Pace) -> Result<Self, WakeError> {
        let (tick, ticks) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread =
            std::thread::Builder::new().name("heartbeat-ticks".into()).spawn(move || {
                // The runtime is dropped with this closure, and every task of the library with it.
                runtime.block_on(async move {
                    let scheduler = begin(pace, tick).await;
                    let (outcome, _scheduler) = match scheduler {
                        Ok(scheduler) => (Ok(()), Some(scheduler)),
                        Err(error) => (Err(error), None),
                    };
                    if ready.send(outcome).is_ok() {
                        // An error means that the owner is gone, which also means stop.
                        stopped.await.ok();
                    }
                });
            })?;
        started.await.map_err(|_| WakeError::Ended)??;
        Ok(Self { ticks, stop, thread })
    }
}

async fn begin(pace: Pace, tick: mpsc::Sender<()>) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let job = Job::new(pace.cron(), move |_, _| {
        // Full means that a wake-up is already pending, and one is enough.
        tick.try_send(()).ok();
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_sleeps_too_long_when_the_source_is_dead() {
        let mut dead = WakeSource { pace: Pace::EverySecond, ticking: None };
        for (wish, slept) in [(3600, 30), (3, 3)] {
            let start = tokio::time::Instant::now();
            assert_eq!(dead.woken(Duration::from_secs(wish)).await, Woken::ByAlarm);
            assert_eq!(start.elapsed().as_secs(), slept);
        }
    }

    #[test]
    fn schedules_in_seconds_are_looked_at_every_second() {
        let pace = |cron| Pace::of(&Schedule::parse(cron, "UTC").unwrap());
        assert_eq!(pace("* * * * * *"), Pace::EverySecond);
        assert_eq!(pace("*/30 * * * * *"), Pace::EverySecond);
        assert_eq!(pace("* * * * *"), Pace::EveryFiveSeconds);
    }
}
