//! `heartbeat report`: the findings of a run or a period.

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use super::error::CommandError;
use crate::app::after_run;
use crate::report::code_links::CodeLinks;
use crate::report::digest::{Report, Scope};
use crate::schedule::midnight_in;
use crate::settings::{Config, HeldSecrets, ReportFormat};
use crate::store::Store;

#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Report on this run, by its id or a prefix of it [default: the newest]
    #[arg(long, value_name = "ID", conflicts_with = "since")]
    pub run: Option<String>,
    /// Report on everything since WHEN: a duration such as 7d, a date such as 2026-11-09, or a time
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Output format [default: md, or json with --json]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

pub async fn text(
    args: &ReportArgs,
    store: &Store,
    config: &Config,
    secrets: &HeldSecrets,
    now: Timestamp,
    json: bool,
) -> Result<String, CommandError> {
    let scope = scope(args, store, &config.schedule.timezone, now).await?;
    let report = Report::gather(store, scope, &config.projects(), now).await?;
    let report = report.linked(CodeLinks::configured(config)).without(secrets);
    let default = if json { ReportFormat::Json } else { ReportFormat::Md };
    after_run::render(&report, args.format.unwrap_or(default))
}

async fn scope(
    args: &ReportArgs,
    store: &Store,
    zone: &str,
    now: Timestamp,
) -> Result<Scope, CommandError> {
    if let Some(since) = &args.since {
        // Includes the current moment.
        let to = now.saturating_add(jiff::SignedDuration::from_millis(1)).unwrap_or(now);
        return Ok(Scope::Period { from: parse_since(since, zone, now)?, to });
    }
    let run =
        match &args.run {
            Some(id) => store.runs().with_prefix(id.to_lowercase()).await?.ok_or_else(|| {
                CommandError::NotFound(format!(
                    "no run, or more than one, has an id that starts with {id}; `heartbeat runs` \
                 lists them"
                ))
            })?,
            None => store.runs().newest(1).await?.pop().ok_or_else(|| {
                CommandError::NotFound("no run has used this state yet".to_owned())
            })?,
        };
    Ok(Scope::Run { run: run.run })
}

/// Parses a duration back from now, a day in the schedule's time zone, or a time.
pub(super) fn parse_since(
    text: &str,
    zone: &str,
    now: Timestamp,
) -> Result<Timestamp, CommandError> {
    let wrong = || {
        CommandError::Usage(format!(
            "--since {text:?} is not a time; write a duration such as 7d or 12h, or a date such \
             as 2026-11-09"
        ))
    };
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(day) = text.parse::<jiff::civil::Date>() {
        return midnight_in(zone, day).ok_or_else(wrong);
    }
    let span: jiff::Span = text.trim_start_matches('-').parse().map_err(|_| wrong())?;
    let back =
        now.to_zoned(jiff::tz::TimeZone::UTC).checked_sub(span.abs()).map_err(|_| wrong())?;
    Ok(back.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_takes_spans_days_and_times() {
        let now: Timestamp = "2026-11-16T08:00:00Z".parse().unwrap();
        let since = |text| parse_since(text, "UTC", now).map(|t| t.to_string());
        assert_eq!(since("7d").unwrap(), "2026-11-09T08:00:00Z");
        assert_eq!(since("12h").unwrap(), "2026-11-15T20:00:00Z");
        assert_eq!(since("2026-11-01").unwrap(), "2026-11-01T00:00:00Z");
        assert_eq!(since("2026-11-01T05:00:00+01:00").unwrap(), "2026-11-01T04:00:00Z");
        assert!(since("yesterday").is_err());
        let berlin = parse_since("2026-11-01", "Europe/Berlin", now).unwrap();
        assert_eq!(berlin.to_string(), "2026-10-31T23:00:00Z");
    }
}
