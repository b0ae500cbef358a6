//! The digest: what a team reads once a day or a week instead of a message per run. It covers the
//! time since the digest before, so that nothing is left out when the machine was off.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;

use super::Setting;
use super::after_run::{Reporter, write_all};
use super::error::CommandError;
use crate::event::Reason;
use crate::model::{Phase, SourceRecord};
use crate::report::digest::{Report, Scope};
use crate::report::moment::minute;
use crate::report::webhook;
use crate::schedule::Schedule;
use crate::settings::Config;
use crate::store::{ItemRow, Journal, Quiet, Store};

/// The name under which its time is remembered.
const NAME: &str = "digest";
/// Wait before the second attempt at a webhook.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Whether a digest became due after `last`: it is then sent without waiting for the next check.
pub fn is_due(config: &Config, last: Timestamp, now: Timestamp) -> bool {
    let schedule = Schedule::parse(&config.report.digest, &config.schedule.timezone);
    schedule.is_ok_and(|schedule| due(&schedule, last, now).is_some())
}

/// Sends and writes the digest if its time has come since the last one. Failures are logged, and the
/// next call tries again.
pub async fn send_if_due(setting: &Setting, store: &Store) {
    if let Err(error) = send(setting, store).await {
        tracing::error!(%error, "could not send the digest");
    }
}

async fn send(setting: &Setting, store: &Store) -> Result<(), CommandError> {
    let (config, now) = (&setting.config, setting.clock.now());
    let address = setting.environment.text(&config.report.webhook_env);
    let dir = &config.report.dir;
    if config.report.digest.is_empty() || (address.is_none() && dir.as_os_str().is_empty()) {
        return Ok(());
    }
    // Checked when the configuration was loaded.
    let Ok(schedule) = Schedule::parse(&config.report.digest, &config.schedule.timezone) else {
        return Ok(());
    };
    let quiet = store.ticks().quiet(now).await?;
    let journal = Journal::open(store.clone(), setting.clock.clone(), None)?;
    let from = match quiet.told.get(NAME).and_then(|told| told.parse().ok()) {
        Some(from) => from,
        // The first period begins now.
        None => return Ok(journal.ticks().note_told(NAME, now.to_string()).await?),
    };
    let Some(to) = due(&schedule, from, now) else { return Ok(()) };
    let report = Reporter::new(setting).gather(store, Scope::Period { from, to }).await?;
    let stuck = stuck(setting, store, &quiet, &report, now).await?;
    let report = report.as_digest(stuck, &config.http.public_url);
    if report.is_news() {
        if !dir.as_os_str().is_empty() {
            let name = format!("digest-{}", to.strftime("%Y%m%dT%H%M%SZ"));
            write_all(dir, &config.report.formats, &report, &name)?;
        }
        if let Some(address) = address {
            let message = webhook::message(config.report.webhook_style, &report);
            let address = SecretString::from(address);
            webhook::send(&address, &message, FIRST_WAIT)
                .await
                .map_err(|error| CommandError::Usage(format!("the webhook: {error}")))?;
        }
        tracing::info!(%from, %to, findings = report.findings.len(), "sent the digest");
    }
    Ok(journal.ticks().note_told(NAME, to.to_string()).await?)
}

/// The last time of the schedule after `from` that has come. Looks back further and further: a year
/// may have many times.
fn due(schedule: &Schedule, from: Timestamp, now: Timestamp) -> Option<Timestamp> {
    const HOURS: [i64; 5] = [1, 24, 24 * 8, 24 * 32, 24 * 400];
    for hours in HOURS {
        let back = now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(from);
        let start = back.max(from);
        let last = schedule.ticks_after(start).take_while(|time| *time <= now).last();
        if last.is_some() || start == from {
            return last;
        }
    }
    None
}

/// What does not go on by itself, each with what helps.
async fn stuck(
    setting: &Setting,
    store: &Store,
    quiet: &Quiet,
    report: &Report,
    now: Timestamp,
) -> Result<Vec<String>, CommandError> {
    let mut stuck = Vec::new();
    if let Some(since) = quiet.paused_since {
        stuck.push(format!(
            "the schedule is paused since {}: `heartbeat resume` continues it",
            minute(since)
        ));
    }
    for hold in store.provider().all(setting.config.agents()).await?.holds(now) {
        stuck.push(format!("no session before {}: {}", minute(hold.until), hold.reason));
    }
    for source in setting.config.sources() {
        let memory = store.sources().memory(source.name.clone()).await?.unwrap_or_default();
        let record: SourceRecord = serde_json::from_str(&memory).unwrap_or_default();
        if let Some(until) = record.breaker.state.until().filter(|until| *until > now) {
            stuck.push(format!(
                "{} is not read before {}: `heartbeat retry --source` tries at once",
                source.name,
                minute(until)
            ));
        }
    }
    stuck.extend(parked(&report.open.first));
    Ok(stuck)
}

/// Parked items, counted by reason, with the first names.
fn parked(open: &[ItemRow]) -> Vec<String> {
    let mut reasons: Vec<(Reason, Vec<&ItemRow>)> = Vec::new();
    for item in open.iter().filter(|item| item.phase == Phase::Parked) {
        match reasons.iter_mut().find(|(reason, _)| *reason == item.reason) {
            Some((_, items)) => items.push(item),
            None => reasons.push((item.reason, vec![item])),
        }
    }
    let line = |(reason, items): (Reason, Vec<&ItemRow>)| {
        let names: Vec<String> =
            items.iter().take(5).map(|item| crate::report::lines::short_key(&item.key)).collect();
        let more = if items.len() > 5 { ", …" } else { "" };
        let (count, plural) = (items.len(), if items.len() == 1 { "item is" } else { "items are" });
        format!("{count} {plural} parked, {}: {}{more}", reason.to_text(), names.join(", "))
    };
    reasons.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_was_missed_is_one_and_not_several() {
        let schedule = Schedule::parse("0 8 * * *", "UTC").unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let from = at("2026-11-16T08:00:00Z");
        assert_eq!(due(&schedule, from, at("2026-11-17T07:59:59Z")), None);
        let seconds = Schedule::parse("* * * * * *", "UTC").unwrap();
        let now = at("2027-11-16T08:00:00.5Z");
        assert_eq!(due(&seconds, from, now), Some(at("2027-11-16T08:00:00Z")), "at once");
        assert_eq!(
            due(&schedule, from, at("2026-11-17T08:00:30Z")),
            Some(at("2026-11-17T08:00:00Z"))
        );
        assert_eq!(
            due(&schedule, from, at("2026-11-20T12:00:00Z")),
            Some(at("2026-11-20T08:00:00Z"))
        );
    }
}
