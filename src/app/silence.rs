//! Notices to the webhook when nothing happens: scheduled runs that did not happen, a schedule that
//! stays paused, weeks without a finding. Each is sent once; a failed one is tried again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::Setting;
use super::error::CommandError;
use crate::report::moment::minute;
use crate::report::webhook;
use crate::schedule::Schedule;
use crate::settings::human;
use crate::store::{Journal, Quiet, Store};

/// Between two checks of a running service.
pub const EVERY: SignedDuration = SignedDuration::from_mins(10);
/// Further missed times are not counted.
const MAX_COUNTED: usize = 1000;

/// A notice: what it is about decides whether it was sent already.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SilenceNotice {
    name: &'static str,
    about: String,
    lines: Vec<String>,
}

/// Sends what is new. `schedule` is the one that runs here, and since when; without one, missed runs
/// are not noticed.
pub async fn tell(setting: &Setting, store: &Store, schedule: Option<(&Schedule, Timestamp)>) {
    if let Err(error) = send_new(setting, store, schedule).await {
        tracing::error!(%error, "could not check for silence");
    }
}

async fn send_new(
    setting: &Setting,
    store: &Store,
    schedule: Option<(&Schedule, Timestamp)>,
) -> Result<(), CommandError> {
    let (report, now) = (&setting.config.report, setting.clock.now());
    let Some(address) = setting.environment.text(&report.webhook_env) else { return Ok(()) };
    let address = SecretString::from(address);
    let quiet = store.ticks().quiet(now - no_finding_span(setting)).await?;
    let monitor = &setting.config.monitor;
    let missed = schedule.and_then(|(schedule, since)| {
        missed_runs(schedule, since, &quiet, monitor.missed_runs, now)
    });
    let notices = [
        missed,
        monitor.paused_for.and_then(|span| paused(&quiet, span, now)),
        monitor.no_finding_for.and_then(|span| no_finding(&quiet, span, now)),
    ];
    let journal = Journal::open(store.clone(), setting.clock.clone(), None)?;
    for notice in notices.into_iter().flatten() {
        if quiet.told.get(notice.name) == Some(&notice.about) {
            continue;
        }
        let message = webhook::notice(report.webhook_style, &notice.lines);
        match webhook::send(&address, &message, Duration::from_secs(1)).await {
            Ok(()) => {
                tracing::warn!(
                    notice = notice.name,
                    text = notice.lines.join(" "),
                    "told the webhook"
                );
                journal.ticks().note_told(notice.name, notice.about).await?;
            }
            Err(error) => {
                tracing::error!(%error, notice = notice.name, "webhook delivery failed");
            }
        }
    }
    Ok(())
}

fn no_finding_span(setting: &Setting) -> SignedDuration {
    let span = setting.config.monitor.no_finding_for.unwrap_or_default();
    SignedDuration::try_from(span).unwrap_or(SignedDuration::ZERO)
}

/// Scheduled times since the last run, or between the last two, that no run used.
fn missed_runs(
    schedule: &Schedule,
    in_force_since: Timestamp,
    quiet: &Quiet,
    most: u32,
    now: Timestamp,
) -> Option<SilenceNotice> {
    let most = usize::try_from(most).ok().filter(|most| *most > 0)?;
    if quiet.paused_since.is_some() {
        return None;
    }
    let resumed = quiet.resumed_at.unwrap_or(Timestamp::MIN);
    let passed = |from: Timestamp, to: Timestamp| {
        let times = schedule.ticks_after(from.max(resumed));
        times.take_while(|time| *time < to).take(MAX_COUNTED).count()
    };
    let last = quiet.last_runs.first().copied();
    // Before this process was started, nobody could have started a run: that is the second case.
    let waiting = passed(last.unwrap_or(in_force_since).max(in_force_since), now);
    let (count, since, until) = if waiting >= most {
        (waiting, last.unwrap_or(in_force_since), None)
    } else {
        let [last, before] = quiet.last_runs[..] else { return None };
        // The last one was used by the run itself.
        let missed = passed(before, last).saturating_sub(1);
        (missed >= most).then_some((missed, before, Some(last)))?
    };
    let title = format!("heartbeat missed {count} scheduled runs");
    let (text, about) = match until {
        None => (
            format!(
                "No run has started since {}. Look at `heartbeat status` and at the service's log.",
                minute(since)
            ),
            format!("since {since}"),
        ),
        Some(until) => (
            format!(
                "There was no run between {} and {}; it runs again now. The machine was off or \
                 asleep, the service was stopped, or a run took too long: `heartbeat runs` and the \
                 service's log show which.",
                minute(since),
                minute(until)
            ),
            // The gap that may have been told while it lasted.
            format!("since {since}"),
        ),
    };
    Some(SilenceNotice { name: "missed_runs", about, lines: vec![title, text] })
}

/// Again after each further span.
fn paused(quiet: &Quiet, span: Duration, now: Timestamp) -> Option<SilenceNotice> {
    let since = quiet.paused_since?;
    let times = spans(since, span, now)?;
    let mut text =
        format!("It was paused on {} and starts no runs until `heartbeat resume`.", minute(since));
    if !quiet.pause_note.is_empty() {
        text.push_str(&format!(" The reason given: {}", quiet.pause_note));
    }
    let title = format!("heartbeat has been paused for {}", human::format_duration(span * times));
    let about = format!("{since} {times}");
    Some(SilenceNotice { name: "paused", about, lines: vec![title, text] })
}

fn no_finding(quiet: &Quiet, span: Duration, now: Timestamp) -> Option<SilenceNotice> {
    let since = quiet.last_finding.or(quiet.watching_since)?;
    let times = spans(since, span, now)?;
    if quiet.changed_items == 0 || quiet.paused_since.is_some() {
        return None;
    }
    let title =
        format!("heartbeat has had no finding for {}", human::format_duration(span * times));
    let text = format!(
        "{} items changed in that time; {} wait and {} are parked. `heartbeat items` shows triage's \
         reasons, `heartbeat doctor` what may be wrong.",
        quiet.changed_items, quiet.waiting_items, quiet.parked_items
    );
    let about = format!("{since} {times}");
    Some(SilenceNotice { name: "no_finding", about, lines: vec![title, text] })
}

/// How many whole spans have passed; `None` if not even one.
fn spans(since: Timestamp, span: Duration, now: Timestamp) -> Option<u32> {
    let passed = Duration::try_from(now.duration_since(since)).ok()?;
    let times = passed.as_secs().checked_div(span.as_secs())?;
    u32::try_from(times).ok().filter(|times| *times > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn hourly() -> Schedule {
        Schedule::parse("0 * * * *", "UTC").unwrap()
    }

    fn quiet(runs: &[&str]) -> Quiet {
        Quiet { last_runs: runs.iter().map(|run| at(run)).collect(), ..Quiet::default() }
    }

    #[test]
    fn runs_that_do_not_start_are_noticed_and_a_pause_is_not() {
        let started = at("2026-11-16T00:00:00Z");
        let mut state = quiet(&["2026-11-16T08:00:01Z", "2026-11-16T07:00:01Z"]);
        let notice = |state: &Quiet, now| missed_runs(&hourly(), started, state, 3, at(now));
        assert_eq!(notice(&state, "2026-11-16T10:59:00Z"), None, "two are not three");
        let found = notice(&state, "2026-11-16T11:05:00Z").unwrap();
        assert_eq!(found.lines[0], "heartbeat missed 3 scheduled runs");
        assert!(found.lines[1].contains("2026-11-16 08:00"), "{found:?}");
        state.resumed_at = Some(at("2026-11-16T10:30:00Z"));
        assert_eq!(notice(&state, "2026-11-16T11:05:00Z"), None, "it was paused in between");
        state.paused_since = Some(at("2026-11-16T10:30:00Z"));
        assert_eq!(notice(&state, "2026-11-17T11:05:00Z"), None, "it is paused");
    }

    #[test]
    fn a_machine_that_was_off_is_noticed_after_it_is_back() {
        let started = at("2026-11-16T14:30:00Z");
        let state = quiet(&["2026-11-16T14:30:05Z", "2026-11-16T08:00:01Z"]);
        let found = missed_runs(&hourly(), started, &state, 3, at("2026-11-16T14:31:00Z")).unwrap();
        assert_eq!(found.lines[0], "heartbeat missed 5 scheduled runs");
        assert!(found.lines[1].contains("between 2026-11-16 08:00"), "{found:?}");
        let usual = quiet(&["2026-11-16T14:30:05Z", "2026-11-16T13:00:01Z"]);
        let now = at("2026-11-16T14:31:00Z");
        assert_eq!(missed_runs(&hourly(), started, &usual, 3, now), None);
        assert_eq!(missed_runs(&hourly(), started, &state, 0, now), None, "turned off");
    }

    #[test]
    fn a_week_of_pause_and_two_weeks_without_a_finding_are_noticed_again_and_again() {
        let week = Duration::from_hours(24 * 7);
        let mut state = quiet(&[]);
        state.paused_since = Some(at("2026-11-01T00:00:00Z"));
        state.pause_note = "release".into();
        assert_eq!(paused(&state, week, at("2026-11-07T23:00:00Z")), None);
        let first = paused(&state, week, at("2026-11-08T01:00:00Z")).unwrap();
        assert!(first.lines[1].contains("release"), "{first:?}");
        assert_eq!(paused(&state, week, at("2026-11-14T01:00:00Z")).unwrap().about, first.about);
        assert_ne!(paused(&state, week, at("2026-11-15T01:00:00Z")).unwrap().about, first.about);

        let mut state = Quiet { last_finding: Some(at("2026-11-01T00:00:00Z")), ..quiet(&[]) };
        let later = at("2026-11-16T00:00:00Z");
        assert_eq!(no_finding(&state, week * 2, later), None, "nothing changed");
        state.changed_items = 12;
        assert!(no_finding(&state, week * 2, later).unwrap().lines[1].starts_with("12 items"));
        state.last_finding = Some(at("2026-11-10T00:00:00Z"));
        assert_eq!(no_finding(&state, week * 2, later), None);
    }
}
