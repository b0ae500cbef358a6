//! A backtest for people.

use std::fmt::Write as _;

use super::tune::concentration;
use super::{Report, Scored, Suggestion, Table};

/// Groups of fewer items say little.
const FEWEST: usize = 5;
/// An area below this share deserves advice.
const WEAK: f64 = 60.0;

/// The report as text.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let (used, all) = (report.total.items, report.outcomes.len());
    line(&mut out, &format!("{used} of {all} finished items could be used."));
    for (why, count) in &report.left {
        line(&mut out, &format!("  {count:>5}  {why}"));
    }
    report.notes.iter().for_each(|note| line(&mut out, &format!("Note: {note}")));
    if used == 0 {
        line(
            &mut out,
            "No fix was found in the history, so there is nothing to compare with. Commits have to name their items (#123, AB#123).",
        );
        return out;
    }
    line(&mut out, "");
    line(
        &mut out,
        "                              items   first  in 5  in 10  all in 10  lines shown",
    );
    row(&mut out, "all", &report.total);
    for (group, names) in &report.groups {
        if names.len() < 2 {
            continue;
        }
        line(&mut out, &format!("by {group}"));
        names.iter().for_each(|(name, table)| row(&mut out, name, table));
    }
    advise(&mut out, report);
    suggestions(&mut out, report);
    analysis(&mut out, report);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn row(out: &mut String, name: &str, table: &Table) {
    let shown: String = name.chars().rev().take(28).collect::<Vec<_>>().into_iter().rev().collect();
    // Writing to a string cannot fail.
    let _never_fails = writeln!(
        out,
        "  {shown:<28}{:>5} {:>6.0}% {:>4.0}% {:>5.0}% {:>9.0}% {:>11.0}%",
        table.items,
        table.hit_1,
        table.hit_5,
        table.hit_10,
        table.all_10,
        table.changed_lines_visible
    );
}

fn advise(out: &mut String, report: &Report) {
    let advice = advice(report);
    if advice.is_empty() {
        return;
    }
    line(out, "");
    line(out, "Areas where the right file is often missed:");
    advice.iter().for_each(|text| line(out, &format!("  {text}")));
}

/// What could be done for areas where the right file is often missed.
pub fn advice(report: &Report) -> Vec<String> {
    let areas = report.groups.get("area").into_iter().flatten();
    let weak = areas.filter(|(_, table)| table.items >= FEWEST && table.hit_10 < WEAK);
    weak.map(|(area, table)| advise_area(report, area, table)).collect()
}

fn advise_area(report: &Report, area: &str, table: &Table) -> String {
    let scored: Vec<&Scored> = report
        .outcomes
        .iter()
        .filter(|outcome| outcome.area == area)
        .filter_map(|outcome| outcome.result.as_ref().ok())
        .collect();
    let (items, unseen) =
        (table.items, scored.iter().filter(|scored| scored.best().is_none()).count());
    let mut text = format!("{area}: {:.0}% of {items} within ten files.", table.hit_10);
    if let Some(folder) = concentration(scored.iter().copied()) {
        text += &format!(
            " Its fixes lie in {folder}; a route of repository.routes to that folder leaves out the rest."
        );
    }
    if unseen * 3 >= items {
        text += &format!(
            " In {unseen} the right file was not ranked at all: the items use other words than the code, so the search terms that triage gives matter most here."
        );
    } else {
        text += " The right file is found but stands too low: generated or copied code with the same words can be left out with a .ignore file in the code base.";
    }
    text
}

/// `on 40 held-back items: right file in ten 60% → 75%, mean reciprocal rank 0.40 → 0.55`
pub fn worth(one: &Suggestion) -> String {
    format!(
        "on {} held-back items: right file in ten {:.0}% → {:.0}%, mean reciprocal rank {:.2} → {:.2}",
        one.held_back, one.hit_10_before, one.hit_10_after, one.rank_before, one.rank_after
    )
}

fn suggestions(out: &mut String, report: &Report) {
    let Some(all) = &report.suggestions else { return };
    line(out, "");
    if all.is_empty() {
        line(out, "The history supports no change of the configuration.");
        return;
    }
    line(out, "Worth trying (nothing was set):");
    for one in all {
        line(out, &format!("  {}.\n    {}\n    {}", one.what, one.setting, worth(one)));
    }
}

fn analysis(out: &mut String, report: &Report) {
    let Some(analysis) = &report.analysis else { return };
    line(out, "");
    let (items, found) = (analysis.items.len(), analysis.findings.len());
    if analysis.dry_run {
        line(
            out,
            &format!(
                "{items} items would be analysed, for {} at most. Nothing was started.",
                analysis.at_most
            ),
        );
        return;
    }
    line(
        out,
        &format!(
            "{found} of {items} items have a finding, for {}; {} name a file that the fix changed.",
            analysis.spent, analysis.confirmed
        ),
    );
    for one in &analysis.findings {
        line(
            out,
            &format!(
                "  #{:<8} names {} of {} changed files, {} named",
                one.item, one.hits, one.changed, one.named
            ),
        );
    }
    match &analysis.trouble {
        Some(trouble) => line(out, &format!("  {trouble}")),
        None if found < items => {
            line(out, "  The others were settled by triage, or their analysis failed.");
        }
        None => {}
    }
}
