//! Decides whether to wait, run, or drop a tick. Pure; the caller records the decision on a nominal
//! time before the next call.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Schedule;
use crate::model::RunId;

/// A tick this late counts as on time: the loop wakes at least every 30 seconds.
const PUNCTUAL: Duration = Duration::from_secs(60);

/// If the clock is set back by more than this, it was wrong before. Nominal times recorded with it
/// would block the schedule until they are reached. Small steps are corrections of a right clock,
/// and no time is used twice because of them.
const TRUSTED_BACKSTEP: Duration = Duration::from_secs(3600);

/// Recorded times after this were written with a wrong clock and are ignored.
pub fn no_later_than(now: Timestamp) -> Timestamp {
    later(now, TRUSTED_BACKSTEP)
}

/// Missed ticks are counted up to this limit.
pub const MISSED_COUNTED: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// This machine's delay after each nominal time, from [`delay_on_host`].
    pub delay: Duration,
    /// A missed tick is run late if it is not older than this. `None`: one interval, which always
    /// covers the latest tick.
    pub catch_up: Option<Duration>,
}

/// The input of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionInput {
    /// Wall time.
    pub now: Timestamp,
    /// The last nominal time recorded for this schedule, whatever its decision, not later than
    /// [`no_later_than`].
    pub last_handled: Option<Timestamp>,
    /// Start of this schedule's use; earlier ticks are ignored.
    pub in_force_since: Timestamp,
    /// The active run, if any.
    pub running: Option<RunId>,
}

/// All variants except `Wait` and `Never` handle a nominal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "kebab-case")]
pub enum Decision {
    /// Nothing is due.
    Wait {
        /// When the next tick is due here: its nominal time plus this machine's delay.
        until: Timestamp,
        nominal: Timestamp,
    },
    /// Run now.
    Fire {
        /// The scheduled time of this run.
        nominal: Timestamp,
        /// Earlier missed ticks that this run covers, up to [`MISSED_COUNTED`].
        missed: u32,
    },
    /// A run is active; the tick is counted and dropped, not queued.
    Skip {
        /// The scheduled time without a run.
        nominal: Timestamp,
        /// The active run.
        blocked_by: RunId,
        /// Earlier ticks dropped with it.
        missed: u32,
    },
    /// Too late to run; counted and dropped.
    #[serde(rename = "lapse")]
    Drop {
        /// The scheduled time without a run.
        nominal: Timestamp,
        /// Earlier ticks dropped with it.
        missed: u32,
    },
    /// This schedule has no further tick.
    Never,
}

impl Schedule {
    /// All ticks since the last handled one become a single decision on the latest of them, so each
    /// nominal time is decided at most once and in ascending order, however the clock jumps.
    pub fn decide(&self, policy: Policy, input: DecisionInput) -> Decision {
        let due_until = input.now.saturating_sub(signed(policy.delay)).unwrap_or(Timestamp::MIN);
        let floor = floor(input, due_until);
        let Some(latest) = self.latest_until(due_until, floor) else {
            return match self.next_after(floor) {
                Some(nominal) => Decision::Wait { until: later(nominal, policy.delay), nominal },
                None => Decision::Never,
            };
        };
        let missed = self.count_between(floor, latest);
        if let Some(blocked_by) = input.running {
            return Decision::Skip { nominal: latest, blocked_by, missed };
        }
        let late = Duration::try_from(due_until.duration_since(latest)).unwrap_or_default();
        if policy.catch_up.is_some_and(|window| late > window.max(PUNCTUAL)) {
            return Decision::Drop { nominal: latest, missed };
        }
        Decision::Fire { nominal: latest, missed }
    }

    /// Ticks strictly between two times, counted up to [`MISSED_COUNTED`].
    fn count_between(&self, after: Timestamp, before: Timestamp) -> u32 {
        let ticks = self.ticks_after(after).take_while(|tick| *tick < before);
        ticks.take(MISSED_COUNTED as usize).fold(0, |count, _| count + 1)
    }
}

/// Ticks up to this time are already handled.
fn floor(input: DecisionInput, due_until: Timestamp) -> Timestamp {
    let floor = input.last_handled.unwrap_or(input.in_force_since);
    if floor > no_later_than(input.now) {
        // The clock was set back. Only what is due this minute, and not what was due before this
        // schedule applied; a start that lies ahead is of the old clock as well.
        let minute = due_until.saturating_sub(signed(PUNCTUAL)).unwrap_or(Timestamp::MIN);
        let start = Some(input.in_force_since).filter(|since| *since <= input.now);
        return start.map_or(minute, |since| minute.max(since));
    }
    floor
}

fn signed(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX)
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(signed(by)).unwrap_or(Timestamp::MAX)
}

/// A constant delay per machine, spread over `0..jitter` across machines.
pub fn delay_on_host(host: &str, schedule: &Schedule, jitter: Duration) -> Duration {
    let bound = u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX);
    if bound == 0 {
        return Duration::ZERO;
    }
    let digest = Sha256::digest(format!("{host}\n{}", schedule.key()));
    let number = digest.iter().take(8).fold(0_u64, |n, byte| (n << 8) | u64::from(*byte));
    Duration::from_millis(number % bound)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::SignedDuration;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn half_hourly() -> Schedule {
        Schedule::parse("*/30 * * * *", "UTC").unwrap()
    }

    const PLAIN: Policy = Policy { delay: Duration::ZERO, catch_up: None };

    fn seen_at(now: &str, last: Option<&str>) -> DecisionInput {
        DecisionInput {
            now: at(now),
            last_handled: last.map(at),
            in_force_since: at("2026-01-01T11:50:00Z"),
            running: None,
        }
    }

    #[test]
    fn a_new_schedule_waits_for_its_first_tick_and_runs_it() {
        let early = half_hourly().decide(PLAIN, seen_at("2026-01-01T11:59:59Z", None));
        let noon = at("2026-01-01T12:00:00Z");
        assert_eq!(early, Decision::Wait { until: noon, nominal: noon });
        let due = half_hourly().decide(PLAIN, seen_at("2026-01-01T12:00:00.2Z", None));
        assert_eq!(due, Decision::Fire { nominal: noon, missed: 0 });
    }

    #[test]
    fn missed_ticks_become_one() {
        let asleep = seen_at("2026-01-01T18:10:00Z", Some("2026-01-01T12:00:00Z"));
        let nominal = at("2026-01-01T18:00:00Z");
        assert_eq!(half_hourly().decide(PLAIN, asleep), Decision::Fire { nominal, missed: 11 });
        let narrow = Policy { catch_up: Some(Duration::from_secs(300)), ..PLAIN };
        assert_eq!(half_hourly().decide(narrow, asleep), Decision::Drop { nominal, missed: 11 });
        let wide = Policy { catch_up: Some(Duration::from_secs(600)), ..PLAIN };
        assert_eq!(half_hourly().decide(wide, asleep), Decision::Fire { nominal, missed: 11 });
        let off_for_long = seen_at("2026-01-01T18:10:00Z", Some("2025-01-01T12:00:00Z"));
        let many = Decision::Fire { nominal, missed: MISSED_COUNTED };
        assert_eq!(half_hourly().decide(PLAIN, off_for_long), many);
    }

    #[test]
    fn without_a_catch_up_window_a_tick_may_still_be_seconds_late() {
        let policy = Policy { catch_up: Some(Duration::ZERO), ..PLAIN };
        let due = half_hourly()
            .decide(policy, seen_at("2026-01-01T12:00:29Z", Some("2026-01-01T11:30:00Z")));
        assert!(matches!(due, Decision::Fire { missed: 0, .. }), "{due:?}");
    }

    #[test]
    fn a_tick_during_a_run_is_skipped_and_names_the_run() {
        let run = RunId(Uuid::from_u128(7));
        let busy = DecisionInput {
            running: Some(run),
            ..seen_at("2026-01-01T12:30:01Z", Some("2026-01-01T12:00:00Z"))
        };
        let nominal = at("2026-01-01T12:30:00Z");
        let decision = half_hourly().decide(PLAIN, busy);
        assert_eq!(decision, Decision::Skip { nominal, blocked_by: run, missed: 0 });
    }

    #[test]
    fn a_clock_set_back_does_not_run_a_tick_again() {
        let back = seen_at("2026-01-01T11:20:00Z", Some("2026-01-01T12:00:00Z"));
        let next = at("2026-01-01T12:30:00Z");
        assert_eq!(
            half_hourly().decide(PLAIN, back),
            Decision::Wait { until: next, nominal: next }
        );
    }

    #[test]
    fn a_clock_that_was_years_ahead_does_not_mute_the_schedule() {
        let fixed = seen_at("2026-01-01T12:00:01Z", Some("2031-01-01T12:00:00Z"));
        let nominal = at("2026-01-01T12:00:00Z");
        assert_eq!(half_hourly().decide(PLAIN, fixed), Decision::Fire { nominal, missed: 0 });
        let between = seen_at("2026-01-01T12:10:00Z", Some("2031-01-01T12:00:00Z"));
        assert!(matches!(half_hourly().decide(PLAIN, between), Decision::Wait { .. }));
    }

    #[test]
    fn the_delay_moves_the_run_and_not_its_nominal_time() {
        let policy = Policy { delay: Duration::from_secs(90), ..PLAIN };
        let nominal = at("2026-01-01T12:30:00Z");
        let last = Some("2026-01-01T12:00:00Z");
        let early = half_hourly().decide(policy, seen_at("2026-01-01T12:31:29Z", last));
        assert_eq!(early, Decision::Wait { until: at("2026-01-01T12:31:30Z"), nominal });
        let due = half_hourly().decide(policy, seen_at("2026-01-01T12:31:30Z", last));
        assert_eq!(due, Decision::Fire { nominal, missed: 0 });
    }

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        let crons =
            ["*/30 * * * *", "30 2 * * *", "0,20,40 1-3 * * *", "0 */2 * * *", "*/7 * * * * *"];
        let zones = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"];
        (prop::sample::select(crons.to_vec()), prop::sample::select(zones.to_vec()))
            .prop_map(|(cron, zone)| Schedule::parse(cron, zone).unwrap())
    }

    /// Starts around clock changes of all the zones above, in both directions.
    fn any_start() -> impl Strategy<Value = Timestamp> {
        let changes = [
            "2026-03-29T00:30:00Z",
            "2026-10-25T00:10:00Z",
            "2026-03-08T06:30:00Z",
            "2026-11-01T05:10:00Z",
            "2026-04-04T14:20:00Z",
            "2026-10-03T15:10:00Z",
            "2026-06-01T00:00:00Z",
        ];
        prop::sample::select(changes.to_vec()).prop_map(at)
    }

    /// Milliseconds between two readings of the clock: mostly small, sometimes a suspend, sometimes
    /// a clock that is corrected.
    fn any_step() -> impl Strategy<Value = (i64, bool)> {
        let step = prop_oneof![
            6 => 1_i64..30_000,
            2 => 30_000_i64..7_200_000,
            1 => 7_200_000_i64..400_000_000,
            1 => -300_000_i64..0,
        ];
        (step, prop::bool::weighted(0.3))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_nominal_time_is_decided_once_and_in_order(
            schedule in any_schedule(),
            start in any_start(),
            steps in prop::collection::vec(any_step(), 1..80),
            delay in 0_u64..600,
            catch_up in prop::option::of(0_u64..4000),
        ) {
            let policy = Policy {
                delay: Duration::from_secs(delay),
                catch_up: catch_up.map(Duration::from_secs),
            };
            let mut now = start;
            let mut handled: Vec<Timestamp> = Vec::new();
            for (step, busy) in steps {
                now += SignedDuration::from_millis(step);
                let running = busy.then_some(RunId(Uuid::nil()));
                let last_handled = handled.last().copied();
                let input = DecisionInput { now, last_handled, in_force_since: start, running };
                let nominal = match schedule.decide(policy, input) {
                    Decision::Wait { until, nominal } => {
                        prop_assert!(until > now && nominal > last_handled.unwrap_or(start));
                        continue;
                    }
                    Decision::Fire { nominal, .. } => {
                        prop_assert!(!busy);
                        nominal
                    }
                    Decision::Skip { nominal, .. } => {
                        prop_assert!(busy);
                        nominal
                    }
                    Decision::Drop { nominal, .. } => {
                        prop_assert!(catch_up.is_some());
                        nominal
                    }
                    Decision::Never => panic!("these schedules go on"),
                };
                prop_assert!(nominal + SignedDuration::try_from(policy.delay).unwrap() <= now);
                let just_before = nominal - SignedDuration::from_millis(1);
                prop_assert_eq!(schedule.next_after(just_before), Some(nominal));
                // A second call at once has nothing left to decide about the past.
                let settled = DecisionInput { last_handled: Some(nominal), ..input };
                let waits = matches!(schedule.decide(policy, settled), Decision::Wait { .. });
                prop_assert!(waits);
                handled.push(nominal);
            }
            prop_assert!(handled.is_sorted());
            prop_assert_eq!(handled.iter().collect::<BTreeSet<_>>().len(), handled.len());
        }

        #[test]
        fn a_loop_that_never_oversleeps_misses_nothing(
            schedule in any_schedule(),
            start in any_start(),
            naps in prop::collection::vec(1_i64..30_000, 200),
        ) {
            let mut now = start;
            let mut fired = Vec::new();
            for nap in naps {
                now += SignedDuration::from_millis(nap);
                let last_handled = fired.last().copied();
                let input =
                    DecisionInput { now, last_handled, in_force_since: start, running: None };
                if let Decision::Fire { nominal, missed } = schedule.decide(PLAIN, input) {
                    let gap = i64::try_from(schedule.interval_hint().as_secs()).unwrap();
                    prop_assert!(missed == 0 || gap < 30);
                    fired.push(nominal);
                }
            }
            if schedule.interval_hint().as_secs() >= 30 {
                let due = schedule.ticks_after(start).take_while(|tick| *tick <= now);
                prop_assert_eq!(fired, due.collect::<Vec<_>>());
            }
        }

        #[test]
        fn the_delay_is_bounded_and_stable(host in "[a-z0-9-]{1,20}", seconds in 0_u64..100_000) {
            let jitter = Duration::from_secs(seconds);
            let delay = delay_on_host(&host, &half_hourly(), jitter);
            prop_assert!(delay < jitter || jitter.is_zero());
            prop_assert_eq!(delay, delay_on_host(&host, &half_hourly(), jitter));
        }
    }

    #[test]
    fn machines_are_spread() {
        let jitter = Duration::from_secs(60);
        let delays: BTreeSet<u64> = (0..100)
            .map(|n| delay_on_host(&format!("host-{n}"), &half_hourly(), jitter).as_secs() / 10)
            .collect();
        assert_eq!(delays.len(), 6, "each of the six parts of the minute has its machines");
    }
}
