//! The only module that reads the time.
//!
//! Wall time is for people and the tracker; it may jump. Durations are measured with tokio's
//! monotonic clock, which tests can pause. Pure modules take times as arguments.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A source of wall time, passed by value.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    System,
    /// Advanced by tests.
    Manual(Arc<Manual>),
}

#[derive(Debug)]
struct Manual {
    /// Milliseconds since the epoch.
    now: AtomicI64,
    /// The part of `now` during which the machine slept.
    asleep: AtomicI64,
}

impl Clock {
    pub fn system() -> Self {
        Self(Kind::System)
    }

    /// A clock that only [`Clock::advance_ms`] moves.
    pub fn manual(start: Timestamp) -> Self {
        let now = AtomicI64::new(start.as_millisecond());
        Self(Kind::Manual(Arc::new(Manual { now, asleep: AtomicI64::new(0) })))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the module that reads the clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::System => Timestamp::now(),
            Kind::Manual(manual) => {
                Timestamp::from_millisecond(manual.now.load(Ordering::SeqCst)).unwrap_or_default()
            }
        }
    }

    /// Local time for people, such as `2026-11-16 09:15:53 CET`.
    pub fn local_time(&self, at: Timestamp) -> String {
        local_time(at, "%F %T %Z")
    }

    /// Moves a manual clock, backwards if negative. No effect on the system clock.
    pub fn advance_ms(&self, by: i64) {
        if let Kind::Manual(manual) = &self.0 {
            manual.now.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Moves a manual clock as if the machine had slept: wall time advances, awake time does not.
    pub fn sleep_ms(&self, by: i64) {
        if let Kind::Manual(manual) = &self.0 {
            manual.asleep.fetch_add(by, Ordering::SeqCst);
        }
        self.advance_ms(by);
    }

    /// Milliseconds that this machine was awake since a moment that all its processes share. Does
    /// not advance during sleep and cannot be set.
    pub fn awake_ms(&self) -> u64 {
        match &self.0 {
            Kind::System => system_awake_ms(),
            Kind::Manual(manual) => {
                let (now, asleep) = (&manual.now, &manual.asleep);
                let awake = now.load(Ordering::SeqCst) - asleep.load(Ordering::SeqCst);
                u64::try_from(awake).unwrap_or(0)
            }
        }
    }
}

impl Clock {
    /// Milliseconds since a moment that all processes of this machine share, including sleep.
    pub fn elapsed_ms(&self) -> u64 {
        match &self.0 {
            Kind::System => read_ms(WITH_SLEEP),
            Kind::Manual(manual) => u64::try_from(manual.now.load(Ordering::SeqCst)).unwrap_or(0),
        }
    }
}

/// Formats a time in the local zone.
pub fn local_time(at: Timestamp, form: &str) -> String {
    in_zone(at, local_zone(), form)
}

fn in_zone(at: Timestamp, zone: TimeZone, form: &str) -> String {
    at.to_zoned(zone).strftime(form).to_string()
}

/// The zone of `TZ` or of this machine; UTC if neither is set.
pub fn local_zone() -> TimeZone {
    let zone = TimeZone::system();
    if zone.is_unknown() { TimeZone::UTC } else { zone }
}

/// The system's clock that includes sleep.
#[cfg(target_os = "macos")]
const WITH_SLEEP: libc::clockid_t = libc::CLOCK_MONOTONIC;
#[cfg(not(target_os = "macos"))]
const WITH_SLEEP: libc::clockid_t = libc::CLOCK_BOOTTIME;

/// The system's clock that excludes sleep.
#[cfg(target_os = "macos")]
const AWAKE: libc::clockid_t = libc::CLOCK_UPTIME_RAW;
#[cfg(not(target_os = "macos"))]
const AWAKE: libc::clockid_t = libc::CLOCK_MONOTONIC;

fn system_awake_ms() -> u64 {
    read_ms(AWAKE)
}

fn read_ms(clock: libc::clockid_t) -> u64 {
    let read = nix::time::clock_gettime(nix::time::ClockId::from_raw(clock));
    // On a kernel without this clock the time stays 0, so nothing ever counts as late.
    read.map_or(0, |at| u64::try_from(std::time::Duration::from(at).as_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_local_and_names_its_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let at = |text: &str| in_zone(text.parse().unwrap(), berlin.clone(), "%F %T %Z");
        assert_eq!(at("2026-11-16T08:15:53Z"), "2026-11-16 09:15:53 CET");
        assert_eq!(at("2026-07-16T08:15:53Z"), "2026-07-16 10:15:53 CEST");
    }
}
