//! Measures how long a session has waited for the model provider, and decides whether that caused
//! its end.
//!
//! Pure: the conversation reports the agent's events, the supervisor queries it when it ends a
//! session.

use std::time::Duration;

use tokio::time::Instant;

use super::machine::Cause;
use crate::model::FailureKind;

/// How long the provider has kept the agent waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProviderWait {
    /// Since when the next part of an answer is due; `None`: the agent is not waiting for the
    /// provider.
    due_since: Option<Instant>,
    /// A part of the answer has arrived.
    begun: bool,
    /// A request failed and nothing has arrived since.
    failing: bool,
    /// Time lost to failures that are over.
    lost: Duration,
}

impl ProviderWait {
    /// A request was sent.
    pub fn asked(&mut self, now: Instant) {
        self.due_since.get_or_insert(now);
    }

    /// A request failed; the agent retries.
    pub fn failed(&mut self, now: Instant) {
        self.asked(now);
        self.failing = true;
    }

    /// A part of the answer arrived, more is due.
    pub fn answering(&mut self, now: Instant) {
        self.answered(now);
        self.due_since = Some(now);
        self.begun = true;
    }

    /// The answer is complete, or the agent is processing it.
    pub fn answered(&mut self, now: Instant) {
        if let Some(since) = self.due_since.take().filter(|_| self.failing) {
            self.lost += now.saturating_duration_since(since);
        }
        self.failing = false;
        self.begun = false;
    }

    /// The agent could not run for this long, so the provider did not keep it waiting.
    pub fn pass_over(&mut self, lost: Duration, now: Instant) {
        self.due_since = self.due_since.map(|since| (since + lost).min(now));
    }

    /// Whether the provider caused the end of a session that ran for `elapsed`: it was silent for
    /// the whole stall limit, was failing at the deadline, or kept requests waiting for at least
    /// half of the time.
    pub fn explains(&self, cause: Cause, elapsed: Duration, now: Instant) -> bool {
        match cause {
            Cause::Stalled => self.due_since.is_some(),
            Cause::HardLimit | Cause::Cancelled(FailureKind::RunDeadline) => {
                let unanswered = self.due_since.filter(|_| !self.begun);
                let due = unanswered.map(|since| now.saturating_duration_since(since));
                self.failing || (self.lost + due.unwrap_or_default()) * 2 >= elapsed
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Story(ProviderWait, Instant);

    impl Story {
        fn new() -> Self {
            let now = Instant::now();
            let mut wait = ProviderWait::default();
            wait.asked(now);
            Self(wait, now)
        }

        fn after(&mut self, seconds: u64, step: impl FnOnce(&mut ProviderWait, Instant)) {
            let now = self.1 + Duration::from_secs(seconds);
            step(&mut self.0, now);
        }

        fn blames(&self, cause: Cause, seconds: u64) -> bool {
            let elapsed = Duration::from_secs(seconds);
            self.0.explains(cause, elapsed, self.1 + elapsed)
        }
    }

    #[test]
    fn a_provider_that_never_answers_is_to_blame() {
        let story = Story::new();
        for cause in [Cause::HardLimit, Cause::Stalled, Cause::Cancelled(FailureKind::RunDeadline)]
        {
            assert!(story.blames(cause, 600), "{cause:?}");
        }
        for cause in [
            Cause::InitTimeout,
            Cause::TooManyProcesses,
            Cause::Cancelled(FailureKind::Operator),
            Cause::KeeperLost,
        ] {
            assert!(!story.blames(cause, 600), "{cause:?}");
        }
    }

    #[test]
    fn a_session_that_works_for_most_of_its_time_is_not_excused() {
        let mut silent = Story::new();
        silent.after(1, ProviderWait::answering);
        assert!(!silent.blames(Cause::HardLimit, 600), "who knows what it does");
        let mut story = Story::new();
        for second in 1..500 {
            story.after(second, ProviderWait::answering);
        }
        assert!(!story.blames(Cause::HardLimit, 600), "slow to finish");
        assert!(story.blames(Cause::Stalled, 920), "silent in the middle of an answer");
        story.after(590, ProviderWait::answered);
        story.after(591, ProviderWait::asked);
        assert!(!story.blames(Cause::HardLimit, 600));
        story.after(592, ProviderWait::failed);
        assert!(story.blames(Cause::HardLimit, 600), "failing when the time is up");
    }

    #[test]
    fn time_lost_to_failures_counts_when_they_are_over() {
        let mut story = Story::new();
        story.after(1, ProviderWait::failed);
        story.after(320, ProviderWait::answering);
        story.after(321, ProviderWait::answered);
        assert!(story.blames(Cause::HardLimit, 600));
        assert!(!story.blames(Cause::HardLimit, 700));
        assert!(!story.blames(Cause::Stalled, 1000), "it owes nothing: a tool hangs");
    }
}
