//! The summary at the end of a run.

use std::fmt::Write as _;

use serde::Serialize;

use crate::event::fold::AlarmedItem;
use crate::event::{DecisionCounts, Reason, RunOutcome, RunSummary};
use crate::model::text::{clip, in_words};
use crate::model::{BYTES_PER_TOKEN, RunId, Usd};
use crate::report::lines::short_key;
use crate::report::moment::minute;
use crate::report::paint::Paint;
use crate::store::{FindingRow, OpenItems};

/// Unfinished items that are listed; the rest are counted.
pub const MAX_OPEN: u32 = 20;

/// The object that `--json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    pub run: RunId,
    pub outcome: RunOutcome,
    /// Exit code of the process.
    pub exit_code: u8,
    /// Whether tracker and agent are the demo's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub simulated: bool,
    /// What prevented the work, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub summary: RunSummary,
    /// Size of the text before and after cleaning.
    pub text: TextSaving,
    /// The first items whose text raised an alarm.
    pub alarmed: Vec<AlarmedItem>,
    pub findings: Vec<FindingRow>,
    /// Unfinished items, with the reasons.
    pub open: OpenItems,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TextSaving {
    /// As fetched.
    pub raw_bytes: u64,
    /// As in a prompt.
    pub clean_bytes: u64,
    /// Estimated average per item, as fetched.
    pub raw_tokens_per_item: u64,
    /// Estimated average per item, as in a prompt.
    pub clean_tokens_per_item: u64,
    /// Number of items with hidden or invisible text.
    pub alarms: u64,
}

impl TextSaving {
    pub fn of(raw_bytes: u64, clean_bytes: u64, items: u64, alarms: u64) -> Self {
        let per_item =
            |bytes: u64| bytes.div_ceil(BYTES_PER_TOKEN as u64).checked_div(items).unwrap_or(0);
        Self {
            raw_bytes,
            clean_bytes,
            raw_tokens_per_item: per_item(raw_bytes),
            clean_tokens_per_item: per_item(clean_bytes),
            alarms,
        }
    }

    pub fn percent_left(self) -> u64 {
        (self.clean_bytes * 100).checked_div(self.raw_bytes).unwrap_or(100)
    }
}

/// The summary table for a terminal. `read_on` is the command that shows the first finding.
pub fn render(report: &RunReport, read_on: Option<&str>, paint: Paint) -> String {
    let mut text = String::new();
    let s = &report.summary;
    let mut row = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _: std::fmt::Result = writeln!(text, "  {name:<12}{value}");
    };
    row("outcome", in_words(report.outcome));
    if let Some(error) = &report.error {
        row("because", error.clone());
    }
    let DecisionCounts { new, changed, unchanged, .. } = s.shares;
    let usual = format!("{new} new, {changed} changed, {unchanged} unchanged");
    row("fetched", format!("{} items ({usual})", s.fetched));
    further_shares(&s.shares).into_iter().for_each(|share| row("", share));
    if report.text.raw_bytes > 0 {
        row(
            "text",
            format!(
                "{} → {} bytes ({} %), {} → {} tokens per item",
                report.text.raw_bytes,
                report.text.clean_bytes,
                report.text.percent_left(),
                report.text.raw_tokens_per_item,
                report.text.clean_tokens_per_item
            ),
        );
    }
    if report.text.alarms > 0 {
        row("ALARM", format!("{} item(s) with hidden text, removed", report.text.alarms));
        for AlarmedItem { item, alarms } in &report.alarmed {
            row("", clip(&format!("{}: {}", short_key(item), alarms.to_text()), 64));
        }
    }
    row(
        "triaged",
        format!("{} ({} settled without deep analysis)", s.triaged, s.settled_by_triage),
    );
    row("analysed", s.analysed.to_string());
    row("left", format!("{} deferred, {} waiting, {} parked", s.deferred, s.waiting, s.parked));
    row("sessions", format!("{} ({} failed)", s.sessions, s.failed_sessions));
    row("cost", cost(s, report.simulated));
    if s.cost_at_worst > Usd::ZERO {
        let worst = s.cost_at_worst;
        row("", format!("+ {worst}, the worst case of sessions that reported no cost"));
    }
    let mut text = paint.rows(&text, 2, 12);
    render_findings(&mut text, report, paint);
    render_open(&mut text, report, paint);
    if let Some(command) = read_on {
        let _: std::fmt::Result = writeln!(text, "\nRead the first finding:\n  {command}");
    }
    text
}

fn cost(s: &RunSummary, simulated: bool) -> String {
    match s.cost_estimated {
        _ if simulated => format!("{} (pretended: the demo pays nothing)", s.cost),
        Usd::ZERO => format!("{} (as the agent reports it)", s.cost),
        _ => format!("{}, from tokens and [agent.price]", s.cost_text()),
    }
}

/// All other fetched items; together with the three usual figures they add up to the total.
fn further_shares(s: &DecisionCounts) -> Vec<String> {
    let shares = [
        (s.carried_over, "carried over from earlier runs"),
        (s.baseline, "marked as seen (baseline)"),
        (s.over_limit, "over limits.max_items_per_run or max_deep_per_run"),
        (s.resting, "not due: waiting, parked, in flight or closed"),
    ];
    let counted = shares.iter().filter(|(count, _)| *count > 0);
    counted.map(|(count, name)| format!("+ {count} {name}")).collect()
}

fn render_findings(text: &mut String, report: &RunReport, paint: Paint) {
    if report.findings.is_empty() {
        return;
    }
    let head = format!("{:<66}{:<7}effort", "Findings", "risk");
    let _: std::fmt::Result = writeln!(text, "\n{}", paint.bold(&head));
    for row in &report.findings {
        let finding = &row.finding;
        let _: std::fmt::Result = writeln!(
            text,
            "  {:<7}{:<57}{}{}",
            short_key(&row.key),
            clip(&row.title, 55),
            paint.grade(finding.risk.into_str(), &format!("{:<7}", finding.risk.into_str())),
            finding.effort.into_str()
        );
        let place = finding.files.first().map(|file| file.path.as_str());
        for line in place.into_iter().chain([finding.summary.as_str()]) {
            let _: std::fmt::Result = writeln!(text, "         {}", clip(line, 71));
        }
    }
}

fn render_open(text: &mut String, report: &RunReport, paint: Paint) {
    if report.open.first.is_empty() {
        return;
    }
    let _: std::fmt::Result = writeln!(text, "\n{}", paint.bold("Not finished"));
    for row in &report.open.first {
        let when =
            row.next_attempt.map(|t| format!(", next attempt {}", minute(t))).unwrap_or_default();
        let _: std::fmt::Result = writeln!(
            text,
            "  {:<7}{}\n         {}: {}{when}",
            short_key(&row.key),
            clip(&row.title, 70),
            in_words(row.phase),
            explain(row.reason),
        );
    }
    if report.open.beyond() > 0 {
        let _: std::fmt::Result =
            writeln!(text, "  and {} more; `heartbeat status` counts them", report.open.beyond());
    }
}

fn explain(reason: Reason) -> String {
    match reason {
        Reason::MaxItemsPerRun => "limits.max_items_per_run".into(),
        Reason::MaxDeepPerRun => "limits.max_deep_per_run".into(),
        Reason::Budget => "the budget would be exceeded".into(),
        Reason::ForAPerson => "left to a person (triage's default)".into(),
        reason => reason.to_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::digest::samples;

    #[test]
    fn a_summary_fits_a_terminal_of_eighty_columns() {
        let long = "A title that goes on and on about parcels, depots and rates ".repeat(4);
        let digest = samples::report(&long);
        let report = RunReport {
            run: RunId(uuid::Uuid::nil()),
            outcome: RunOutcome::Completed,
            exit_code: 0,
            simulated: false,
            error: None,
            summary: digest.totals,
            text: TextSaving::of(23_456_789, 8_765_432, 1000, 12),
            alarmed: Vec::new(),
            findings: digest.findings,
            open: digest.open,
        };
        assert!(!report.findings.is_empty() && !report.open.first.is_empty());
        let text = render(&report, Some("heartbeat show 42"), Paint::Plain);
        assert!(text.ends_with("\n  heartbeat show 42\n"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
            assert_eq!(line.trim_end(), line, "nothing invisible at the end");
        }
    }

    #[test]
    fn what_was_fetched_and_what_budgets_count_is_reported_in_full() {
        let usual = DecisionCounts { new: 1, unchanged: 2, ..DecisionCounts::default() };
        let mut report = RunReport {
            run: RunId(uuid::Uuid::nil()),
            outcome: RunOutcome::Completed,
            exit_code: 0,
            simulated: false,
            error: None,
            summary: RunSummary { fetched: 3, shares: usual, ..RunSummary::default() },
            text: TextSaving::default(),
            alarmed: Vec::new(),
            findings: Vec::new(),
            open: samples::report("").open,
        };
        let quiet = render(&report, None, Paint::Plain);
        assert!(!quiet.contains("Read "), "no command without a finding: {quiet}");
        assert!(quiet.contains("3 items (1 new, 0 changed, 2 unchanged)"), "{quiet}");
        assert!(!quiet.contains("+ "), "{quiet}");
        report.summary.shares =
            DecisionCounts { carried_over: 4, baseline: 19, over_limit: 5, resting: 6, ..usual };
        report.summary.cost_at_worst = Usd::from_dollars(1.5);
        let text = render(&report, None, Paint::Plain);
        for part in [
            "+ 4 carried over",
            "+ 19 marked as seen (baseline)",
            "+ 5 over limits.max_items_per_run",
            "+ 6 not due",
            "$0.00 (as the agent reports it)",
            "+ $1.50, the worst case",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
