//! The current schedule on this machine, with its stored ticks.

use std::time::Duration;

use jiff::Timestamp;

use super::error::CommandError;
use crate::model::RunId;
use crate::schedule::{Decision, DecisionInput, Policy, Schedule, delay_on_host};
use crate::settings::Config;
use crate::store::{Store, StoreError};

#[derive(Debug)]
pub struct Timetable {
    pub schedule: Schedule,
    policy: Policy,
    /// From when on it applies here.
    pub since: Timestamp,
}

impl Timetable {
    /// Starts now.
    pub fn new(config: &Config, now: Timestamp) -> Result<Self, CommandError> {
        let schedule = Schedule::parse(&config.schedule.cron, &config.schedule.timezone)?;
        let delay = delay_on_host(&host(), &schedule, config.schedule.jitter);
        let policy = Policy { delay, catch_up: config.schedule.catch_up };
        Ok(Self { schedule, policy, since: now })
    }

    /// What to do now. The decision on a scheduled time must be recorded before the next call.
    pub async fn decide(
        &self,
        store: &Store,
        now: Timestamp,
        running: Option<RunId>,
    ) -> Result<Decision, StoreError> {
        let last_handled = store.ticks().last(self.schedule.key()).await?;
        let input = DecisionInput { now, last_handled, in_force_since: self.since, running };
        Ok(self.schedule.decide(self.policy, input))
    }

    /// Time until the next scheduled time is due here, regardless of the current one.
    pub fn until_next(&self, now: Timestamp) -> Duration {
        let due = |at: Timestamp| at.checked_sub(self.policy.delay).ok();
        let next = due(now).and_then(|at| self.schedule.next_after(at));
        let until = next.and_then(|next| next.checked_add(self.policy.delay).ok());
        until.map_or(Duration::MAX, |until| {
            Duration::try_from(until.duration_since(now)).unwrap_or_default()
        })
    }
}

/// A stable name of this machine.
fn host() -> String {
    ["/etc/machine-id", "/proc/sys/kernel/hostname"]
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::store::{Journal, TickRow};

    /// Like the service: decide, record, and ask again, a second later if there is nothing to do.
    /// Returns the times that were used and the number of calls.
    async fn follow(
        table: &Timetable,
        journal: &Journal,
        clock: &Clock,
        seconds: i64,
    ) -> (Vec<Timestamp>, i64) {
        let (mut used, mut asked) = (Vec::new(), 0);
        let end = clock.now().as_second() + seconds;
        while clock.now().as_second() < end {
            asked += 1;
            assert!(asked <= 2 * seconds, "it asks again and again at {}", clock.now());
            let decision = table.decide(journal.store(), clock.now(), None).await.unwrap();
            let Decision::Fire { nominal, missed } = decision else {
                clock.advance_ms(1000);
                continue;
            };
            let schedule = table.schedule.key();
            let run = Some(RunId(uuid::Uuid::nil()));
            if journal.ticks().take(TickRow { schedule, nominal, run, missed }).await.unwrap() {
                used.push(nominal);
            }
        }
        (used, asked)
    }

    #[tokio::test]
    async fn after_a_clock_that_was_days_ahead_each_time_is_decided_once() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual("2026-11-16T08:00:30Z".parse().unwrap());
        let store = Store::open(folder.path()).unwrap();
        let journal = Journal::open(store, clock.clone(), None).unwrap();
        let schedule = Schedule::parse("* * * * *", "UTC").unwrap();
        let policy = Policy { delay: Duration::ZERO, catch_up: None };
        let ahead = TickRow {
            schedule: schedule.key(),
            nominal: "2026-11-26T08:00:00Z".parse().unwrap(),
            run: None,
            missed: 0,
        };
        let table = Timetable { schedule, policy, since: clock.now() };
        assert!(journal.ticks().take(ahead).await.unwrap());
        let (used, asked) = follow(&table, &journal, &clock, 180).await;
        assert_eq!(used.len(), 3, "{used:?}");
        assert_eq!(asked, 183, "once a second, and once more after each time used");
        assert_eq!(table.until_next(clock.now()), Duration::from_secs(30));
    }

    #[tokio::test]
    async fn after_a_clock_that_went_back_for_hours_runs_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let schedule = || Schedule::parse("* * * * *", "UTC").unwrap();
        let policy = Policy { delay: Duration::ZERO, catch_up: None };
        // Two hours, and the same again.
        for (begin, seconds, most) in
            [("2026-11-16T08:00:30Z", 7200, 120), ("2026-11-16T08:00:31Z", 600, 10)]
        {
            let clock = Clock::manual(begin.parse().unwrap());
            let journal = Journal::open(store.clone(), clock.clone(), None).unwrap();
            let table = Timetable { schedule: schedule(), policy, since: clock.now() };
            let (used, _) = follow(&table, &journal, &clock, seconds).await;
            assert_eq!(used.len(), most, "from {begin}");
        }
    }
}
