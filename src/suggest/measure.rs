//! How often the suggestions would have been right on finished items.
//!
//! Time only moves forward: an item is asked about with what was known when it was created, the
//! fields of earlier items as they were at that moment. The least score of a suggestion is chosen on
//! the earlier half and judged on the later one, which nothing was chosen by.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::figures::{Figure, LEAST_MEASURED};
use super::memory::{Example, Memory};
use super::vote::{Candidate, Evidence, NEIGHBOURS, Neighbour, candidates};
use crate::model::{ChosenBy, Field, ItemFields, TrackRecord};

/// Items before the first one that is asked about: without a past there is nothing to suggest.
const WARM_UP: usize = 50;
/// The last items of a reporter and of the team that vote.
pub const SAME_REPORTER: usize = 5;
pub const RECENT: usize = 50;
/// Tags suggested for one item.
const MAX_TAGS: usize = 2;
/// Somebody who owned nothing that was created for this long has left, in seconds.
const LEFT_AFTER: i64 = 180 * 24 * 3600;
/// Steps in which the least score is looked for.
const STEPS: u32 = 40;

/// The values of an item's fields over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PastFields {
    pub at_creation: ItemFields,
    /// What a field was set to, and when (seconds since the epoch), oldest first.
    pub changes: Vec<(i64, Field, Vec<String>)>,
}

impl PastFields {
    /// The fields at an instant; nothing that happened later is in them.
    pub fn as_of(&self, at: i64) -> ItemFields {
        let mut fields = self.at_creation.clone();
        for (_, field, values) in self.changes.iter().filter(|(when, ..)| *when <= at) {
            fields.set(*field, values.clone());
        }
        fields
    }

    /// The same for the owner alone, who is asked for often.
    fn owner_as_of(&self, at: i64) -> Option<&String> {
        let mut owner = self.at_creation.owner.as_ref();
        for (when, field, values) in &self.changes {
            if *when <= at && *field == Field::Owner {
                owner = values.first();
            }
        }
        owner
    }

    pub fn last(&self) -> ItemFields {
        self.as_of(i64::MAX)
    }
}

/// A finished item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PastItem {
    pub id: i64,
    /// Seconds since the epoch.
    pub created_at: i64,
    pub words: Example,
    pub fields: PastFields,
    /// People who changed the code it points to before it was created, by the tracker's names.
    pub people: Vec<(String, f64)>,
}

/// One value that would have been suggested, or not, by its score.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TriedValue {
    score: f64,
    right: bool,
    /// A person set or changed the value later.
    needed: bool,
    late: bool,
}

/// What a way of suggesting achieves on one half of the items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Split {
    #[serde(flatten)]
    pub record: TrackRecord,
    /// Items whose value a person set or changed.
    pub needed: u32,
    /// Those of them with a suggestion.
    pub covered: u32,
}

impl Split {
    fn add(&mut self, trial: TriedValue) {
        self.record.of += 1;
        self.record.right += u32::from(trial.right);
        self.covered += u32::from(trial.needed);
    }

    pub fn coverage(self) -> f64 {
        f64::from(self.covered) / f64::from(self.needed.max(1))
    }
}

/// The figures of one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldMeasure {
    pub field: Field,
    pub cutoff: f64,
    /// On the earlier half, where the least score was chosen.
    pub stated: Split,
    /// On the later half, which nothing was chosen by.
    pub held_back: Split,
    /// Of the later half: right with the first value, and with the first three, whatever their
    /// score, where the item has one in the end.
    pub first: TrackRecord,
    pub first_three: TrackRecord,
    /// Simple ways, on the later half, by name.
    pub baselines: BTreeMap<&'static str, Split>,
    /// On the later half, by area.
    pub areas: BTreeMap<String, Split>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Items that were asked about.
    pub items: usize,
    pub fields: Vec<FieldMeasure>,
}

impl Measured {
    /// What later suggestions are shown by: the least score, and how often it was right on items
    /// that it was not chosen by.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for one in &self.fields {
            let figure = |area: &str, split: Split| Figure {
                field: one.field,
                by: ChosenBy::History,
                area: area.to_owned(),
                cutoff: one.cutoff,
                record: split.record,
                needed: split.needed,
                covered: split.covered,
            };
            figures.push(figure("", one.held_back));
            // Items without an area are part of all areas, and no area of their own.
            let named = one.areas.iter().filter(|(area, _)| !area.is_empty());
            figures.extend(named.map(|(area, split)| figure(area, *split)));
        }
        figures
    }
}

/// Asks about every item as of its creation, oldest first.
pub fn measure(items: &[PastItem], min_precision: f64, mut seen: impl FnMut(usize)) -> Measured {
    let mut order: Vec<&PastItem> = items.iter().collect();
    order.sort_by_key(|item| (item.created_at, item.id));
    let asked = order.len().saturating_sub(WARM_UP);
    let middle = WARM_UP + asked / 2;
    let mut memory = Memory::default();
    let mut by_reporter: HashMap<String, Vec<usize>> = HashMap::new();
    let mut tables: BTreeMap<Field, Table> =
        Field::ALL.into_iter().map(|field| (field, Table::default())).collect();
    for (at, item) in order.iter().enumerate() {
        if at >= WARM_UP {
            let past =
                KnownBefore { order: &order[..at], memory: &memory, by_reporter: &by_reporter };
            let evidence = past.evidence(item);
            for (field, table) in &mut tables {
                table.ask(*field, item, &evidence, at >= middle);
            }
        }
        memory.add(&item.words);
        if let Some(reporter) = &item.fields.at_creation.reporter {
            by_reporter.entry(reporter.clone()).or_default().push(at);
        }
        seen(at + 1);
    }
    let fields = tables.into_iter().filter_map(|(field, table)| table.close(field, min_precision));
    Measured { items: asked, fields: fields.collect() }
}

/// What was known before an item.
struct KnownBefore<'a> {
    order: &'a [&'a PastItem],
    memory: &'a Memory,
    by_reporter: &'a HashMap<String, Vec<usize>>,
}

impl KnownBefore<'_> {
    fn evidence(&self, item: &PastItem) -> Evidence {
        let at = item.created_at;
        let fields = |number: usize| {
            self.order.get(number).map(|known| known.fields.as_of(at)).unwrap_or_default()
        };
        let near = self.memory.nearest(&item.words, NEIGHBOURS);
        let reporter = item.fields.at_creation.reporter.as_ref();
        let same = reporter.and_then(|reporter| self.by_reporter.get(reporter));
        let same = same.map(Vec::as_slice).unwrap_or_default();
        let recent = self.order.iter().rev().take(RECENT);
        let active = |known: &&&PastItem| known.created_at >= at - LEFT_AFTER;
        let owners = self.order.iter().rev().take_while(active);
        let owners = owners.filter_map(|known| known.fields.owner_as_of(at));
        let code: Vec<String> = item.people.iter().map(|(person, _)| person.clone()).collect();
        let active: BTreeSet<String> =
            owners.chain(code.iter()).map(|owner| owner.to_lowercase()).collect();
        Evidence {
            neighbours: near
                .into_iter()
                .map(|(number, similarity)| Neighbour { similarity, fields: fields(number) })
                .collect(),
            same_reporter: same
                .iter()
                .rev()
                .take(SAME_REPORTER)
                .map(|number| fields(*number))
                .collect(),
            recent: recent.map(|known| known.fields.as_of(at)).collect(),
            people: item.people.clone(),
            active: Some(active),
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    trials: Vec<(String, TriedValue)>,
    baselines: BTreeMap<&'static str, Split>,
    /// Items that needed a value: in the earlier half, in the later one, and there by area.
    needed: [u32; 2],
    needed_in: BTreeMap<String, u32>,
    first: TrackRecord,
    first_three: TrackRecord,
}

impl Table {
    fn ask(&mut self, field: Field, item: &PastItem, evidence: &Evidence, late: bool) {
        let (own, last) = (&item.fields.at_creation, item.fields.last());
        // An empty field in the end is no answer; no tag is one.
        if last.values(field).is_empty() && !field.is_list() {
            return;
        }
        let is_new = |value: &String| !own.has(field, value);
        let needed = last.values(field).iter().any(is_new);
        let found = candidates(field, evidence);
        if needed {
            self.needed[usize::from(late)] += 1;
        }
        let area_of = |value: &str| match field {
            Field::Area => value.to_owned(),
            _ => own.area.clone().unwrap_or_default(),
        };
        if needed && late {
            let area = area_of(last.values(field).first().map_or("", String::as_str));
            *self.needed_in.entry(area).or_default() += 1;
        }
        let most = if field.is_list() { MAX_TAGS } else { 1 };
        // If the best value is what the item has, nothing is suggested.
        let worth = |one: &&Candidate| !own.has(field, &one.value);
        let suggested: Vec<&Candidate> = match found.first() {
            Some(best) if own.has(field, &best.value) && !field.is_list() => Vec::new(),
            _ => found.iter().filter(worth).take(most).collect(),
        };
        for one in suggested {
            let right = last.has(field, &one.value);
            let trial = TriedValue { score: one.score, right, needed, late };
            self.trials.push((area_of(&one.value), trial));
        }
        if !late {
            return;
        }
        if needed && !found.is_empty() {
            let hit =
                |count: usize| found.iter().take(count).any(|one| last.has(field, &one.value));
            self.first = self.first.plus(TrackRecord { right: u32::from(hit(1)), of: 1 });
            self.first_three =
                self.first_three.plus(TrackRecord { right: u32::from(hit(3)), of: 1 });
        }
        for (name, value) in baselines(field, evidence) {
            let split = self.baselines.entry(name).or_default();
            split.needed += u32::from(needed);
            if let Some(value) = value.filter(|value| !own.has(field, value)) {
                let right = last.has(field, &value);
                split.add(TriedValue { score: 1.0, right, needed, late });
            }
        }
    }

    /// `None` if nobody ever used the field.
    fn close(self, field: Field, min_precision: f64) -> Option<FieldMeasure> {
        if self.trials.is_empty() {
            return None;
        }
        let half = |cutoff: f64, late: bool| {
            let mut split = Split { needed: self.needed[usize::from(late)], ..Split::default() };
            let made = self.trials.iter().map(|(_, trial)| *trial);
            made.filter(|trial| trial.late == late && trial.score >= cutoff)
                .for_each(|trial| split.add(trial));
            split
        };
        let cutoff = least_score(min_precision, |cutoff| half(cutoff, false).record);
        let mut areas: BTreeMap<String, Split> = BTreeMap::new();
        for (area, trial) in self.trials.iter().filter(|(_, t)| t.late && t.score >= cutoff) {
            areas.entry(area.clone()).or_default().add(*trial);
        }
        for (area, split) in &mut areas {
            split.needed = self.needed_in.get(area).copied().unwrap_or_default();
        }
        Some(FieldMeasure {
            field,
            cutoff,
            stated: half(cutoff, false),
            held_back: half(cutoff, true),
            first: self.first,
            first_three: self.first_three,
            baselines: self.baselines,
            areas,
        })
    }
}

/// The lowest score from which on the suggestions were right often enough; else the one where they
/// were right most often.
fn least_score(min_precision: f64, record: impl Fn(f64) -> TrackRecord) -> f64 {
    let steps = || (1..STEPS).map(|step| f64::from(step) / f64::from(STEPS));
    let enough = |cutoff: &f64| {
        let found = record(*cutoff);
        found.of >= LEAST_MEASURED && found.precision() >= min_precision
    };
    if let Some(cutoff) = steps().find(enough) {
        return cutoff;
    }
    let many = steps().filter(|cutoff| record(*cutoff).of >= LEAST_MEASURED);
    let best = many.max_by(|a, b| record(*a).precision().total_cmp(&record(*b).precision()));
    best.unwrap_or(0.5)
}

fn baselines(field: Field, evidence: &Evidence) -> [(&'static str, Option<String>); 3] {
    let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
    for value in evidence.recent.iter().flat_map(|fields| fields.values(field)) {
        *counts.entry(value).or_default() += 1;
    }
    let frequent = counts.into_iter().max_by_key(|(_, count)| *count);
    let first = |fields: &ItemFields| fields.values(field).first().cloned();
    [
        ("most frequent", frequent.map(|(value, _)| value.clone())),
        ("reporter's last", evidence.same_reporter.first().and_then(first)),
        ("nearest item", evidence.neighbours.first().and_then(|near| first(&near.fields))),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::memory::words_kept;
    use super::*;

    fn item(id: i64, title: &str, area: &str, set_after: i64) -> PastItem {
        PastItem {
            id,
            created_at: id * 1_000,
            words: words_kept(title, ""),
            fields: PastFields {
                at_creation: ItemFields::default(),
                changes: vec![(id * 1_000 + set_after, Field::Area, vec![area.to_owned()])],
            },
            people: Vec::new(),
        }
    }

    /// Two areas, told apart by their words.
    fn history(set_after: i64) -> Vec<PastItem> {
        (0..400)
            .map(|id| match id % 2 {
                0 => item(id, &format!("cart coupon total {id}"), "Cart", set_after),
                _ => item(id, &format!("search index query {id}"), "Search", set_after),
            })
            .collect()
    }

    #[test]
    fn what_words_tell_is_suggested_and_the_figure_holds_later() {
        let measured = measure(&history(10), 0.8, |_| {});
        let area = &measured.fields[0];
        assert_eq!((measured.items, area.field), (350, Field::Area));
        assert!(area.stated.record.precision() > 0.95, "{area:?}");
        assert!(area.held_back.record.precision() > 0.95 && area.held_back.coverage() > 0.9);
        assert!(area.baselines["most frequent"].record.precision() < 0.7, "{area:?}");
        let figures = measured.figures();
        assert_eq!(figures.iter().filter(|figure| figure.area == "Cart").count(), 1);
        let of_all = figures.iter().filter(|figure| figure.area.is_empty());
        assert_eq!(of_all.count(), measured.fields.len(), "items without an area are no area");
    }

    #[test]
    fn nothing_later_than_the_items_creation_is_used() {
        // Every value is set long after the next items were created, so nothing is known in time.
        let measured = measure(&history(10_000_000), 0.8, |_| {});
        assert!(measured.fields.is_empty(), "{:?}", measured.fields);
        let fields = history(500).remove(3).fields;
        assert_eq!(fields.as_of(3_499).area, None);
        assert_eq!(fields.as_of(3_500).area.as_deref(), Some("Search"));
    }
}
