//! The circuit breaker: after failures it keeps us from asking, for a while that grows.
//!
//! Pure and serialisable: time is an argument, the state is a value that the store keeps, so that
//! a scheduled run, `--once` and a restart all see the same breaker.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::FailureClass;

/// Counted failures in a row that open it.
pub const THRESHOLD: u32 = 3;
/// How long it stays open the first time.
pub const HOLD: SignedDuration = SignedDuration::from_mins(5);
/// How long it stays open when only a person can help (credential, permission, configuration).
pub const LONG_HOLD: SignedDuration = SignedDuration::from_mins(30);
/// It never stays open for longer.
pub const MAX_HOLD: SignedDuration = SignedDuration::from_hours(2);
/// A probe that has not reported for this long is taken for lost with its process.
pub const PROBE_LEASE: SignedDuration = SignedDuration::from_mins(5);

/// The breaker of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// Where it stands.
    pub state: State,
    /// Counted failures since the last success.
    pub failures: u32,
    /// Times it opened since the last whole success; the hold doubles with each.
    pub openings: u32,
}

/// Where a breaker stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum State {
    /// Requests go through.
    #[default]
    Closed,
    /// No request goes through.
    Open {
        /// Until then.
        until: Timestamp,
        /// The failure that opened it.
        class: FailureClass,
    },
    /// One probe is on its way.
    HalfOpen {
        /// When it was let through.
        since: Timestamp,
    },
}

impl State {
    /// The stable code used in events.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half_open",
        }
    }

    /// Until when it lets nothing through, if it is open.
    pub const fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Open { until, .. } => Some(*until),
            _ => None,
        }
    }
}

/// What the breaker answers to someone who wants to ask the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Go ahead.
    Go,
    /// One cheap request first, and nothing else before it has reported.
    Probe,
    /// Not now.
    Refused {
        /// The earliest time it makes sense to come back.
        until: Timestamp,
    },
}

/// What is learned from asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The probe was answered.
    ProbeSucceeded,
    /// A whole read went well.
    Succeeded,
    /// It failed.
    Failed(FailureClass),
}

/// What a class of failure does to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the source is well.
    None,
    /// One of [`THRESHOLD`].
    Counts,
    /// Opens it at once.
    Opens(SignedDuration),
}

impl FailureClass {
    /// What it does to the breaker.
    pub const fn breaker_effect(self) -> Effect {
        match self {
            Self::Auth | Self::Denied | Self::Config | Self::BadQuery => Effect::Opens(LONG_HOLD),
            Self::Down => Effect::Opens(HOLD),
            Self::TooSlow | Self::Throttled | Self::Transient => Effect::Counts,
            Self::Gone | Self::TooMany | Self::Version | Self::Conflict | Self::BreakerOpen => {
                Effect::None
            }
        }
    }
}

impl Breaker {
    /// May the source be asked now? Letting a probe through is itself a change of state.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        match self.state {
            State::Closed => Admission::Go,
            State::Open { until, .. } if now < until && until - MAX_HOLD <= now => {
                Admission::Refused { until }
            }
            // A hold that ends further away than any hold lasts was set by a wrong clock.
            State::Open { .. } => self.let_probe_through(now),
            State::HalfOpen { since } if since <= now && now < since + PROBE_LEASE => {
                Admission::Refused { until: since + PROBE_LEASE }
            }
            State::HalfOpen { .. } => self.let_probe_through(now),
        }
    }

    fn let_probe_through(&mut self, now: Timestamp) -> Admission {
        self.state = State::HalfOpen { since: now };
        Admission::Probe
    }

    /// Takes note of how asking went.
    pub fn record(&mut self, signal: Signal, now: Timestamp) {
        match signal {
            Signal::Succeeded => *self = Self::default(),
            Signal::ProbeSucceeded => {
                // The number of openings stays: a source that answers probes and fails reads
                // gets its longer hold.
                self.state = State::Closed;
                self.failures = 0;
            }
            Signal::Failed(class) => self.fail(class, now),
        }
    }

    fn fail(&mut self, class: FailureClass, now: Timestamp) {
        let probing = matches!(self.state, State::HalfOpen { .. });
        match class.breaker_effect() {
            Effect::None if probing => self.state = State::Closed,
            Effect::None => {}
            Effect::Opens(hold) => self.open(hold, class, now),
            Effect::Counts => {
                self.failures = self.failures.saturating_add(1);
                if probing || self.failures >= THRESHOLD {
                    self.open(HOLD, class, now);
                }
            }
        }
    }

    fn open(&mut self, base: SignedDuration, class: FailureClass, now: Timestamp) {
        let doublings = self.openings.min(8);
        let hold = base.saturating_mul(1 << doublings).min(MAX_HOLD);
        self.openings = self.openings.saturating_add(1);
        self.state = State::Open { until: now + hold, class };
    }

    /// Closes it by hand: a person says that the cause is gone.
    pub fn close(&mut self) {
        *self = Self::default();
    }
}
