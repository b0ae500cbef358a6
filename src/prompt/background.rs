//! What is known about an item beside its text, in a few lines. Nothing here is fenced yet.

use super::item::{Detail, LONGEST_TITLE, cut_line};
use crate::model::{Earlier, Finding, KnownTitle, Verdict};

const LONGEST_CHANGES: usize = 400;
const MOST_FILES: usize = 10;

/// What was said before and what changed since.
pub fn earlier_text(earlier: &Earlier, detail: Detail) -> String {
    let mut lines = Vec::new();
    if let Some((at, verdict)) = &earlier.verdict {
        lines.push(format!("{} verdict: {}", at.strftime("%F"), verdict_line(verdict)));
    }
    if let Some((at, finding)) = &earlier.finding {
        lines.push(format!("{} finding: {}", at.strftime("%F"), finding_text(finding, detail)));
    }
    let since = earlier.changes.as_ref().map(|changes| match changes.is_empty() {
        true => "nothing in the item".to_owned(),
        false => changes.join("; "),
    });
    lines
        .extend(since.map(|since| format!("changed since: {}", cut_line(&since, LONGEST_CHANGES))));
    lines.join("\n")
}

fn verdict_line(verdict: &Verdict) -> String {
    let complexity: &str = verdict.complexity.into();
    let deep = if verdict.needs_deep_analysis { "analysis" } else { "no analysis" };
    format!("{deep}, {complexity}: {}", cut_line(&verdict.reason, 240))
}

fn finding_text(finding: &Finding, detail: Detail) -> String {
    let confidence = finding.confidence.to_string().to_lowercase();
    let (summary, change) = match detail {
        Detail::Tight => (300, 0),
        Detail::Full => (800, 1_000),
    };
    let mut text = format!("{} (confidence {confidence})", cut_line(&finding.summary, summary));
    if change > 0 {
        text += &format!("\nit suggested: {}", cut_line(&finding.suggested_change, change));
        let files: Vec<&str> =
            finding.files.iter().take(MOST_FILES).map(|file| file.path.as_str()).collect();
        text += &format!("\nin: {}", files.join(", "));
    }
    text
}

/// Other items, one per line: `17 | done | Total is wrong`.
pub fn known_text<'a>(known: impl IntoIterator<Item = &'a KnownTitle>) -> String {
    let line = |known: &KnownTitle| {
        let phase: &str = known.phase.into();
        format!("{} | {phase} | {}", known.id, cut_line(&known.title, LONGEST_TITLE))
    };
    known.into_iter().map(line).collect::<Vec<_>>().join("\n")
}
