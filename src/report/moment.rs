//! Formats times for people: local time with its zone, and the distance from now.

use jiff::Timestamp;

use crate::clock::{local_time, local_zone};

/// `2026-11-16 09:15:53 CET, 12 min ago`
pub fn moment(then: Timestamp, now: Timestamp) -> String {
    format!("{}, {}", date_time(then), distance(then, now))
}

/// `2026-11-16 09:15:53 CET`
pub fn date_time(at: Timestamp) -> String {
    local_time(at, "%F %T %Z")
}

/// `2026-11-16 09:15 CET`
pub fn minute(at: Timestamp) -> String {
    local_time(at, "%F %H:%M %Z")
}

/// `2026-11-16`
pub fn day(at: Timestamp) -> String {
    local_time(at, "%F")
}

/// `09:15:53 CET`
pub fn time_of_day(at: Timestamp) -> String {
    local_time(at, "%T %Z")
}

/// `revision 7`, or `version of 2026-11-16 09:15 CET` if the tracker has no counter and the time of
/// the last change is the revision.
pub fn version(revision: i64) -> String {
    const FIRST_TIME: i64 = 1_000_000_000_000; // September 2001, in milliseconds
    match Timestamp::from_millisecond(revision) {
        Ok(changed) if revision >= FIRST_TIME => format!("version of {}", minute(changed)),
        _ => format!("revision {revision}"),
    }
}

/// Such as `Europe/Berlin`.
pub fn local_zone_name() -> String {
    local_zone().iana_name().unwrap_or("UTC").to_owned()
}

/// `12 min ago`, `in 3 h`, `now`.
fn distance(then: Timestamp, now: Timestamp) -> String {
    let seconds = then.duration_since(now).as_secs();
    if seconds == 0 {
        return "now".into();
    }
    let far = length(seconds.unsigned_abs());
    if seconds < 0 { format!("{far} ago") } else { format!("in {far}") }
}

/// `45 s`, `12 min`, `3 h`, `9 days`.
pub fn length(seconds: u64) -> String {
    match seconds {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7_200 => format!("{} min", s / 60),
        s @ 7_200..172_800 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_on_both_sides() {
        let now: Timestamp = "2026-11-16T09:00:00Z".parse().unwrap();
        for (then, said) in [
            ("2026-11-16T09:00:00.9Z", "now"),
            ("2026-11-16T08:58:30.145Z", "89 s ago"),
            ("2026-11-16T09:30:00Z", "in 30 min"),
            ("2026-11-15T10:00:00Z", "23 h ago"),
            ("2026-12-16T09:00:00Z", "in 30 days"),
        ] {
            assert_eq!(distance(then.parse().unwrap(), now), said);
        }
    }

    #[test]
    fn a_revision_is_a_number_or_a_time() {
        assert_eq!(version(7), "revision 7");
        assert!(version(1_794_906_209_000).starts_with("version of 2026-11-1"));
    }
}
