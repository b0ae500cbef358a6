//! How often the suggestions would have been right on finished items.
//!
//! Time only moves forward: an item is asked about with what was known when it was created, the
//! fields of earlier items as they were at that moment. In the later half, what is shown, and with
//! which figure, follows from the suggestions whose outcome was known by then, with the rule that a
//! run judges by; whether it held is the measure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::figures::{Figure, Figures, is_reliable, lately, wilson};
use super::memory::{Example, Memory};
use super::vote::{Candidate, Evidence, NEIGHBOURS, Neighbour, candidates};
use crate::model::{ChosenBy, Field, ItemFields, TrackRecord};

/// Items before the first one that is asked about: without a past there is nothing to suggest.
const WARM_UP: usize = 50;
/// The last items of a reporter and of the team that vote.
pub const SAME_REPORTER: usize = 20;
pub const RECENT: usize = 50;
/// Tags suggested for one item.
const MAX_TAGS: usize = 2;
/// Somebody who owned nothing that was created for this long has left, in seconds.
const LEFT_AFTER: i64 = 180 * 24 * 3600;
/// Steps in which the least score is looked for.
const STEPS: u32 = 40;
/// The last known suggestions that it is looked for in, and items between two looks.
const LOOKED_AT: usize = 2_000;
/// Suggestions from a score on that have to be known before anything is shown from it on.
const LEAST_KNOWN: usize = 50;
const LOOK_EVERY: usize = 10;
/// The last suggestions that count for an area.
const OF_AREAS: usize = 400;
const DAY: f64 = 24.0 * 3600.0;

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
#[derive(Debug, Clone, PartialEq)]
struct Trial {
    area: String,
    score: f64,
    right: bool,
    /// When the value that counts was set.
    known_at: i64,
}

/// What a way of suggesting achieves on the later half of the items.
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
    fn add(&mut self, right: bool, needed: bool) {
        self.record = self.record.plus(TrackRecord { right: u32::from(right), of: 1 });
        self.covered += u32::from(needed);
    }

    pub fn coverage(self) -> f64 {
        f64::from(self.covered) / f64::from(self.needed.max(1))
    }
}

/// The figures of one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FieldMeasure {
    pub field: Field,
    /// What would be shown now: from which score on, how often that was right lately, and by area.
    pub cutoff: f64,
    pub record: TrackRecord,
    pub areas: BTreeMap<String, TrackRecord>,
    pub shown: bool,
    /// The precision that was stated with what would have been shown in the later half, on average,
    /// and what it was.
    pub stated: f64,
    pub held_back: Split,
    /// Of the later half: right with the first value, and with the first three, whatever their
    /// score, where the item has one in the end.
    pub first: TrackRecord,
    pub first_three: TrackRecord,
    /// Simple ways, on the later half, by name.
    pub baselines: BTreeMap<&'static str, Split>,
}

impl FieldMeasure {
    /// What later suggestions are shown by.
    fn figures(&self) -> Vec<Figure> {
        let figure = |area: &str, record: TrackRecord| Figure {
            field: self.field,
            by: ChosenBy::History,
            area: area.to_owned(),
            cutoff: self.cutoff,
            record,
            needed: self.held_back.needed,
            covered: self.held_back.covered,
        };
        let areas = self.areas.iter().map(|(area, record)| figure(area, *record));
        std::iter::once(figure("", self.record)).chain(areas).collect()
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Items that were asked about.
    pub items: usize,
    pub fields: Vec<FieldMeasure>,
}

impl Measured {
    pub fn figures(&self) -> Vec<Figure> {
        self.fields.iter().flat_map(FieldMeasure::figures).collect()
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
    let mut tables = Field::ALL.map(|field| Table::of(field, min_precision));
    for (at, item) in order.iter().enumerate() {
        if at >= WARM_UP {
            let past =
                KnownBefore { order: &order[..at], memory: &memory, by_reporter: &by_reporter };
            let evidence = past.evidence(item);
            for table in &mut tables {
                if at >= middle && (at - middle).is_multiple_of(LOOK_EVERY) {
                    table.look(item.created_at);
                }
                table.ask(item, &evidence, at >= middle);
            }
        }
        memory.add(&item.words);
        if let Some(reporter) = &item.fields.at_creation.reporter {
            by_reporter.entry(reporter.clone()).or_default().push(at);
        }
        seen(at + 1);
    }
    let fields = tables.into_iter().filter_map(Table::close);
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
                .map(|(number, similarity)| Neighbour {
                    similarity,
                    age: days(at - self.order.get(number).map_or(at, |known| known.created_at)),
                    fields: fields(number),
                })
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

#[expect(clippy::cast_precision_loss, reason = "seconds")]
fn days(seconds: i64) -> f64 {
    seconds as f64 / DAY
}

#[derive(Debug)]
struct Table {
    measure: FieldMeasure,
    min_precision: f64,
    trials: Vec<Trial>,
    /// What would be shown by the outcomes known when they were last looked at.
    figures: Figures,
    /// Sum of the stated precisions.
    stated: f64,
}

impl Table {
    fn of(field: Field, min_precision: f64) -> Self {
        let measure = FieldMeasure {
            field,
            cutoff: 0.5,
            record: TrackRecord::default(),
            areas: BTreeMap::new(),
            shown: false,
            stated: 0.0,
            held_back: Split::default(),
            first: TrackRecord::default(),
            first_three: TrackRecord::default(),
            baselines: BTreeMap::new(),
        };
        let (trials, figures) = (Vec::new(), Figures::default());
        Self { measure, min_precision, trials, figures, stated: 0.0 }
    }

    fn ask(&mut self, item: &PastItem, evidence: &Evidence, late: bool) {
        let field = self.measure.field;
        let (own, last) = (&item.fields.at_creation, item.fields.last());
        // An empty field in the end is no answer; no tag is one.
        if last.values(field).is_empty() && !field.is_list() {
            return;
        }
        let is_new = |value: &String| !own.has(field, value);
        let needed = last.values(field).iter().any(is_new);
        let found = candidates(field, evidence);
        self.measure.held_back.needed += u32::from(needed && late);
        let most = if field.is_list() { MAX_TAGS } else { 1 };
        // If the best value is what the item has, nothing is suggested.
        let worth = |one: &&Candidate| !own.has(field, &one.value);
        let suggested: Vec<&Candidate> = match found.first() {
            Some(best) if own.has(field, &best.value) && !field.is_list() => Vec::new(),
            _ => found.iter().filter(worth).take(most).collect(),
        };
        let changes = item.fields.changes.iter().filter(|(_, changed, _)| *changed == field);
        let known_at = changes.map(|(at, ..)| *at).max().unwrap_or(item.created_at);
        for one in suggested {
            let right = last.has(field, &one.value);
            let area = match field {
                Field::Area => one.value.clone(),
                _ => own.area.clone().unwrap_or_default(),
            };
            if late {
                self.show(&area, one.score, right, needed);
            }
            self.trials.push(Trial { area, score: one.score, right, known_at });
        }
        if !late {
            return;
        }
        if needed && !found.is_empty() {
            let hit =
                |count: usize| found.iter().take(count).any(|one| last.has(field, &one.value));
            let record = |count| TrackRecord { right: u32::from(hit(count)), of: 1 };
            self.measure.first = self.measure.first.plus(record(1));
            self.measure.first_three = self.measure.first_three.plus(record(3));
        }
        for (name, value) in baselines(field, evidence) {
            let split = self.measure.baselines.entry(name).or_default();
            split.needed += u32::from(needed);
            if let Some(value) = value.filter(|value| !own.has(field, value)) {
                split.add(last.has(field, &value), needed);
            }
        }
    }

    /// Counts a suggestion if it would have been shown.
    fn show(&mut self, area: &str, score: f64, right: bool, needed: bool) {
        let (field, by) = (self.measure.field, ChosenBy::History);
        let judged = self.figures.judge((field, by, area), self.min_precision);
        let Some((record, true)) = judged else { return };
        if score >= self.figures.cutoff(field, by) {
            self.stated += record.precision();
            self.measure.held_back.add(right, needed);
        }
    }

    /// What would be shown by what is known at this moment.
    fn look(&mut self, now: i64) {
        let mut known: Vec<&Trial> =
            self.trials.iter().filter(|trial| trial.known_at <= now).collect();
        known.sort_by_key(|trial| trial.known_at);
        let known = known.get(known.len().saturating_sub(LOOKED_AT)..).unwrap_or_default();
        let (cutoff, record) = least_score(self.min_precision, known);
        let made = known.iter().rev().filter(|trial| trial.score >= cutoff).take(OF_AREAS);
        let mut areas: BTreeMap<String, TrackRecord> = BTreeMap::new();
        // Items without an area are part of all areas, and no area of their own.
        for trial in made.filter(|trial| !trial.area.is_empty()) {
            let area = areas.entry(trial.area.clone()).or_default();
            *area = area.plus(TrackRecord { right: u32::from(trial.right), of: 1 });
        }
        self.measure.shown = is_reliable(record, self.min_precision);
        (self.measure.cutoff, self.measure.record, self.measure.areas) = (cutoff, record, areas);
        self.figures = Figures::new(self.measure.figures(), []);
    }

    /// `None` if nobody ever used the field.
    fn close(mut self) -> Option<FieldMeasure> {
        if self.trials.is_empty() {
            return None;
        }
        self.look(i64::MAX);
        self.measure.stated = self.stated / f64::from(self.measure.held_back.record.of.max(1));
        Some(self.measure)
    }
}

/// The lowest score from which on the suggestions were right often enough lately, else the one where
/// they did best; and how often they were right. Oldest first.
fn least_score(min_precision: f64, known: &[&Trial]) -> (f64, TrackRecord) {
    let mut best = (0.5, TrackRecord::default());
    for step in 1..STEPS {
        let cutoff = f64::from(step) / f64::from(STEPS);
        let made = known.iter().filter(|trial| trial.score >= cutoff);
        let right: Vec<bool> = made.map(|trial| trial.right).collect();
        if right.len() < LEAST_KNOWN {
            break;
        }
        let record = lately(&right);
        if is_reliable(record, min_precision) {
            return (cutoff, record);
        }
        let low = |record| wilson(record, 1.0).0;
        if best.1.of == 0 || low(record) > low(best.1) {
            best = (cutoff, record);
        }
    }
    best
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
        let held = area.held_back;
        assert!(area.shown && (area.stated - held.record.precision()).abs() < 0.03, "{area:?}");
        assert!(held.record.precision() > 0.95 && held.coverage() > 0.9, "{area:?}");
        assert!(area.baselines["most frequent"].record.precision() < 0.7, "{area:?}");
        let figures = measured.figures();
        assert_eq!(figures.iter().filter(|figure| figure.area == "Cart").count(), 1);
        let of_all = figures.iter().filter(|figure| figure.area.is_empty());
        assert_eq!(of_all.count(), measured.fields.len(), "items without an area are no area");
    }

    /// People give the carts to somebody else: after 200 such corrections, how many of 100 new items of
    /// each kind have a wrong first owner or area?
    #[test]
    fn two_hundred_corrections_of_one_kind_halve_its_error_and_leave_the_others_alone() {
        let owned = |id: i64, dora: bool| {
            let (title, area, owner) = match id % 2 {
                0 => ("cart coupon total", "Cart", if dora { "Dora" } else { "Ann" }),
                _ => ("search index query", "Search", "Bob"),
            };
            let mut item = item(id, &format!("{title} {id}"), area, 10);
            item.fields.changes.push((id * 1_000 + 10, Field::Owner, vec![owner.to_owned()]));
            item
        };
        let wrong = |corrections: i64| {
            let past: Vec<PastItem> = (0..400)
                .map(|id| owned(id, false))
                .chain((400..400 + 2 * corrections).map(|id| owned(id, true)))
                .collect();
            let mut memory = Memory::default();
            past.iter().for_each(|item| memory.add(&item.words));
            let (order, by_reporter) = (past.iter().collect::<Vec<_>>(), HashMap::new());
            let known = KnownBefore { order: &order, memory: &memory, by_reporter: &by_reporter };
            let mut wrong: BTreeMap<(Field, i64), u32> = BTreeMap::new();
            for id in 2_000..2_200 {
                let item = owned(id, true);
                let evidence = known.evidence(&item);
                for field in [Field::Area, Field::Owner] {
                    let found = candidates(field, &evidence);
                    let right = item.fields.last().has(field, &found[0].value);
                    *wrong.entry((field, id % 2)).or_default() += u32::from(!right);
                }
            }
            wrong
        };
        let (before, after) = (wrong(0), wrong(200));
        let cart = (Field::Owner, 0);
        assert!(before[&cart] == 100 && after[&cart] <= 50, "{before:?} {after:?}");
        let others = before.iter().filter(|(kind, _)| **kind != cart);
        others.for_each(|(kind, wrong)| assert!(after[kind] <= *wrong, "{kind:?} {after:?}"));
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
