//! The text report of a backtest.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::answer::{answer, misses, skip_reasons};
use super::settings::concentration;
use super::{Gain, Report, Scored, Table};
use crate::model::text::counted;

/// Smaller groups say little.
const MIN: usize = 5;
/// An area below this percentage gets advice.
const WEAK: f64 = 60.0;

/// A row of fewer items is omitted.
const MIN_IN_ROW: usize = 3;
/// Most rows of one group; --json and the page have all.
const MAX_ROWS: usize = 12;

pub fn render(report: &Report) -> String {
    let mut out = String::new();
    let (used, all) = (report.total.items, report.outcomes.len());
    answer(report).iter().for_each(|text| line(&mut out, text));
    line(&mut out, "");
    line(&mut out, &format!("{used} of {all} finished items could be used."));
    for (count, why, remedy) in skip_reasons(report) {
        line(&mut out, &format!("  {count:>5}  {why}"));
        remedy.iter().for_each(|remedy| line(&mut out, &format!("         {remedy}")));
    }
    report.notes.iter().for_each(|note| line(&mut out, &format!("Note: {note}")));
    if used == 0 {
        return out;
    }
    line(&mut out, "");
    line(
        &mut out,
        "  a file of the fix was       items   first  in 5  in 10  all in 10  lines shown",
    );
    row(&mut out, "all", &report.total);
    report.groups.iter().for_each(|(group, names)| show_group(&mut out, group, names));
    examples(&mut out, report);
    advise(&mut out, report);
    suggestions(&mut out, report);
    analysis(&mut out, report);
    next_step(&mut out, report);
    out
}

/// Largest first, since they are most of a team's work.
fn show_group(out: &mut String, group: &str, names: &BTreeMap<String, Table>) {
    let mut rows: Vec<(&String, &Table)> = names.iter().collect();
    rows.retain(|(_, table)| table.items >= MIN_IN_ROW);
    rows.sort_by_key(|(name, table)| (std::cmp::Reverse(table.items), *name));
    rows.truncate(MAX_ROWS);
    if rows.is_empty() || names.len() < 2 {
        return;
    }
    line(out, &format!("by {group}"));
    rows.iter().for_each(|(name, table)| row(out, name, table));
    let smaller = names.len() - rows.len();
    if smaller > 0 {
        line(out, &format!("  {smaller} more with fewer items: --format html shows all"));
    }
}

fn examples(out: &mut String, report: &Report) {
    let missed = misses(report);
    if !missed.is_empty() {
        line(out, "");
        line(out, "Examples of missed items:");
        missed.iter().for_each(|text| line(out, &format!("  {text}")));
    }
}

fn next_step(out: &mut String, report: &Report) {
    line(out, "");
    if report.analysis.is_none() {
        line(
            out,
            "`--analyze 10 --max-cost 5` lets the agent analyse ten of these items and compares its findings with the fixes; `--dry-run` shows the maximum cost first.",
        );
    }
    line(
        out,
        "`--format html --out backtest.html` writes a page with each item, its ranking and its fix.",
    );
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

/// Advice for areas where the right file is often missed.
pub fn advice(report: &Report) -> Vec<String> {
    let areas = report.groups.get("area").into_iter().flatten();
    let weak = areas.filter(|(_, table)| table.items >= MIN && table.hit_10 < WEAK);
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
    let mut text = format!("{area}: right file in ten for {:.0}% of {items} items.", table.hit_10);
    if let Some(folder) = concentration(scored.iter().copied()) {
        text += &format!(
            " Its fixes are in {folder}; a route in repository.routes to that folder excludes the rest."
        );
    }
    if unseen * 3 >= items {
        text += &format!(
            " For {unseen} items the right file was not ranked at all: they use other words than the code, so triage's search terms matter most here."
        );
    } else {
        text += " The right file is found but ranked too low: if generated or copied code contains the same words, list it in a .ignore file in the code base.";
    }
    text
}

/// `on 40 held-back items: right file in ten 60% → 75%, mean reciprocal rank 0.40 → 0.55, better
/// for 12 items, worse for 1`
pub fn gain_text(gain: &Gain) -> String {
    format!(
        "on {} held-back items: right file in ten {:.0}% → {:.0}%, mean reciprocal rank {:.2} → {:.2}, better for {}, worse for {}",
        gain.held_back,
        gain.hit_10_before,
        gain.hit_10_after,
        gain.rank_before,
        gain.rank_after,
        gain.better,
        gain.worse
    )
}

fn suggestions(out: &mut String, report: &Report) {
    if report.suggestions.is_empty() {
        return;
    }
    line(out, "");
    line(out, "Worth trying (nothing was changed):");
    for one in &report.suggestions {
        let setting = one.setting.replace('\n', "\n    ");
        line(out, &format!("  {}.\n    {setting}\n    {}", one.what, gain_text(&one.gain)));
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
                "Up to {} would be analysed, at a cost of at most {}. Nothing was started.",
                counted(items - analysis.reused, "item"),
                analysis.at_most
            ),
        );
        return;
    }
    let reused = match analysis.reused {
        0 => String::new(),
        reused => format!("; {reused} from earlier backtests"),
    };
    line(
        out,
        &format!(
            "{found} of {items} items have a finding (cost {}{reused}); {} name a file the fix changed.",
            analysis.spent, analysis.confirmed
        ),
    );
    for one in &analysis.findings {
        line(
            out,
            &format!(
                "  {:<9} names {} of {} changed files ({} named) and {} of {} changed functions",
                one.name,
                one.hits,
                one.changed,
                one.named,
                one.functions_named,
                one.functions_changed
            ),
        );
    }
    match &analysis.trouble {
        Some(trouble) => line(out, &format!("  {trouble}")),
        None if found < items => {
            line(out, "  The analyses of the others failed.");
        }
        None => {}
    }
}
