//! How long a worker may continue without the server, and how long the server waits for it. Pure.
//!
//! The server gives up a session after `heartbeat_timeout` without a heartbeat. The worker counts
//! from the time at which it *sent* the last acknowledged heartbeat, which is never later than the
//! server's count, and stops early enough that the grace period is over and the tree is gone by
//! then.

use std::time::Duration;

/// Maximum margin of a worker in addition to the grace period.
const RESERVE: Duration = Duration::from_secs(15);
/// Default interval of heartbeats.
const BEAT: Duration = Duration::from_secs(5);

/// The times of one session on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// The server gives it up after this time without a heartbeat.
    pub heartbeat_timeout: Duration,
    /// The worker begins to end it after this time without an acknowledged heartbeat.
    pub lease: Duration,
    /// Between two heartbeats.
    pub beat: Duration,
}

impl LeaseTimes {
    /// From the configured heartbeat timeout and the grace period.
    pub fn new(heartbeat_timeout: Duration, grace: Duration) -> Self {
        let reserve = RESERVE.min(heartbeat_timeout / 8);
        let lease = heartbeat_timeout.saturating_sub(grace).saturating_sub(reserve);
        Self { heartbeat_timeout, lease, beat: BEAT.min(lease / 4) }
    }

    /// Whether the tree of a lost host ends before the server gives it up.
    pub fn ends_before_timeout(&self, grace: Duration) -> bool {
        !self.lease.is_zero() && self.lease + grace < self.heartbeat_timeout
    }

    /// Time limit of a heartbeat call.
    pub fn call(&self) -> Duration {
        self.beat.max(Duration::from_millis(500)).min(Duration::from_secs(3))
    }
}

/// A worker's count, in milliseconds of a clock that continues during suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    length: u64,
    acknowledged: u64,
}

impl Lease {
    /// Starts with an acknowledged heartbeat that was sent at `sent`.
    pub fn begin(times: &LeaseTimes, sent: u64) -> Self {
        let length = u64::try_from(times.lease.as_millis()).unwrap_or(u64::MAX);
        Self { length, acknowledged: sent }
    }

    /// Records an acknowledged heartbeat that was sent at `sent`.
    pub fn acknowledge(&mut self, sent: u64) {
        self.acknowledged = self.acknowledged.max(sent);
    }

    /// The remaining time; `None` if it is over.
    pub fn left(&self, now: u64) -> Option<Duration> {
        let until = self.acknowledged.saturating_add(self.length);
        until.checked_sub(now).filter(|left| *left > 0).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn a_lost_tree_is_gone_before_the_server_gives_up() {
        let usual = LeaseTimes::new(secs(120), secs(10));
        assert_eq!((usual.lease, usual.beat), (secs(95), secs(5)));
        for timeout in 5..=600 {
            for grace in 0..=timeout / 2 {
                let times = LeaseTimes::new(secs(timeout), secs(grace));
                assert!(times.ends_before_timeout(secs(grace)), "{timeout} {grace} {times:?}");
                assert!(times.beat * 4 <= times.lease);
            }
        }
        assert!(!LeaseTimes::new(secs(10), secs(10)).ends_before_timeout(secs(10)));
    }

    #[test]
    fn a_lease_counts_from_the_sending_of_the_last_acknowledged_beat() {
        let times = LeaseTimes::new(secs(120), secs(10));
        let mut lease = Lease::begin(&times, 1_000);
        assert_eq!(lease.left(1_000), Some(secs(95)));
        lease.acknowledge(6_000);
        lease.acknowledge(3_000);
        assert_eq!(lease.left(6_000), Some(secs(95)), "a late answer to an early beat is no news");
        assert_eq!(lease.left(101_000), None, "also after a sleep of the machine");
    }
}
