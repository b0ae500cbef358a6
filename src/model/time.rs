//! Times.

use std::time::Duration;

use jiff::SignedDuration;

/// Longer than any retry delay. A stored retry time further ahead than this was written with a
/// wrong clock and counts as reached.
pub const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(36);

/// As stored and shown; saturates.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
