//! Suggested values for the fields of new items: gathered before triage, checked and judged after
//! it. They cost no session of their own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{RunContext, RunError};
use crate::context::CodeHint;
use crate::dedupe::{ItemWords, QueuedItem};
use crate::model::text::clip;
use crate::model::{ChosenBy, Fate, Field, ItemFields, ItemKey, Suggestion, Verdict};
use crate::store::RememberedItem;
use crate::suggest::{
    Candidate, Chosen, Evidence, Figures, Memory, NEIGHBOURS, Neighbour, Options, RECENT,
    SAME_REPORTER, candidates, matched, words_kept,
};

/// Somebody who owned nothing that changed for this long has left.
const LEFT_AFTER: SignedDuration = SignedDuration::from_hours(180 * 24);
/// Without a record, only what most of the evidence says is remembered, to build one.
const LEAST_UNMEASURED: f64 = 0.5;
const DAY: f64 = 24.0 * 3600.0;

/// Corrections of similar items that triage is told for an item: how similar, how many, how long.
const LEAST_CORRECTED: f64 = 0.15;
const MAX_CORRECTIONS: usize = 2;
const MAX_CORRECTION_LEN: usize = 160;

/// What was offered for the items of a run.
#[derive(Default)]
pub(super) struct Offers(HashMap<ItemKey, Offer>);

struct Offer {
    own: ItemFields,
    /// In the prompt.
    options: Options,
    /// For fields without a record: not in the prompt and not shown, only compared with what people
    /// do later.
    unmeasured: Vec<Chosen>,
    figures: Arc<Figures>,
    fixed_by: Option<String>,
    corrections: String,
}

/// Gathers values for the fields of these items from earlier items and from the code.
pub(super) async fn gather(cx: &RunContext, items: &[QueuedItem]) -> Result<Offers, RunError> {
    cx.journal.suggestions().settle_overdue().await?;
    let mut hints =
        cx.edges.code.hints(items.iter().map(|item| item.item.clone()).collect(), cx.now()).await;
    let sources: BTreeSet<&str> = items.iter().map(|item| item.key().source()).collect();
    let mut offers = HashMap::with_capacity(items.len());
    for source in sources {
        let known = cx.store().suggestions().remembered(source.to_owned()).await?;
        let figures = Arc::new(cx.store().suggestions().figures(source.to_owned()).await?);
        let corrections = cx.store().suggestions().corrections(source.to_owned()).await?;
        let past = Past { corrections, ..Past::of(known, cx.now()) };
        for item in items.iter().filter(|item| item.key().source() == source) {
            let hint = hints.remove(item.key()).unwrap_or_default();
            offers.insert(item.key().clone(), past.offer(item, hint, &figures));
        }
    }
    Ok(Offers(offers))
}

/// The earlier items of a source.
struct Past {
    now: Timestamp,
    /// Newest first.
    known: Vec<RememberedItem>,
    memory: Memory,
    people: Vec<String>,
    active: BTreeSet<String>,
    /// What people said was wrong, by item.
    corrections: HashMap<ItemKey, String>,
}

impl Past {
    fn of(known: Vec<RememberedItem>, now: Timestamp) -> Self {
        let mut memory = Memory::default();
        known.iter().for_each(|item| memory.add(&item.words));
        let since = now.checked_sub(LEFT_AFTER).unwrap_or(Timestamp::MIN);
        let owners = |since: Timestamp| {
            let lately = known.iter().filter(move |item| item.changed_at >= since);
            lately.filter_map(|item| item.fields.owner.clone())
        };
        let people: BTreeSet<String> = owners(Timestamp::MIN).collect();
        let active = owners(since).map(|owner| owner.to_lowercase()).collect();
        Self {
            people: people.into_iter().collect(),
            active,
            memory,
            now,
            known,
            corrections: HashMap::new(),
        }
    }

    fn offer(&self, item: &QueuedItem, hint: CodeHint, figures: &Arc<Figures>) -> Offer {
        let own = ItemFields::of(item.facts());
        let near = self.near(item);
        let evidence = self.evidence(item, &near, &hint);
        let likely: Vec<(Field, Vec<Candidate>)> =
            Field::ALL.map(|field| (field, candidates(field, &evidence))).into();
        let unmeasured = likely.iter().filter(|(field, _)| !figures.knows(*field));
        let unmeasured = unmeasured.filter_map(|(field, found)| {
            let best = found.first()?;
            let new = best.score >= LEAST_UNMEASURED && !own.has(*field, &best.value);
            let (value, by) = (best.value.clone(), ChosenBy::History);
            new.then_some(Chosen { field: *field, value, score: best.score, by })
        });
        Offer {
            unmeasured: unmeasured.collect(),
            options: Options::of(likely.iter().cloned(), &own, figures),
            figures: Arc::clone(figures),
            fixed_by: hint.fixed_by,
            corrections: self.corrected(&near),
            own,
        }
    }

    /// The items most like this one, with their similarity.
    fn near(&self, item: &QueuedItem) -> Vec<(&RememberedItem, f64)> {
        let words = ItemWords::of(&item.item);
        let words = words_kept(&words.title, &words.text);
        let near = self.memory.nearest(&words, NEIGHBOURS + 1).into_iter();
        near.filter_map(|(number, similarity)| Some((self.known.get(number)?, similarity)))
            .filter(|(known, _)| known.key != *item.key())
            .take(NEIGHBOURS)
            .collect()
    }

    /// What people said was wrong about the nearest items, in a few words.
    fn corrected(&self, near: &[(&RememberedItem, f64)]) -> String {
        let similar = near.iter().filter(|(_, similarity)| *similarity >= LEAST_CORRECTED);
        let notes = similar.filter_map(|(known, _)| self.corrections.get(&known.key));
        let notes = notes.take(MAX_CORRECTIONS).map(|note| clip(note, MAX_CORRECTION_LEN));
        notes.collect::<Vec<_>>().join("; ").replace('\n', " ")
    }

    fn evidence(
        &self,
        item: &QueuedItem,
        near: &[(&RememberedItem, f64)],
        hint: &CodeHint,
    ) -> Evidence {
        let created = |known: &RememberedItem| known.created_at.unwrap_or(known.changed_at);
        let neighbour = |(known, similarity): &(&RememberedItem, f64)| Neighbour {
            similarity: *similarity,
            age: self.now.duration_since(created(known)).as_secs_f64() / DAY,
            fields: known.fields.clone(),
        };
        let others = || self.known.iter().filter(|known| known.key != *item.key());
        let reporter = item.facts().reporter.as_ref().filter(|name| !name.is_empty());
        let reported = others()
            .filter(|known| reporter.is_some() && known.fields.reporter.as_ref() == reporter);
        let people = matched(&hint.authors, &self.people);
        let mut active = self.active.clone();
        active.extend(people.iter().map(|(person, _)| person.to_lowercase()));
        Evidence {
            neighbours: near.iter().map(neighbour).collect(),
            same_reporter: reported.take(SAME_REPORTER).map(|known| known.fields.clone()).collect(),
            recent: others().take(RECENT).map(|known| known.fields.clone()).collect(),
            people,
            active: Some(active),
        }
    }
}

impl Offers {
    /// The line of values that triage can choose from; may be empty.
    pub(super) fn text(&self, key: &ItemKey) -> String {
        self.0.get(key).map(|offer| offer.options.text()).unwrap_or_default()
    }

    /// What people said was wrong about similar items; may be empty.
    pub(super) fn corrections(&self, key: &ItemKey) -> String {
        self.0.get(key).map(|offer| offer.corrections.clone()).unwrap_or_default()
    }

    /// The commit that seems to have fixed the item already.
    pub(super) fn fixed_by(&self, key: &ItemKey) -> Option<String> {
        self.0.get(key)?.fixed_by.clone()
    }

    /// What triage's choice leads to. A number that was not offered is dropped, and how many were
    /// is logged.
    pub(super) fn suggestions(
        &self,
        cx: &RunContext,
        key: &ItemKey,
        verdict: &Verdict,
    ) -> Vec<Suggestion> {
        let Some(offer) = self.0.get(key) else { return Vec::new() };
        let (chosen, unknown) = offer.options.check(verdict.set.as_deref());
        if unknown > 0 {
            tracing::warn!(item = %key, unknown, "triage chose values that were not offered; they are dropped");
        }
        let least = cx.config.suggest.min_precision;
        chosen
            .into_iter()
            .chain(offer.unmeasured.iter().cloned())
            .filter_map(|chosen| suggestion(key, offer, chosen, least))
            .collect()
    }
}

fn suggestion(key: &ItemKey, offer: &Offer, chosen: Chosen, least: f64) -> Option<Suggestion> {
    let Chosen { field, value, score, by } = chosen;
    let figures = &offer.figures;
    // What triage prefers has a record of its own; the least score is that of the evidence alone.
    if by == ChosenBy::History && score < figures.cutoff(field, by) {
        return None;
    }
    let area = match field {
        Field::Area => value.clone(),
        _ => offer.own.area.clone().unwrap_or_default(),
    };
    let judged = figures.judge((field, by, &area), least);
    Some(Suggestion {
        key: key.clone(),
        before: offer.own.text(field),
        record: judged.map(|(record, _)| record),
        shown: judged.is_some_and(|(_, shown)| shown),
        fate: Fate::Open,
        field,
        value,
        area,
        by,
        score,
    })
}
