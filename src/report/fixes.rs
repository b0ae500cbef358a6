//! Findings and their later fixes, as text.

use std::fmt::Write as _;

use crate::fixes::{Accuracy, Judged};
use crate::model::LaterCommit;
use crate::model::text::clip;
use crate::report::moment::{day, length};
use crate::store::FindingRow;

pub fn judged(row: &FindingRow) -> Judged {
    let opinion = row.feedback.as_ref().map(|feedback| feedback.opinion);
    Judged { score: row.score(), opinion, cost: row.cost }
}

pub fn accuracy<'a>(rows: impl IntoIterator<Item = &'a FindingRow>) -> Accuracy {
    Accuracy::of(&rows.into_iter().map(judged).collect::<Vec<_>>())
}

/// `fixed on 2026-12-01, 3 days after the finding: it names 2 of 3 changed files`
pub fn fix_line(row: &FindingRow) -> Option<String> {
    let (fix, score) = (row.fix.as_ref()?, row.score()?);
    let (on, far) = (day(fix.fixed_at), length(score.seconds_to_fix.unsigned_abs()));
    let order = if score.in_time { "after" } else { "before" };
    let (hits, changed) = (score.hits, score.changed);
    Some(format!(
        "fixed on {on}, {far} {order} the finding: it names {hits} of {changed} changed {}",
        files(changed)
    ))
}

/// `its files were changed later by abc1234 Round once (2026-12-01), and 2 more commits: src/total.rs`
pub fn stale_line(row: &FindingRow) -> Option<String> {
    let stale = row.stale.as_ref()?;
    let one = |commit: &LaterCommit| {
        let (id, subject) = (clip(&commit.id, 10), clip(&commit.subject, 80));
        format!("{id} {subject} ({})", day(commit.at))
    };
    let commits: Vec<String> = stale.commits.iter().map(one).collect();
    let shown = u32::try_from(stale.commits.len()).unwrap_or(u32::MAX);
    let more = match stale.total.saturating_sub(shown) {
        0 => String::new(),
        more => format!(" and {more} more commits"),
    };
    let files = stale.files.join(", ");
    Some(format!("its files were changed later by {}{more}: {files}", commits.join(", ")))
}

/// How many findings of items fixed in this period were right; `None` if there are none.
///
/// `In the last 7 days, 9 of 12 findings whose items were fixed named a file that the fix changed.`
pub fn sentence(when: &str, accuracy: &Accuracy) -> Option<String> {
    let Accuracy { fixed, confirmed, .. } = accuracy;
    let mut text = (*fixed > 0).then(|| {
        format!("{when}, {confirmed} of {fixed} findings whose items were fixed named a file that the fix changed.")
    })?;
    if let Some(cost) = accuracy.cost_per_confirmed {
        text.push_str(&format!(" Cost per such finding: {cost}."));
    }
    let said = |word: &str| accuracy.opinions.get(word).copied().unwrap_or_default();
    let (useful, wrong) = (said("useful"), said("wrong"));
    if useful + wrong > 0 {
        text.push_str(&format!(" People marked {useful} of them useful and {wrong} wrong."));
    }
    Some(text)
}

/// Default period of [`sentence`].
pub const LATELY: &str = "In the last 7 days";

/// One row per group, and a total.
pub fn table(groups: &[(String, Accuracy)]) -> String {
    let mut out = String::from(
        "                              findings  fixed  right file  precision  recall  to the fix  useful  wrong    cost  per right\n",
    );
    for (name, accuracy) in groups {
        let Accuracy { findings, fixed, confirmed, precision, recall, .. } = accuracy;
        let share = |share: &f64| if *fixed > 0 { format!("{share:.0}%") } else { "-".to_owned() };
        let said = |word: &str| accuracy.opinions.get(word).copied().unwrap_or_default();
        let to_fix = accuracy.median_seconds_to_fix.map(|s| length(s.unsigned_abs()));
        let shown: String = name.chars().take(28).collect();
        let _never_fails: std::fmt::Result = writeln!(
            out,
            "  {shown:<28}{findings:>8} {fixed:>6} {:>11} {:>10} {:>7} {:>11} {:>7} {:>6} {:>7} {:>10}",
            if *fixed > 0 { format!("{confirmed} of {fixed}") } else { "-".to_owned() },
            share(precision),
            share(recall),
            to_fix.unwrap_or_else(|| "-".to_owned()),
            said("useful"),
            said("wrong"),
            accuracy.cost.to_string(),
            accuracy.cost_per_confirmed.map_or("-".to_owned(), |cost| cost.to_string()),
        );
    }
    out
}

const fn files(count: u32) -> &'static str {
    if count == 1 { "file" } else { "files" }
}
