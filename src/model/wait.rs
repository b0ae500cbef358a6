//! How long anybody waits.

use jiff::SignedDuration;

/// A wait for the next attempt that is longer than any retry delay: it was written by a clock that
/// was wrong, and is over.
pub const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(36);
