//! A cron expression in a time zone, as a sequence of instants.
//!
//! Clock changes: a schedule that names hours (`30 2 * * *`, `0 */2 * * *`) follows local time. A
//! skipped local time runs once right after the gap, and a repeated one runs only the first time. A
//! schedule that fires in every hour (`*/30 * * * *`) is an interval: it keeps its pace through
//! both changes, so the repeated hour has its runs twice and the skipped hour needs no replacement.
//! croner does this only for single times, so lists and ranges of hours are searched in local time
//! and converted here.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};

/// A cron expression and its time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    timezone: TimeZone,
    /// Fires in every hour of the day, so clock changes do not affect it.
    every_hour: bool,
    expression: String,
    timezone_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error(
        "`{expression}` is not a cron expression ({reason}); write five fields (minute, hour, day \
         of month, month, day of week), or six with seconds in front, such as `*/30 * * * *`"
    )]
    Malformed {
        expression: String,
        /// The parser's message.
        reason: String,
    },
    /// The expression is well formed, but no date matches it.
    #[error(
        "`{expression}` never fires: no date matches it; check the day of month against the month"
    )]
    NeverFires { expression: String },
    #[error(
        "`{name}` is not a time zone{}; write an IANA name such as `Europe/Berlin` or `UTC`",
        .suggestion.as_ref().map(|s| format!(" (did you mean `{s}`?)")).unwrap_or_default()
    )]
    UnknownTimezone {
        name: String,
        /// The most similar zone name.
        suggestion: Option<String>,
    },
}

/// Start of the search for the first tick and the usual interval. Any fixed time works; from the
/// first day of a leap year, every kind of day occurs within four years.
const REFERENCE: Timestamp = Timestamp::constant(1_704_067_200, 0);

/// Ticks examined for the usual interval: more than a day of half-hourly ticks.
const INTERVALS_SEEN: usize = 64;

impl Schedule {
    /// Parses a cron expression of five fields, or six with seconds, in an IANA time zone.
    pub fn parse(expression: &str, timezone_name: &str) -> Result<Self, ScheduleError> {
        let timezone = find_timezone(timezone_name)?;
        let cron = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build()
            .parse(expression)
            .map_err(|error| ScheduleError::Malformed {
                expression: expression.into(),
                reason: error.to_string().trim_end_matches('.').to_owned(),
            })?;
        let schedule = Self {
            every_hour: cron.pattern.hours.values().len() == 24,
            cron,
            timezone,
            expression: expression.trim().into(),
            timezone_name: timezone_name.into(),
        };
        match schedule.next_after(REFERENCE) {
            Some(_) => Ok(schedule),
            None => Err(ScheduleError::NeverFires { expression: expression.into() }),
        }
    }

    /// The first nominal time strictly after `after`.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let here = after.to_zoned(self.timezone.clone());
        if self.every_hour {
            let found: Zoned = self.cron.find_next_occurrence(&here, false).ok()?;
            return Some(found.timestamp()).filter(|tick| *tick > after);
        }
        let mut wall = here.datetime();
        loop {
            wall = self.next_on_the_wall(wall)?;
            // In the second pass of a repeated hour, these local times are already over.
            let (tick, _) = self.place(wall)?;
            if tick > after {
                return Some(tick);
            }
        }
    }

    fn next_on_the_wall(&self, wall: DateTime) -> Option<DateTime> {
        let as_if_utc = wall.to_zoned(TimeZone::UTC).ok()?;
        self.cron.find_next_occurrence(&as_if_utc, false).ok().map(|found| found.datetime())
    }

    /// The instant at which local time first equals or passes `wall`.
    fn place(&self, wall: DateTime) -> Option<(Timestamp, PlacedTime)> {
        let ambiguous = self.timezone.to_ambiguous_timestamp(wall);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                // With the new offset, a skipped time is just before the change.
                let before_change = after.to_timestamp(wall).ok()?;
                let change = self.timezone.following(before_change).next()?;
                Some((change.timestamp(), PlacedTime::AfterGap))
            }
            _ => Some((ambiguous.earlier().ok()?, PlacedTime::AsWritten)),
        }
    }

    /// Whether a tick replaces a time that the clock change skipped.
    pub(super) fn replaces_skipped_time(&self, tick: Timestamp) -> bool {
        if self.every_hour {
            return false;
        }
        // The last local time before the change; the skipped times follow it.
        let Ok(before) = tick.checked_sub(jiff::SignedDuration::from_secs(1)) else {
            return false;
        };
        let wall = before.to_zoned(self.timezone.clone()).datetime();
        self.next_on_the_wall(wall)
            .and_then(|wall| self.place(wall))
            .is_some_and(|(placed, how)| placed == tick && how == PlacedTime::AfterGap)
    }

    /// The last nominal time at or before `at`, searched no further back than `floor`.
    ///
    /// Found by stepping forward from ever earlier starts, so that it always agrees with
    /// [`Schedule::next_after`].
    pub fn latest_until(&self, at: Timestamp, floor: Timestamp) -> Option<Timestamp> {
        let mut reach = Duration::from_secs(1);
        let first = loop {
            let start = at.checked_sub(reach).unwrap_or(Timestamp::MIN).max(floor);
            match self.next_after(start).filter(|tick| *tick <= at) {
                Some(tick) => break tick,
                None if start == floor => return None,
                None => reach *= 2,
            }
        };
        let mut latest = first;
        while let Some(next) = self.next_after(latest).filter(|tick| *tick <= at) {
            latest = next;
        }
        Some(latest)
    }

    /// The shortest time between two of the first few dozen ticks; a day if it fires only once.
    pub fn interval_hint(&self) -> Duration {
        let mut previous = None;
        let mut shortest = None;
        for tick in self.ticks_after(REFERENCE).take(INTERVALS_SEEN) {
            if let Some(previous) = previous {
                let gap = Duration::try_from(tick.duration_since(previous)).unwrap_or_default();
                shortest = Some(shortest.map_or(gap, |known: Duration| known.min(gap)));
            }
            previous = Some(tick);
        }
        shortest.unwrap_or(Duration::from_secs(86_400))
    }

    /// Every nominal time after `after`, in order.
    pub fn ticks_after(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(after), |tick| self.next_after(*tick))
    }

    pub fn timezone(&self) -> &TimeZone {
        &self.timezone
    }

    /// Expression and time zone: the schedule's key in the table of ticks.
    pub fn key(&self) -> String {
        format!("{} {}", self.expression, self.timezone_name)
    }
}

/// How a local time was converted to an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlacedTime {
    AsWritten,
    AfterGap,
}

fn find_timezone(name: &str) -> Result<TimeZone, ScheduleError> {
    if let Ok(timezone) = TimeZone::get(name)
        && !name.is_empty()
    {
        return Ok(timezone);
    }
    let lower = name.trim().to_lowercase().replace(' ', "_");
    // A city name alone is a frequent mistake, so the last part of each name is compared too.
    let suggestion = jiff::tz::db()
        .available()
        .map(|known| {
            let known = known.to_string();
            let whole = strsim::normalized_damerau_levenshtein(&lower, &known.to_lowercase());
            let city = known.rsplit('/').next().unwrap_or(&known).to_lowercase();
            (whole.max(strsim::normalized_damerau_levenshtein(&lower, &city)), known)
        })
        .filter(|(similarity, _)| *similarity >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known);
    Err(ScheduleError::UnknownTimezone { name: name.into(), suggestion })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(cron, zone).unwrap();
        let after: Timestamp = after.parse().unwrap();
        schedule.ticks_after(after).take(count).map(|tick| tick.to_string()).collect()
    }

    #[test]
    fn a_skipped_time_runs_once_right_after_the_gap() {
        let cases = [
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("*/20 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
            ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"),
            ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z"),
            ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z"),
        ];
        for (cron, zone, after, expected) in cases {
            let found = ticks(cron, zone, after, 2);
            assert_eq!(found[0], expected, "{cron} {zone}");
            let schedule = Schedule::parse(cron, zone).unwrap();
            assert!(schedule.replaces_skipped_time(found[0].parse().unwrap()), "{cron} {zone}");
            assert!(!schedule.replaces_skipped_time(found[1].parse().unwrap()), "{cron} {zone}");
            let gap =
                found[1].parse::<Timestamp>().unwrap().duration_since(expected.parse().unwrap());
            assert!(gap.as_hours() >= 22, "once, not again the same night: {found:?}");
        }
        // A regular run at the end of the gap counts for the skipped one: one run, not two.
        let found = ticks("0 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
        assert_eq!(found, ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
    }

    #[test]
    fn a_doubled_time_runs_the_first_time_only() {
        let cases = [
            ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
            ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"),
            ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-04T14:45:00Z"),
        ];
        for (cron, zone, after, expected) in cases {
            let found = ticks(cron, zone, after, 2);
            assert_eq!(found[0], expected, "{cron} {zone}");
            let gap =
                found[1].parse::<Timestamp>().unwrap().duration_since(expected.parse().unwrap());
            assert!(gap.as_hours() >= 24, "{found:?}");
        }
        let found = ticks("0,30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3);
        assert_eq!(found, ["2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:00:00Z"]);
        // Started within the second pass, the time is already over.
        let found = ticks("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
        assert_eq!(found, ["2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn an_interval_keeps_its_pace_through_clock_changes() {
        let zones = [
            ("Europe/Berlin", "2026-03-29T00:00:00Z"),
            ("Europe/Berlin", "2026-10-25T00:00:00Z"),
            ("America/New_York", "2026-11-01T04:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T13:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-03T13:00:00Z"),
        ];
        for (zone, after) in zones {
            let schedule = Schedule::parse("*/10 * * * *", zone).unwrap();
            let mut previous: Timestamp = after.parse().unwrap();
            for tick in schedule.ticks_after(previous).take(40) {
                assert_eq!(tick.duration_since(previous).as_mins(), 10, "{zone} {tick}");
                previous = tick;
            }
        }
    }

    #[test]
    fn what_is_no_schedule_says_so() {
        let never = Schedule::parse("0 0 30 2 *", "UTC").unwrap_err();
        assert!(matches!(never, ScheduleError::NeverFires { .. }), "{never}");
        assert!(Schedule::parse("0 0 29 2 *", "UTC").is_ok(), "leap days do come");
        for malformed in ["", "* * * *", "60 * * * *", "* * * * * * 2030", "every day"] {
            let error = Schedule::parse(malformed, "UTC").unwrap_err();
            assert!(matches!(error, ScheduleError::Malformed { .. }), "{malformed}: {error}");
        }
        for (written, meant) in
            [("Europe/Berln", "Europe/Berlin"), ("New York", "America/New_York"), ("", "")]
        {
            let Err(ScheduleError::UnknownTimezone { suggestion, .. }) =
                Schedule::parse("* * * * *", written)
            else {
                panic!("{written} is no time zone");
            };
            assert_eq!(suggestion.unwrap_or_default(), meant);
        }
    }

    #[test]
    fn the_interval_is_the_shortest_usual_one() {
        for (cron, seconds) in [
            ("*/30 * * * *", 1800),
            ("* * * * * *", 1),
            ("0 9,17 * * 1-5", 8 * 3600),
            ("@daily", 86_400),
        ] {
            let schedule = Schedule::parse(cron, "UTC").unwrap();
            assert_eq!(schedule.interval_hint().as_secs(), seconds, "{cron}");
        }
    }

    #[test]
    fn the_latest_tick_is_found_from_any_distance() {
        let schedule = Schedule::parse("30 2 * * *", "Europe/Berlin").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let latest = |until, floor| schedule.latest_until(at(until), at(floor));
        let year = "2026-01-01T00:00:00Z";
        assert_eq!(latest("2026-03-29T09:00:00Z", year), Some(at("2026-03-29T01:00:00Z")));
        assert_eq!(latest("2026-03-29T01:00:00Z", year), Some(at("2026-03-29T01:00:00Z")));
        assert_eq!(latest("2026-03-29T09:00:00Z", "2026-03-29T01:00:00Z"), None);
    }
}
