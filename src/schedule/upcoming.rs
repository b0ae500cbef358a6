//! The next ticks for display: local time, UTC, and the effect of clock changes.

use jiff::Timestamp;
use jiff::tz::AmbiguousOffset;
use serde::Serialize;

use super::Schedule;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upcoming {
    /// The nominal time.
    pub utc: Timestamp,
    /// Local time with offset and zone.
    pub local: String,
    pub clock_change: Option<ClockChange>,
}

/// Effect of a clock change on a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockChange {
    /// The local time does not exist on that day; the run starts right after the gap.
    MovedPastGap,
    /// The local time occurs twice; this is the first.
    FirstOfTwo,
    /// The local time occurs twice; this is the second.
    SecondOfTwo,
    /// The clock went forward since the previous tick.
    ClockForward,
    /// The clock went back since the previous tick.
    ClockBack,
}

impl ClockChange {
    pub fn describe(self) -> &'static str {
        match self {
            Self::MovedPastGap => {
                "clock change: this time does not exist, runs right after the \
                                   gap"
            }
            Self::FirstOfTwo => "clock change: first of two occurrences of this time",
            Self::SecondOfTwo => "clock change: second of two occurrences of this time",
            Self::ClockForward => "clock change: clocks went forward since the previous run",
            Self::ClockBack => "clock change: clocks went back since the previous run",
        }
    }
}

impl Schedule {
    pub fn upcoming(&self, from: Timestamp, count: usize) -> Vec<Upcoming> {
        let mut previous = from;
        let ticks = self.ticks_after(from).take(count);
        ticks
            .map(|tick| {
                let clock_change = self.clock_change(previous, tick);
                previous = tick;
                let local = tick.to_zoned(self.timezone().clone());
                let local = local.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string();
                Upcoming { utc: tick, local, clock_change }
            })
            .collect()
    }

    fn clock_change(&self, previous: Timestamp, tick: Timestamp) -> Option<ClockChange> {
        if self.replaces_skipped_time(tick) {
            return Some(ClockChange::MovedPastGap);
        }
        let here = tick.to_zoned(self.timezone().clone());
        let offset = here.offset();
        let ambiguous = self.timezone().to_ambiguous_timestamp(here.datetime());
        if let AmbiguousOffset::Fold { before, .. } = ambiguous.offset() {
            let first = offset == before;
            return Some(if first { ClockChange::FirstOfTwo } else { ClockChange::SecondOfTwo });
        }
        match self.timezone().to_offset(previous).cmp(&offset) {
            std::cmp::Ordering::Less => Some(ClockChange::ClockForward),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(ClockChange::ClockBack),
        }
    }
}

/// One line per tick.
pub fn render(upcoming: &[Upcoming]) -> String {
    let lines = upcoming.iter().map(|tick| {
        let note = tick.clock_change.map(|change| format!("  ({})", change.describe()));
        format!("{}  =  {}{}\n", tick.local, tick.utc, note.unwrap_or_default())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(cron: &str, zone: &str, from: &str, count: usize) -> Vec<Option<ClockChange>> {
        let schedule = Schedule::parse(cron, zone).unwrap();
        let ticks = schedule.upcoming(from.parse().unwrap(), count);
        ticks.into_iter().map(|tick| tick.clock_change).collect()
    }

    #[test]
    fn clock_changes_are_pointed_out() {
        use ClockChange::{ClockBack, ClockForward, FirstOfTwo, MovedPastGap, SecondOfTwo};
        let berlin = "Europe/Berlin";
        assert_eq!(
            changes("30 2 * * *", berlin, "2026-03-28T00:00:00Z", 3),
            [None, Some(MovedPastGap), None]
        );
        assert_eq!(
            changes("30 2 * * *", berlin, "2026-10-24T12:00:00Z", 2),
            [Some(FirstOfTwo), Some(ClockBack)]
        );
        assert_eq!(
            changes("0 * * * *", berlin, "2026-10-24T23:00:00Z", 3),
            [Some(FirstOfTwo), Some(SecondOfTwo), None]
        );
        assert_eq!(
            changes("0 9 * * *", berlin, "2026-03-28T12:00:00Z", 2),
            [Some(ClockForward), None]
        );
    }

    #[test]
    fn lines_show_local_time_and_utc() {
        let schedule = Schedule::parse("30 2 * * *", "America/New_York").unwrap();
        let text = render(&schedule.upcoming("2026-03-07T00:00:00Z".parse().unwrap(), 2));
        assert_eq!(
            text,
            "Sat 2026-03-07 02:30:00 -05:00  =  2026-03-07T07:30:00Z\n\
             Sun 2026-03-08 03:00:00 -04:00  =  2026-03-08T07:00:00Z  \
             (clock change: this time does not exist, runs right after the gap)\n"
        );
    }
}
