//! A backtest as an HTML page, with each item, its ranking and its fix.

use minijinja::{Error, Value, context};

use super::answer::{answer, is_missed, misses, skip_reasons};
use super::text::{advice, gain_text};
use super::{Outcome, PastAnalysis, PastFinding, Report, Scored, Suggestion, Table};
use crate::report::html::{STYLE, page};

const PAGE: &str = include_str!("page.html");
/// Shares of a group of items.
const COLUMNS: [&str; 5] = ["first", "in 5", "in 10", "all in 10", "lines shown"];
/// Displayed characters of a commit id.
const SHORT: usize = 10;

/// The complete page. It loads and runs nothing.
pub fn render(report: &Report) -> Result<String, Error> {
    let scored = |outcome: &Outcome| Some(item(outcome, outcome.result.as_ref().ok()?));
    let groups = report.groups.iter().filter(|(_, names)| names.len() > 1);
    let left = |(items, why, remedy)| context! { why, items, remedy };
    page(
        PAGE,
        context! {
            style => STYLE,
            columns => COLUMNS.to_vec(),
            used => report.total.items,
            all => report.outcomes.len(),
            figures => figures(&report.total),
            groups => groups.map(|(name, tables)| group(name, tables)).collect::<Vec<_>>(),
            answer => answer(report),
            missed => misses(report),
            advice => advice(report),
            notes => report.notes.clone(),
            suggestions => report.suggestions.iter().map(suggestion).collect::<Vec<_>>(),
            analysis => report.analysis.as_ref().map(analysis),
            left => skip_reasons(report).into_iter().map(left).collect::<Vec<_>>(),
            items => report.outcomes.iter().filter_map(scored).collect::<Vec<_>>(),
            version => env!("CARGO_PKG_VERSION"),
        },
    )
}

fn analysis(analysis: &PastAnalysis) -> Value {
    let finding = |one: &PastFinding| {
        context! { name => one.name.clone(), title => one.title.clone(), named => one.named, changed => one.changed, hits => one.hits, functions => format!("{} of {}", one.functions_named, one.functions_changed) }
    };
    context! {
        items => analysis.items.len(),
        confirmed => analysis.confirmed,
        spent => analysis.spent.to_string(),
        findings => analysis.findings.iter().map(finding).collect::<Vec<_>>(),
    }
}

fn suggestion(one: &Suggestion) -> Value {
    context! {
        what => one.what.clone(),
        setting => one.setting.clone(),
        gain => gain_text(&one.gain),
    }
}

fn percent(share: f64) -> String {
    format!("{share:.0}%")
}

fn figures(table: &Table) -> Vec<Value> {
    let figure = |name: &str, value: String| context! { name, value };
    vec![
        figure("right file first", percent(table.hit_1)),
        figure("among five", percent(table.hit_5)),
        figure("among ten", percent(table.hit_10)),
        figure("all files among ten", percent(table.all_10)),
        figure("changed lines shown", percent(table.changed_lines_visible)),
        figure("mean reciprocal rank", format!("{:.2}", table.mean_reciprocal_rank)),
    ]
}

fn group(name: &str, tables: &std::collections::BTreeMap<String, Table>) -> Value {
    let mut rows: Vec<(&String, &Table)> = tables.iter().collect();
    rows.sort_by_key(|(name, table)| (std::cmp::Reverse(table.items), *name));
    // A long name may be broken only after a folder.
    let parts =
        |name: &str| name.split_inclusive(['\\', '/']).map(str::to_owned).collect::<Vec<_>>();
    let row = |(name, table): (&String, &Table)| {
        let shares =
            [table.hit_1, table.hit_5, table.hit_10, table.all_10, table.changed_lines_visible];
        context! { parts => parts(name), items => table.items, shares => shares.map(percent).to_vec() }
    };
    context! { name, rows => rows.into_iter().map(row).collect::<Vec<_>>() }
}

/// `place 3`, or `missed, place 29`.
fn verdict(scored: &Scored) -> String {
    match scored.best() {
        Some(best) if is_missed(scored) => format!("missed, place {best}"),
        Some(best) => format!("place {best}"),
        None => "missed".to_owned(),
    }
}

fn item(outcome: &Outcome, scored: &Scored) -> Value {
    let rank = |rank: Option<usize>| match rank {
        Some(rank) => format!("place {rank}"),
        None => "not ranked".to_owned(),
    };
    let is_right = |path: &String| scored.places.iter().any(|place| place.path == *path);
    let place =
        |place: &super::Place| context! { path => place.path.clone(), rank => rank(place.rank) };
    let file = |path: &String| context! { path, right => is_right(path) };
    let short = |id: &str| id.chars().take(SHORT).collect::<String>();
    let fixes: Vec<String> = scored
        .fixes
        .iter()
        .map(|(id, reason)| format!("{} ({})", short(id), reason.text()))
        .collect();
    context! {
        name => outcome.name.clone(),
        title => outcome.title.clone(),
        hit => !is_missed(scored),
        verdict => verdict(scored),
        places => scored.places.iter().map(place).collect::<Vec<_>>(),
        first => scored.first.iter().take(10).map(file).collect::<Vec<_>>(),
        base => short(&scored.base),
        fixes => fixes.join(", "),
        visible => percent(100.0 * scored.visible),
    }
}
