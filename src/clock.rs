//! The one place that reads the time.
//!
//! Wall time is what people and the tracker speak; it may jump. Durations are measured with
//! tokio's monotonic clock, which tests can pause. Pure rooms take times as arguments.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// A source of wall time, passed by value to whoever needs it.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    System,
    /// Milliseconds since the epoch, moved by hand.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Kind::System)
    }

    /// A clock that stands still until [`Clock::advance_ms`] moves it.
    pub fn manual(start: Timestamp) -> Self {
        Self(Kind::Manual(Arc::new(AtomicI64::new(start.as_millisecond()))))
    }

    /// Now.
    #[expect(clippy::disallowed_methods, reason = "this is the room that reads the clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => Timestamp::now(),
            Kind::Manual(ms) => {
                Timestamp::from_millisecond(ms.load(Ordering::SeqCst)).unwrap_or_default()
            }
        }
    }

    /// Moves a manual clock, by a negative figure also back. Without effect on the system's.
    pub fn advance_ms(&self, by: i64) {
        if let Kind::Manual(ms) = &self.0 {
            ms.fetch_add(by, Ordering::SeqCst);
        }
    }
}
