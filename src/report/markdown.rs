//! A report as Markdown. Pure. Text of work items and of the model stays plain: no link, image,
//! heading or HTML can come from it.

use std::fmt::Write as _;

use super::digest::Report;
use super::fixes::{fix_line, stale_line};
use super::moment::{minute, version};
use crate::analyze;
use crate::analyze::parts::proof_word;
use crate::event::fold::AlarmedItem;
use crate::model::plain_text;
use crate::model::text::{in_words, seconds};
use crate::report::lines::short_key;
use crate::store::{FindingRow, JudgedItem, RunRow};

pub fn render(report: &Report) -> String {
    let mut page = format!("# {}\n\n{}\n", line(&report.title()), report.headline());
    if let Some(right) = report.fixed_sentence() {
        let _: std::fmt::Result = writeln!(page, "\n{right}");
    }
    overview(&mut page, report);
    alarms(&mut page, report);
    findings(&mut page, report);
    suggested(&mut page, report);
    for (title, entries) in report.sections() {
        let _: std::fmt::Result = writeln!(page, "\n## {title}\n");
        for entry in entries {
            let _: std::fmt::Result = writeln!(page, "- {}", line(entry));
        }
    }
    duplicates(&mut page, report);
    related(&mut page, report);
    settled(&mut page, report);
    open(&mut page, report);
    failures(&mut page, report);
    runs(&mut page, report);
    spending(&mut page, report);
    let _: std::fmt::Result = write!(
        page,
        "\n---\nGenerated {} by heartbeat {}. Costs are as the agent reports them.\n",
        minute(report.made_at),
        env!("CARGO_PKG_VERSION")
    );
    report.names.in_text(page)
}

/// Table of all findings.
fn overview(page: &mut String, report: &Report) {
    if report.findings.is_empty() {
        return;
    }
    page.push_str(
        "\n| item | finding | risk | effort | confidence | proof | files | cost |\n\
         |---|---|---|---|---|---|---|--:|\n",
    );
    for row in &report.findings {
        let finding = &row.finding;
        let first = finding.files.first().map(|file| file.path.as_str());
        let more = match finding.files.len() {
            0 | 1 => String::new(),
            files => format!(" +{}", files - 1),
        };
        let file = first.map(|path| match report.code_address(path) {
            Some(address) => format!("[{}]({address}){more}", line(path)),
            None => format!("{}{more}", line(path)),
        });
        let _: std::fmt::Result = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            short_key(&row.key),
            line(&row.title),
            finding.risk,
            finding.effort,
            finding.confidence,
            proof_word(finding),
            file.unwrap_or_default(),
            row.cost.map(|cost| cost.to_string()).unwrap_or_default()
        );
    }
}

fn alarms(page: &mut String, report: &Report) {
    if report.alarmed.is_empty() {
        return;
    }
    page.push_str("\n## Hidden text\n\nThis text was removed from every prompt.\n\n");
    for AlarmedItem { item, alarms } in &report.alarmed {
        let _: std::fmt::Result = writeln!(page, "- {}: {}", short_key(item), alarms.to_text());
    }
}

fn settled(page: &mut String, report: &Report) {
    if report.settled.is_empty() {
        return;
    }
    page.push_str("\n## Settled by triage, without deep analysis\n\n");
    for item in &report.settled {
        let (key, title) = (short_key(&item.key), line(&item.title));
        let _: std::fmt::Result = writeln!(page, "- {key} {title}: {}", line(&item.verdict.reason));
    }
}

fn runs(page: &mut String, report: &Report) {
    page.push_str("\n## Runs\n\n| began | outcome | took | fetched | changed | triaged | findings | cost |\n|---|---|---|--:|--:|--:|--:|--:|\n");
    for run in &report.runs {
        let s = run.summary.unwrap_or_default();
        let _: std::fmt::Result = writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            minute(run.started_at),
            outcome(run),
            took(run),
            s.fetched,
            s.shares.new + s.shares.changed,
            s.triaged,
            s.analysed,
            s.cost_text()
        );
    }
}

fn spending(page: &mut String, report: &Report) {
    if report.spending.is_empty() {
        return;
    }
    page.push_str("\n## Spending\n\n| day | for | sessions | spent |\n|---|---|--:|--:|\n");
    for row in &report.spending {
        let _: std::fmt::Result = writeln!(
            page,
            "| {} | {} | {} | {} |",
            row.day,
            row.stage,
            row.money.sessions,
            row.money.to_text()
        );
    }
}

fn suggested(page: &mut String, report: &Report) {
    if report.suggested.is_empty() {
        return;
    }
    page.push_str("\n## Suggested by triage\n\n");
    for item in &report.suggested {
        let _: std::fmt::Result =
            writeln!(page, "- {} {}", short_key(&item.key), line(&item.title));
        for one in &item.suggestions {
            let _: std::fmt::Result = writeln!(page, "  - {}", line(&one.text()));
        }
    }
}

fn duplicates(page: &mut String, report: &Report) {
    if report.duplicates.is_empty() {
        return;
    }
    page.push_str("\n## Likely duplicates, according to triage\n\n");
    for group in &report.duplicates {
        for (index, item) in group.items.iter().enumerate() {
            let (indent, why) = (if index == 0 { "" } else { "  " }, line(&item.why));
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            let (key, title) = (short_key(&item.key), line(&item.title));
            let keep = if item.live { ", the one to keep" } else { "" };
            let _: std::fmt::Result = writeln!(page, "{indent}- {key} {title}{keep}{why}");
        }
        if group.beyond() > 0 {
            let _: std::fmt::Result = writeln!(page, "  - and {} more", group.beyond());
        }
    }
}

fn related(page: &mut String, report: &Report) {
    if report.related.is_empty() {
        return;
    }
    page.push_str("\n## Settled by one change, according to triage\n\n");
    for group in &report.related {
        let name = |item: &JudgedItem| format!("{} {}", short_key(&item.key), line(&item.title));
        let names: Vec<String> = group.iter().map(name).collect();
        let _: std::fmt::Result = writeln!(page, "- {}", names.join("; "));
    }
}

fn findings(page: &mut String, report: &Report) {
    if report.findings.is_empty() {
        page.push_str("\n## Findings\n\nNone.\n");
        return;
    }
    page.push_str("\n## Findings\n");
    for row in &report.findings {
        let _: std::fmt::Result = write!(
            page,
            "\n### {} {}\n\n{}\n{}",
            short_key(&row.key),
            line(&row.title),
            source(row),
            analyze::markdown_of(&report.parts(row))
        );
        if let Some(feedback) = &row.feedback {
            let _: std::fmt::Result = writeln!(page, "\n{}", line(&feedback.to_string()));
        }
        for fix in stale_line(row).into_iter().chain(fix_line(row)) {
            let _: std::fmt::Result = writeln!(page, "\n{fix}");
        }
    }
}

fn source(row: &FindingRow) -> String {
    let at = minute(row.created_at);
    match web_address(&row.url) {
        Some(url) => format!("<{url}> · {} · {at}\n", version(row.revision)),
        None => format!("{} · {at}\n", version(row.revision)),
    }
}

fn failures(page: &mut String, report: &Report) {
    if report.failed_sessions.is_empty() {
        return;
    }
    page.push_str("\n## Sessions that did not complete\n\n");
    for row in &report.failed_sessions {
        let item = row.session.item.as_ref().map(short_key).unwrap_or_default();
        let how = row.outcome.as_ref().map(ToString::to_string).unwrap_or_default();
        let _: std::fmt::Result = writeln!(
            page,
            "- {} {item} attempt {}: {how} (session `{}`)",
            row.session.stage, row.session.attempt, row.session.id
        );
    }
}

fn open(page: &mut String, report: &Report) {
    if report.open.first.is_empty() {
        return;
    }
    page.push_str("\n## Not finished\n\n");
    for item in &report.open.first {
        let next = item.next_attempt.map(|t| format!(", next attempt {}", minute(t)));
        let _: std::fmt::Result = writeln!(
            page,
            "- {} {}: {} ({}{})",
            short_key(&item.key),
            line(&item.title),
            in_words(item.phase),
            item.reason.to_text(),
            next.unwrap_or_default()
        );
    }
    if report.open.beyond() > 0 {
        let _: std::fmt::Result = writeln!(page, "- and {} more", report.open.beyond());
    }
}

pub(super) fn outcome(run: &RunRow) -> String {
    run.outcome.map_or_else(|| "in progress".into(), in_words)
}

pub(super) fn took(run: &RunRow) -> String {
    run.ended_at
        .and_then(|end| u64::try_from(end.duration_since(run.started_at).as_millis()).ok())
        .map(seconds)
        .unwrap_or_default()
}

/// The address if it is safe to open in a browser.
pub(super) fn web_address(url: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '"' | '\'' | '`' | '\\');
    let web = url.starts_with("https://") || url.starts_with("http://");
    (web && url.chars().all(plain)).then_some(url)
}

/// One line of plain text.
fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain_text(text).split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '|' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::code_links::CodeLinks;
    use crate::report::digest::samples::{HOSTILE, report};

    #[test]
    fn words_of_strangers_stay_words() {
        let mut report = report(HOSTILE);
        // A path is in a code span, where no character has a special meaning.
        report.findings[0].finding.files[0].path = "src/total.rs".into();
        let page = render(&report);
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("[x](javascript"), "{page}");
        assert!(!page.contains("![i]("), "{page}");
        assert!(page.contains("&lt;script>alert(1)"), "{page}");
    }

    #[test]
    fn every_part_is_there() {
        let links = CodeLinks::by_pattern("https://git.example/{path}");
        let page = render(&report("The total is wrong").linked(links));
        let began = minute("2026-11-16T08:00:00Z".parse().unwrap());
        for part in [
            format!("# Heartbeat for Parcel, run of {began}").as_str(),
            "| #42 | The total is wrong | high | small | medium | not checked | [The total is wrong](https://git.example/The%20total%20is%20wrong) | $0.20 |",
            "- #42: 236 hidden characters",
            "- #44 The total is wrong: The total is wrong",
            format!("| {began} | some failed | 9 min 0 s | 9 | 3 | 3 | 1 | $0.25 |").as_str(),
            "| 2026-11-16 | deep | 2 | $0.25 billed ($0.20 of it estimated) |",
            "- #42 The total is wrong; #43 The total is wrong\n",
            "### #42 The total is wrong",
            "<https://dev.azure.com/contoso/_workitems/edit/42> · revision 3",
            "- deep #42 attempt 2: bad output (no json)",
            "- #42 The total is wrong: parked (attempts exhausted)",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        let at = |part: &str| page.find(part).unwrap();
        assert!(at("## Findings") < at("## Settled") && at("## Not finished") < at("## Runs"));
    }

    #[test]
    fn only_web_addresses_become_links() {
        assert_eq!(web_address("javascript:alert(1)"), None);
        assert_eq!(web_address("https://a/b c"), None);
        assert_eq!(web_address("https://a/\"onload=x"), None);
        assert!(web_address("https://a/b?c=d&e").is_some());
    }
}
