//! The figures of `backtest --triage` as tables.

use std::fmt::Write as _;

use crate::model::{Field, TrackRecord};
use crate::suggest::{FieldMeasure, Measured, interval};

/// Areas listed per field, those with most suggestions first.
const MAX_AREAS: usize = 8;

/// The figures of one source.
pub fn render_triage(source: &str, measured: &Measured) -> String {
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
        "\nfield     shown  lately          stated   was right               coverage  first  first 3   most frequent  reporter's last  nearest item\n",
    );
    for one in &measured.fields {
        let held = one.held_back.record;
        let (low, high) = interval(held);
        let baseline = |name: &str| {
            one.baselines.get(name).map_or_else(String::new, |split| share(split.record))
        };
        let stated = if held.of == 0 { "-".to_owned() } else { percent(one.stated) };
        let _: std::fmt::Result = writeln!(
            text,
            "{:<9} {:<5}  {:>5} of {:<5}  {:>6}  {:>5} of {:<5} ({:>2.0}-{:>3.0} %)  {:>8}  {:>5}  {:>7}   {:>13}  {:>15}  {:>12}",
            one.field.into_str(),
            if one.shown { "yes" } else { "no" },
            share(one.record),
            one.record.of,
            stated,
            share(held),
            held.of,
            100.0 * low,
            100.0 * high,
            percent(one.held_back.coverage()),
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
        "\nLately: how often the last suggestions were what people chose in the end, by which later ones are \
         shown. Of the later half, as if it had been measured all along: the precision stated with what \
         would have been shown, and how often it was right. Coverage: how many items whose value people \
         set or changed had such a suggestion.\n",
    );
    text
}

fn areas(text: &mut String, one: &FieldMeasure) {
    let mut areas: Vec<(&String, &TrackRecord)> = one.areas.iter().collect();
    areas.sort_by_key(|(name, record)| (std::cmp::Reverse(record.of), (*name).clone()));
    let _: std::fmt::Result = writeln!(text, "\n{} by area", title(one.field));
    for (name, record) in areas.iter().take(MAX_AREAS) {
        let (low, high) = interval(**record);
        let _: std::fmt::Result = writeln!(
            text,
            "  {:>5} of {:<5} ({:.0}-{:.0} %)  {name}",
            share(**record),
            record.of,
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
        _ => percent(record.precision()),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
