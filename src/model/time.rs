//! Times.

use jiff::SignedDuration;

/// Longer than any retry delay. A stored retry time further ahead than this was written with a
/// wrong clock and counts as reached.
pub const MAX_WAIT: SignedDuration = SignedDuration::from_hours(36);
