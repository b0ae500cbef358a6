//! What happens regularly while a session lives, and is never gated on anything else.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::supervisor::SupervisorSettings;

/// The timers of one session.
#[derive(Debug)]
pub struct Timers {
    /// Of the caps.
    pub check: Interval,
    /// Of the sign of life.
    pub liveness: Interval,
    /// Of the lease.
    pub beat: Interval,
}

impl Timers {
    /// All of them start now.
    pub fn new(liveness: Duration, settings: &SupervisorSettings) -> Self {
        let every = |period: Duration| {
            let period = period.max(Duration::from_millis(5));
            let mut interval = tokio::time::interval_at(Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        Self {
            check: every(settings.check_every),
            liveness: every(liveness),
            beat: every(settings.lease / 6),
        }
    }

    /// Signs of life count from the spawn.
    pub fn restart(&mut self) {
        self.liveness.reset();
        self.check.reset();
    }
}
