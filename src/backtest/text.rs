//! A backtest for people.

use std::fmt::Write as _;

use super::{Report, Table};

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
    let advise = |(area, table): (&String, &Table)| {
        format!(
            "{area}: {:.0}% within ten files. Does the area have its code base in repository.routes? Do its items use words of the code?",
            table.hit_10
        )
    };
    weak.map(advise).collect()
}
