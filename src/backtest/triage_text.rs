//! The figures of `backtest --triage` as tables.

use std::fmt::Write as _;

use crate::model::{Field, TrackRecord};
use crate::suggest::{FieldMeasure, LEAST_MEASURED, Measured, Split, interval};

/// Areas listed per field, those with most suggestions first.
const MAX_AREAS: usize = 8;

/// The figures of one source.
pub fn render_triage(source: &str, measured: &Measured, min_precision: f64) -> String {
    let mut text = format!(
        "{source}: {} finished items, each asked about with what was known when it was created\n",
        measured.items
    );
    if measured.fields.is_empty() {
        text.push_str(
            "No field was ever set or changed after an item was created, or there are too few items: \
             nothing can be measured, and nothing is suggested.\n",
        );
        return text;
    }
    text.push_str(
        "\nfield     shown  precision on later items   earlier half  coverage  first  first 3   most frequent  reporter's last  nearest item\n",
    );
    for one in &measured.fields {
        let shown = is_shown(one, min_precision);
        let (low, high) = interval(one.held_back.record);
        let baseline = |name: &str| {
            one.baselines.get(name).map_or_else(String::new, |split| share(split.record))
        };
        let _: std::fmt::Result = writeln!(
            text,
            "{:<9} {:<5}  {:>5} of {:<5} ({:>2.0}-{:>3.0} %)   {:>12}  {:>8}  {:>5}  {:>7}   {:>13}  {:>15}  {:>12}",
            one.field.into_str(),
            if shown { "yes" } else { "no" },
            share(one.held_back.record),
            one.held_back.record.of,
            100.0 * low,
            100.0 * high,
            share(one.stated.record),
            format!("{:.0} %", 100.0 * one.held_back.coverage()),
            share(one.first),
            share(one.first_three),
            baseline("most frequent"),
            baseline("reporter's last"),
            baseline("nearest item"),
        );
    }
    for one in measured.fields.iter().filter(|one| one.areas.len() > 1) {
        areas(&mut text, one);
    }
    text.push_str(
        "\nPrecision: how often a suggestion was what people chose in the end. Coverage: how many items \
         whose value people set or changed had a suggestion. The least score of a suggestion was chosen \
         on the earlier half and is judged here on the later one.\n",
    );
    text
}

/// Whether later suggestions for this field are shown.
fn is_shown(one: &FieldMeasure, min_precision: f64) -> bool {
    let record = one.held_back.record;
    record.of >= LEAST_MEASURED && record.precision() >= min_precision
}

fn areas(text: &mut String, one: &FieldMeasure) {
    let mut areas: Vec<(&String, &Split)> = one.areas.iter().collect();
    areas.sort_by_key(|(name, split)| (std::cmp::Reverse(split.record.of), (*name).clone()));
    let _: std::fmt::Result = writeln!(text, "\n{} by area", title(one.field));
    for (name, split) in areas.iter().take(MAX_AREAS) {
        let name = if name.is_empty() { "(none)" } else { name };
        let (low, high) = interval(split.record);
        let _: std::fmt::Result = writeln!(
            text,
            "  {:>5} of {:<5} ({:.0}-{:.0} %)  {name}",
            share(split.record),
            split.record.of,
            100.0 * low,
            100.0 * high,
        );
    }
    if areas.len() > MAX_AREAS {
        let _: std::fmt::Result = writeln!(text, "  and {} more areas", areas.len() - MAX_AREAS);
    }
}

const fn title(field: Field) -> &'static str {
    match field {
        Field::Area => "Area",
        Field::Type => "Type",
        Field::Priority => "Priority",
        Field::Severity => "Severity",
        Field::Tags => "Tags",
        Field::Owner => "Owner",
    }
}

fn share(record: TrackRecord) -> String {
    match record.of {
        0 => "-".to_owned(),
        _ => format!("{:.0} %", 100.0 * record.precision()),
    }
}
