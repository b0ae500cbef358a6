//! The current day in the schedule's time zone, for budgets and reports.

use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};

/// UTC if the name is unknown, which the configuration rejects.
fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

/// The day that `now` belongs to in this zone, as `2026-11-16`.
pub fn day_in(zone_name: &str, now: Timestamp) -> String {
    now.to_zoned(zone(zone_name)).strftime("%F").to_string()
}

/// The same as a date.
pub fn date_in(zone_name: &str, now: Timestamp) -> Date {
    now.to_zoned(zone(zone_name)).date()
}

/// Start of a day in this zone.
pub fn midnight_in(zone_name: &str, day: Date) -> Option<Timestamp> {
    day.to_zoned(zone(zone_name)).ok().map(|begin| begin.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_turns_at_the_zones_midnight() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(day_in("UTC", at("2026-11-16T23:30:00Z")), "2026-11-16");
        assert_eq!(day_in("Europe/Berlin", at("2026-11-16T22:59:59Z")), "2026-11-16");
        assert_eq!(day_in("Europe/Berlin", at("2026-11-16T23:00:00Z")), "2026-11-17");
        assert_eq!(day_in("America/New_York", at("2026-11-16T04:59:59Z")), "2026-11-15");
        assert_eq!(day_in("nowhere", at("2026-11-16T23:30:00Z")), "2026-11-16");
        let day = "2026-11-16".parse().unwrap();
        assert_eq!(midnight_in("Europe/Berlin", day), Some(at("2026-11-15T23:00:00Z")));
    }
}
