//! When a failed item is retried.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How retries are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Including the first.
    pub max_attempts: u32,
    /// Before the second attempt; doubles with each further one.
    pub first_delay: Duration,
}

/// Maximum delay after a failure.
const MAX: Duration = Duration::from_hours(24);

/// When the next attempt is due after `attempts` failures; `None` when they are used up. `jitter`
/// (0 to 1, derived from the session's id) spreads items that failed together over half of the
/// delay.
pub fn next_attempt(
    now: Timestamp,
    attempts: u32,
    policy: RetryPolicy,
    jitter: f64,
) -> Option<Timestamp> {
    if attempts >= policy.max_attempts {
        return None;
    }
    let doubled = policy.first_delay.saturating_mul(1 << attempts.saturating_sub(1).min(20));
    let spread = doubled.min(MAX).mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 2.0);
    now.checked_add(SignedDuration::try_from(spread).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: RetryPolicy =
        RetryPolicy { max_attempts: 3, first_delay: Duration::from_secs(900) };

    fn delay(attempts: u32, jitter: f64) -> Option<i64> {
        let now = "2026-11-16T08:00:00Z".parse().unwrap();
        next_attempt(now, attempts, POLICY, jitter).map(|t| t.duration_since(now).as_secs())
    }

    #[test]
    fn the_delay_doubles_and_then_ends() {
        assert_eq!(delay(1, 0.0), Some(900));
        assert_eq!(delay(2, 0.0), Some(1800));
        assert_eq!(delay(3, 0.0), None);
        assert_eq!(delay(1, 1.0), Some(1350));
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_never_in_the_past(attempts in 1_u32..200, jitter in 0.0_f64..=1.0) {
            let now: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
            let policy = RetryPolicy { max_attempts: 500, ..POLICY };
            let next = next_attempt(now, attempts, policy, jitter).unwrap();
            let wait = next.duration_since(now);
            prop_assert!(wait >= SignedDuration::from_secs(900));
            prop_assert!(wait <= SignedDuration::from_hours(36));
        }
    }
}
