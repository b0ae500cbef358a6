//! A cron expression in a time zone, as a sequence of instants.

use std::time::Duration;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// A cron expression and the time zone it is read in.
#[derive(Debug, Clone)]
pub struct Schedule {
    cron: Cron,
    timezone: TimeZone,
    expression: String,
    timezone_name: String,
}

/// Why there is no such schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression cannot be read.
    #[error(
        "`{expression}` is not a cron expression ({reason}); write five fields (minute, hour, day \
         of month, month, day of week), or six with seconds in front, such as `*/30 * * * *`"
    )]
    Malformed {
        /// As written.
        expression: String,
        /// What the parser said.
        reason: String,
    },
    /// The expression is well formed and matches no day there is.
    #[error(
        "`{expression}` never fires: no date matches it; check the day of month against the month"
    )]
    NeverFires {
        /// As written.
        expression: String,
    },
    /// No such time zone.
    #[error(
        "`{name}` is not a time zone{}; write an IANA name such as `Europe/Berlin` or `UTC`",
        .suggestion.as_ref().map(|s| format!(" (did you mean `{s}`?)")).unwrap_or_default()
    )]
    UnknownTimezone {
        /// As written.
        name: String,
        /// The nearest name there is.
        suggestion: Option<String>,
    },
}

/// Where the search for a first tick and for the usual interval starts: any fixed time will do, and
/// the first day of a leap year sees every kind of day within four years.
const REFERENCE: Timestamp = Timestamp::constant(1_704_067_200, 0);

/// How many ticks are looked at for the usual interval: more than a day of half-hourly ticks.
const INTERVALS_SEEN: usize = 64;

impl Schedule {
    /// Reads a cron expression of five fields, or six with seconds, in an IANA time zone.
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
        let mut from = after.to_zoned(self.timezone.clone());
        // A search may answer with its own start when a clock change lies in between; time must
        // move on, so it is asked again from a second later.
        for _ in 0..3 {
            let found: Zoned = self.cron.find_next_occurrence(&from, false).ok()?;
            if found.timestamp() > after {
                return Some(found.timestamp());
            }
            from = from.checked_add(jiff::Span::new().seconds(1)).ok()?;
        }
        None
    }

    /// The last nominal time at or before `at`, not looking further back than `floor`.
    ///
    /// Found by stepping forward from ever earlier starts, so that it can never disagree with
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

    /// The shortest time between two ticks, as far as the first few dozen show; a day for a
    /// schedule that fires only once.
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

    /// The time zone.
    pub fn timezone(&self) -> &TimeZone {
        &self.timezone
    }

    /// Expression and time zone as one text: the schedule's name in the table of ticks.
    pub fn key(&self) -> String {
        format!("{} {}", self.expression, self.timezone_name)
    }
}

fn find_timezone(name: &str) -> Result<TimeZone, ScheduleError> {
    if let Ok(timezone) = TimeZone::get(name)
        && !name.is_empty()
    {
        return Ok(timezone);
    }
    let lower = name.trim().to_lowercase().replace(' ', "_");
    // A city alone is the most frequent slip: compare with the last part of each name, too.
    let suggestion = jiff::tz::db()
        .available()
        .map(|known| {
            let known = known.to_string();
            let whole = strsim::normalized_damerau_levenshtein(&lower, &known.to_lowercase());
            let city = known.rsplit('/').next().unwrap_or(&known).to_lowercase();
            (whole.max(strsim::normalized_damerau_levenshtein(&lower, &city)), known)
        })
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known);
    Err(ScheduleError::UnknownTimezone { name: name.into(), suggestion })
}
