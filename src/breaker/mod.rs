//! The circuit breaker: after failures it blocks requests for a growing time. The tracker and the
//! model provider ([`provider`]) each have one.
//!
//! Pure and serialisable: time is an argument and the store keeps the state, so a scheduled run,
//! `--once` and a restart see the same breaker.

pub mod blame;
pub mod provider;

use jiff::{SignedDuration, Timestamp};

use crate::model::{Breaker, BreakerState as State, FailureClass};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Failures in a row that open it.
    pub threshold: u32,
    /// First hold; it doubles with each opening.
    pub hold: SignedDuration,
    /// Hold for failures that only a person can fix (credential, permission, configuration, a
    /// stopped collection).
    pub long_hold: SignedDuration,
    /// Upper bound of every hold.
    pub max_hold: SignedDuration,
}

pub const TRACKER: Policy = Policy {
    threshold: 3,
    hold: SignedDuration::from_mins(5),
    long_hold: SignedDuration::from_mins(30),
    max_hold: SignedDuration::from_hours(2),
};
/// A probe without a result for this long is considered lost with its process.
pub const PROBE_LEASE: SignedDuration = SignedDuration::from_mins(5);

/// Answer to a request to use the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// Send one cheap request first, and nothing else before its result.
    Probe,
    Refused {
        /// The earliest time to ask again.
        until: Timestamp,
    },
}

/// Result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    ProbeSucceeded,
    /// A complete read succeeded.
    Succeeded,
    Failed(FailureClass),
}

/// Effect of a failure class on the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// None: the source is healthy.
    None,
    /// Counts towards [`Policy::threshold`].
    Counts,
    /// Opens it at once, for [`Policy::long_hold`].
    Opens,
}

impl FailureClass {
    pub const fn breaker_effect(self) -> Effect {
        match self {
            Self::Auth | Self::Denied | Self::Config | Self::BadQuery | Self::Down => Effect::Opens,
            Self::TooSlow | Self::Throttled | Self::Transient => Effect::Counts,
            Self::Gone | Self::TooMany | Self::Version | Self::Conflict | Self::BreakerOpen => {
                Effect::None
            }
        }
    }
}

impl Breaker {
    /// Whether the source may be used now. Letting a probe through changes the state.
    pub fn admit(&mut self, now: Timestamp, policy: &Policy) -> Admission {
        match self.state {
            State::Closed => Admission::Go,
            State::Open { until, .. }
                if now < until && until.duration_since(now) <= policy.max_hold =>
            {
                Admission::Refused { until }
            }
            // A hold longer than the maximum was set with a wrong clock.
            State::Open { .. } => self.let_probe_through(now),
            State::HalfOpen { since } if since <= now && now < later(since, PROBE_LEASE) => {
                Admission::Refused { until: later(since, PROBE_LEASE) }
            }
            State::HalfOpen { .. } => self.let_probe_through(now),
        }
    }

    /// Like `admit`, after a person changed the setting that failed: the rest of the hold is
    /// skipped.
    pub fn admit_changed(&mut self, now: Timestamp, policy: &Policy) -> Admission {
        match self.state {
            State::Open { .. } => self.let_probe_through(now),
            _ => self.admit(now, policy),
        }
    }

    fn let_probe_through(&mut self, now: Timestamp) -> Admission {
        self.state = State::HalfOpen { since: now };
        Admission::Probe
    }

    /// Records the result of a request.
    pub fn record(&mut self, signal: Signal, now: Timestamp, policy: &Policy) {
        match signal {
            Signal::Succeeded => *self = Self::default(),
            Signal::ProbeSucceeded => {
                // `openings` stays: a source that answers probes but fails reads gets its longer
                // hold.
                self.state = State::Closed;
                self.failures = 0;
            }
            Signal::Failed(class) => self.fail(class, now, policy),
        }
    }

    fn fail(&mut self, class: FailureClass, now: Timestamp, policy: &Policy) {
        let probing = matches!(self.state, State::HalfOpen { .. });
        match class.breaker_effect() {
            Effect::None if probing => self.state = State::Closed,
            Effect::None => {}
            Effect::Opens => self.open(policy.long_hold, class, now, policy),
            Effect::Counts => {
                self.failures = self.failures.saturating_add(1);
                if probing || self.failures >= policy.threshold {
                    self.open(policy.hold, class, now, policy);
                }
            }
        }
    }

    fn open(&mut self, base: SignedDuration, class: FailureClass, now: Timestamp, policy: &Policy) {
        let doublings = self.openings.min(8);
        let hold = base.saturating_mul(1 << doublings).min(policy.max_hold);
        self.openings = self.openings.saturating_add(1);
        self.state = State::Open { until: later(now, hold), class };
    }

    /// Closed by a person who fixed the cause.
    pub fn close(&mut self) {
        *self = Self::default();
    }
}

/// Saturates at the latest timestamp.
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
    }

    fn failed(breaker: &mut Breaker, class: FailureClass, minutes: i64) {
        breaker.record(Signal::Failed(class), at(minutes), &TRACKER);
    }

    #[test]
    fn three_counted_failures_in_a_row_open_it_for_five_minutes() {
        let mut breaker = Breaker::default();
        failed(&mut breaker, FailureClass::Transient, 0);
        failed(&mut breaker, FailureClass::Throttled, 1);
        breaker.record(Signal::Succeeded, at(2), &TRACKER);
        failed(&mut breaker, FailureClass::Transient, 3);
        failed(&mut breaker, FailureClass::TooSlow, 4);
        assert_eq!(breaker.admit(at(4), &TRACKER), Admission::Go);
        failed(&mut breaker, FailureClass::Transient, 5);
        assert_eq!(breaker.admit(at(9), &TRACKER), Admission::Refused { until: at(10) });
        assert_eq!(breaker.admit(at(10), &TRACKER), Admission::Probe);
        assert!(
            matches!(breaker.admit(at(10), &TRACKER), Admission::Refused { .. }),
            "one probe only"
        );
    }

    #[test]
    fn the_hold_doubles_until_a_whole_read_succeeds() {
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            failed(&mut breaker, FailureClass::Transient, 0);
        }
        assert_eq!(breaker.admit(at(5), &TRACKER), Admission::Probe);
        failed(&mut breaker, FailureClass::Transient, 5);
        assert_eq!(breaker.state.until(), Some(at(15)), "ten minutes the second time");
        assert_eq!(breaker.admit(at(15), &TRACKER), Admission::Probe);
        breaker.record(Signal::ProbeSucceeded, at(15), &TRACKER);
        assert_eq!(breaker.admit(at(15), &TRACKER), Admission::Go);
        failed(&mut breaker, FailureClass::Auth, 15);
        assert_eq!(breaker.state.until(), Some(at(135)), "30 minutes doubled twice");
        breaker.record(Signal::Succeeded, at(200), &TRACKER);
        failed(&mut breaker, FailureClass::Auth, 200);
        assert_eq!(breaker.state.until(), Some(at(230)));
    }

    #[test]
    fn what_only_a_person_can_mend_opens_it_at_once_and_what_is_no_fault_never_does() {
        use FailureClass as Class;
        for class in [Class::Auth, Class::Denied, Class::Config, Class::BadQuery, Class::Down] {
            let mut breaker = Breaker::default();
            failed(&mut breaker, class, 0);
            assert_eq!(breaker.state.until(), Some(at(30)), "{class:?}");
        }
        for class in [Class::Gone, Class::TooMany, Class::Version, Class::Conflict] {
            let mut breaker = Breaker::default();
            (0..10).for_each(|minute| failed(&mut breaker, class, minute));
            assert_eq!(breaker, Breaker::default(), "{class:?}");
        }
    }

    #[test]
    fn a_probe_lost_with_its_process_and_a_clock_set_back_do_not_shut_it_for_ever() {
        let mut breaker = Breaker { state: State::HalfOpen { since: at(0) }, ..Breaker::default() };
        assert!(matches!(breaker.admit(at(4), &TRACKER), Admission::Refused { .. }));
        assert_eq!(breaker.admit(at(5), &TRACKER), Admission::Probe);
        let until = Timestamp::MAX;
        let class = FailureClass::Down;
        let mut breaker = Breaker { state: State::Open { until, class }, ..Breaker::default() };
        assert_eq!(breaker.admit(at(0), &TRACKER), Admission::Probe);
    }

    #[test]
    fn closing_by_hand_forgets_everything() {
        let mut breaker = Breaker::default();
        failed(&mut breaker, FailureClass::Auth, 0);
        breaker.close();
        assert_eq!(breaker, Breaker::default());
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        /// A request wants to start.
        Ask,
        /// The oldest open request ends.
        Report(Option<FailureClass>),
        /// Seconds pass.
        Wait(i64),
        /// The process ends and another one starts from the stored state.
        Restart,
    }

    fn classes() -> impl Strategy<Value = FailureClass> {
        use FailureClass as Class;
        prop::sample::select(vec![
            Class::Auth,
            Class::Denied,
            Class::Config,
            Class::Gone,
            Class::TooMany,
            Class::TooSlow,
            Class::Version,
            Class::BadQuery,
            Class::Conflict,
            Class::Throttled,
            Class::Down,
            Class::Transient,
        ])
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Ask),
            4 => prop::option::of(classes()).prop_map(Step::Report),
            3 => (0_i64..2000).prop_map(Step::Wait),
            1 => Just(Step::Restart),
        ];
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn nothing_goes_through_while_open_and_one_probe_at_most_while_half_open(steps in steps()) {
            let mut breaker = Breaker::default();
            let mut now = at(0);
            // Whether the open request is a probe.
            let mut open: Option<bool> = None;
            for step in steps {
                match step {
                    Step::Wait(seconds) => now += SignedDuration::from_secs(seconds),
                    Step::Restart => {
                        let stored = serde_json::to_string(&breaker).unwrap();
                        let restored: Breaker = serde_json::from_str(&stored).unwrap();
                        prop_assert_eq!(&restored, &breaker);
                        breaker = restored;
                    }
                    Step::Ask => {
                        let before = breaker.state.clone();
                        let admission = breaker.admit(now, &TRACKER);
                        match (&before, admission) {
                            (State::Closed, admission) => prop_assert_eq!(admission, Admission::Go),
                            (State::Open { until, .. }, Admission::Refused { .. }) => {
                                prop_assert!(now < *until);
                            }
                            (State::Open { until, .. }, admission) => {
                                prop_assert_eq!(admission, Admission::Probe);
                                prop_assert!(now >= *until, "a request went through while open");
                            }
                            (State::HalfOpen { since }, Admission::Probe) => {
                                let lost = now.duration_since(*since) >= PROBE_LEASE;
                                prop_assert!(lost, "a second probe while the first is on its way");
                            }
                            (State::HalfOpen { .. }, admission) => {
                                let refused = matches!(admission, Admission::Refused { .. });
                                prop_assert!(refused);
                            }
                        }
                        open = match admission {
                            Admission::Go => Some(false),
                            Admission::Probe => Some(true),
                            Admission::Refused { .. } => open,
                        };
                    }
                    Step::Report(result) => {
                        let Some(probe) = open.take() else { continue };
                        let signal = match result {
                            Some(class) => Signal::Failed(class),
                            None if probe => Signal::ProbeSucceeded,
                            None => Signal::Succeeded,
                        };
                        breaker.record(signal, now, &TRACKER);
                        if let Some(until) = breaker.state.until() {
                            prop_assert!(until.duration_since(now) <= TRACKER.max_hold);
                        }
                        if result.is_none() {
                            prop_assert_eq!(&breaker.state, &State::Closed);
                        }
                    }
                }
            }
        }
    }
}
