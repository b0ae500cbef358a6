//! When a run starts because a tracker sent events: soon after the first of them, so that one run
//! answers many, and never more often than the configured interval allows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Events that follow within this time belong to the same run.
const GATHER: SignedDuration = SignedDuration::from_secs(2);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Early {
    /// The first event that no run has followed yet.
    first: Option<Timestamp>,
    last_run: Option<Timestamp>,
}

impl Early {
    pub fn note(&mut self, now: Timestamp) {
        self.first.get_or_insert(now);
    }

    /// Whatever started it, a run reads what the events were about.
    pub fn run_started(&mut self, now: Timestamp) {
        *self = Self { first: None, last_run: Some(now) };
    }

    pub fn forget(&mut self) {
        self.first = None;
    }

    /// How long to wait before the run; `None` without an event.
    pub fn wait(&self, now: Timestamp, interval: Duration) -> Option<Duration> {
        let gathered = self.first?.saturating_add(GATHER).ok()?;
        let interval = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
        // A last run in the future was noted by a wrong clock.
        let last = self.last_run.filter(|last| *last <= now);
        let allowed = last.and_then(|last| last.saturating_add(interval).ok());
        let due = allowed.map_or(gathered, |allowed| allowed.max(gathered));
        Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn many_events_are_one_run_and_runs_keep_their_distance() {
        let (mut early, five) = (Early::default(), Duration::from_mins(5));
        assert_eq!(early.wait(at(0), five), None);
        for second in 0..10 {
            early.note(at(second));
        }
        assert_eq!(early.wait(at(1), five), Some(Duration::from_secs(1)), "two after the first");
        assert_eq!(early.wait(at(9), five), Some(Duration::ZERO));
        early.run_started(at(9));
        assert_eq!(early.wait(at(9), five), None);
        early.note(at(10));
        assert_eq!(early.wait(at(10), five), Some(Duration::from_secs(299)));
        assert_eq!(early.wait(at(400), five), Some(Duration::ZERO));
        assert_eq!(
            early.wait(at(-400), five),
            Some(Duration::from_secs(412)),
            "the clock went back"
        );
        early.forget();
        assert_eq!(early.wait(at(400), five), None);
    }
}
