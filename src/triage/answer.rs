//! Validates triage's answer id by id, and assigns the ids used in prompts and answers: the
//! tracker's numbers where they are unique.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::Batch;
use crate::model::{Duplicate, ItemId, ItemKey, Verdict};
use crate::prompt::{TRIAGE_SCHEMA, schema};

/// Reasons without content.
const PLACEHOLDERS: [&str; 18] = [
    "...",
    "\u{2026}",
    "-",
    "n/a",
    "na",
    "none",
    "null",
    "reason",
    "string",
    "text",
    "todo",
    "tbd",
    "because",
    "unknown",
    "see above",
    "same as above",
    "placeholder",
    "one sentence",
];

/// Shorter reasons have no content.
const MIN_REASON_LEN: usize = 8;

/// Limits of what is stored; the schema has no lengths, because every byte of it is sent.
const MAX_REASON_LEN: usize = 400;
const MAX_MODULE_LEN: usize = 80;
const MAX_WHY_LEN: usize = 200;
const MAX_MODULES: usize = 8;
const MAX_RELATED: usize = 20;
const MAX_TERM_LEN: usize = 60;
const MAX_TERMS: usize = 12;

/// Properties that earlier versions did not ask for; an answer without them is valid.
const OPTIONAL: [&str; 8] =
    ["doubt", "confidence", "terms", "related", "duplicates", "set", "ask", "code_bases"];

/// First number used for items whose own number is already taken.
const FIRST_SUBSTITUTE_ID: i64 = 9_000_001;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub verdicts: Vec<(ItemKey, Verdict)>,
    /// The ids to ask about again.
    pub failed: Vec<ItemId>,
}

/// The result for each id. The lists are sorted, and each id of the batch is in exactly one of
/// `verdicts`, `missing`, `doubled`, `malformed` and `placeholder`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// In the batch's order.
    pub verdicts: Vec<Verdict>,
    /// Not in the answer.
    pub missing: Vec<ItemId>,
    /// In the answer more than once.
    pub doubled: Vec<ItemId>,
    /// Violates the schema.
    pub malformed: Vec<ItemId>,
    /// Has a reason without content.
    pub placeholder: Vec<ItemId>,
    /// Not asked about; ignored.
    pub unknown: Vec<ItemId>,
}

impl Checked {
    /// The ids to ask about again.
    pub fn failed(&self) -> Vec<ItemId> {
        let lists = [&self.missing, &self.doubled, &self.malformed, &self.placeholder];
        let mut failed: Vec<ItemId> = lists.into_iter().flatten().copied().collect();
        failed.sort_unstable();
        failed
    }
}

pub fn check_answer(batch: &Batch, output: &Value) -> Answer {
    let candidates: Vec<ItemId> = batch.candidates().iter().map(|known| known.id).collect();
    let mut answer = judge(&batch.ids(), &batch.numbers(), &candidates, output);
    for (key, verdict) in &mut answer.verdicts {
        let own = batch.items.iter().find(|item| item.key == *key);
        let own = own.map(|item| item.code_bases.as_slice()).unwrap_or_default();
        verdict.code_bases.retain(|name| own.contains(name));
    }
    answer
}

/// Checks an answer that a crash left unused; only the items of its batch are known.
pub fn check_late_answer<'a>(
    keys: impl IntoIterator<Item = &'a ItemKey>,
    output: &Value,
) -> Answer {
    let numbers = Numbers::of(keys);
    let ids: Vec<ItemId> = numbers.ids().collect();
    judge(&ids, &numbers, &[], output)
}

/// `numbers` covers the items that were asked about and the candidates.
fn judge(ids: &[ItemId], numbers: &Numbers, candidates: &[ItemId], output: &Value) -> Answer {
    let checked = check(ids, candidates, output);
    let failed = checked.failed();
    let own = |verdict| numbers.own(verdict);
    Answer { verdicts: checked.verdicts.into_iter().filter_map(own).collect(), failed }
}

/// Checks an answer against the requested ids; `known` are other items that it may name as
/// duplicates. No output counts as an empty answer.
pub fn check(ids: &[ItemId], known: &[ItemId], output: &Value) -> Checked {
    let mut answers: BTreeMap<ItemId, Vec<&Value>> = BTreeMap::new();
    for entry in output.get("verdicts").and_then(Value::as_array).into_iter().flatten() {
        if let Some(id) = entry.get("id").and_then(Value::as_i64) {
            answers.entry(ItemId(id)).or_default().push(entry);
        }
    }
    let entry_schema = entry_schema();
    let mut checked = Checked {
        unknown: answers.keys().filter(|id| !ids.contains(id)).copied().collect(),
        ..Checked::default()
    };
    for id in ids {
        let found = answers.get(id).map(Vec::as_slice).unwrap_or_default();
        let list = match found {
            [] => &mut checked.missing,
            [entry] => match usable(entry, &entry_schema, ids, known) {
                Ok(verdict) => {
                    checked.verdicts.push(verdict);
                    continue;
                }
                Err(Flaw::Malformed) => &mut checked.malformed,
                Err(Flaw::Placeholder) => &mut checked.placeholder,
            },
            _ => &mut checked.doubled,
        };
        list.push(*id);
        list.sort_unstable();
    }
    checked
}

enum Flaw {
    Malformed,
    Placeholder,
}

fn entry_schema() -> Value {
    let schema: Value = serde_json::from_str(TRIAGE_SCHEMA).unwrap_or_default();
    schema.pointer("/properties/verdicts/items").cloned().unwrap_or_default()
}

fn usable(
    entry: &Value,
    entry_schema: &Value,
    ids: &[ItemId],
    known: &[ItemId],
) -> Result<Verdict, Flaw> {
    let entry = &in_present_form(entry);
    if !schema::violations_but(entry_schema, entry, &OPTIONAL).is_empty() {
        return Err(Flaw::Malformed);
    }
    // An unexpected key suggests a prompt injection.
    let mut verdict =
        serde_json::from_value::<Verdict>(entry.clone()).map_err(|_| Flaw::Malformed)?;
    verdict.reason = one_line(&verdict.reason, MAX_REASON_LEN);
    verdict.modules =
        verdict.modules.iter().map(|module| one_line(module, MAX_MODULE_LEN)).collect();
    verdict.modules.retain(|module| !module.is_empty());
    verdict.modules.truncate(MAX_MODULES);
    verdict.doubt = one_line(&verdict.doubt, MAX_REASON_LEN);
    verdict.ask = one_line(&verdict.ask, MAX_WHY_LEN);
    if is_placeholder(&verdict.ask) {
        verdict.ask.clear();
    }
    verdict.terms = usable_terms(&verdict.terms);
    let shortened = verdict.code_bases.iter().map(|name| one_line(name, MAX_MODULE_LEN));
    verdict.code_bases = shortened.take(MAX_MODULES).collect();
    // Only other items of the same request can be related.
    verdict.related.retain(|other| ids.contains(other) && *other != verdict.id);
    verdict.related.sort_unstable();
    verdict.related.dedup();
    verdict.related.truncate(MAX_RELATED);
    verdict.duplicates.retain(|Duplicate { id, .. }| {
        *id != verdict.id && (ids.contains(id) || known.contains(id))
    });
    verdict.duplicates.sort_by_key(|duplicate| duplicate.id);
    verdict.duplicates.dedup_by_key(|duplicate| duplicate.id);
    verdict.duplicates.truncate(MAX_RELATED);
    for duplicate in &mut verdict.duplicates {
        duplicate.why = one_line(&duplicate.why, MAX_WHY_LEN);
    }
    match is_placeholder(&verdict.reason) {
        true => Err(Flaw::Placeholder),
        false => Ok(verdict),
    }
}

/// Converts an answer of an earlier version, which names duplicates only by number.
fn in_present_form(entry: &Value) -> Value {
    let mut entry = entry.clone();
    for duplicate in entry.get_mut("duplicates").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if duplicate.is_i64() {
            *duplicate = json!({ "id": duplicate.take(), "why": "" });
        }
    }
    entry
}

/// Search terms for the index: short, unique, with at least one letter.
pub fn usable_terms(terms: &[String]) -> Vec<String> {
    let mut usable: Vec<String> = Vec::new();
    for term in terms {
        let line = term.split_whitespace().collect::<Vec<_>>().join(" ");
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        let known = usable.iter().any(|known| known.eq_ignore_ascii_case(&line));
        let fits = line.chars().count() <= MAX_TERM_LEN && line.chars().any(char::is_alphabetic);
        if fits && !known && usable.len() < MAX_TERMS {
            usable.push(line);
        }
    }
    usable
}

fn is_placeholder(reason: &str) -> bool {
    let reason = reason.trim().to_lowercase();
    let bare = reason.trim_matches(|c: char| "<>[]{}()\"'.!".contains(c)).trim();
    reason.chars().count() < MIN_REASON_LEN
        || PLACEHOLDERS.contains(&reason.as_str())
        || PLACEHOLDERS.contains(&bare)
}

fn one_line(text: &str, longest: usize) -> String {
    let visible: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}\u{2026}", line[..end].trim_end()),
        None => line,
    }
}

/// Groups of items that triage considers the same problem, directly or transitively; single items
/// are omitted. In the order of the verdicts.
pub fn related_groups<'a>(
    verdicts: impl IntoIterator<Item = (&'a ItemKey, &'a Verdict)>,
) -> Vec<Vec<ItemKey>> {
    let mut groups: Vec<Vec<ItemKey>> = Vec::new();
    for (key, verdict) in verdicts {
        let related = verdict.related_keys(key);
        if related.is_empty() {
            continue;
        }
        let group: Vec<ItemKey> = std::iter::once(key.clone()).chain(related).collect();
        let (touching, apart): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|known| known.iter().any(|key| group.contains(key)));
        groups = apart;
        let mut merged: Vec<ItemKey> = touching.into_iter().flatten().collect();
        merged.extend(group);
        let mut seen = std::collections::BTreeSet::new();
        merged.retain(|key| seen.insert(key.clone()));
        groups.push(merged);
    }
    groups
}

/// The numbers of a batch. Two sources may use the same number: the first item keeps it, the others
/// get a free one. The same keys in the same order always get the same numbers, so an answer can be
/// processed again after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers(Vec<(ItemId, ItemKey)>);

impl Numbers {
    pub(super) fn of<'a>(keys: impl IntoIterator<Item = &'a ItemKey>) -> Self {
        Self(Vec::new()).and(keys)
    }

    /// Adds numbers for more items; existing numbers stay.
    #[must_use]
    pub(super) fn and<'a>(mut self, keys: impl IntoIterator<Item = &'a ItemKey>) -> Self {
        let mut known: HashSet<ItemKey> = self.0.iter().map(|(_, key)| key.clone()).collect();
        let mut used: HashSet<ItemId> = self.ids().collect();
        let keys: Vec<&ItemKey> =
            keys.into_iter().filter(|key| known.insert((*key).clone())).collect();
        let own: HashSet<ItemId> = keys.iter().filter_map(|key| key.item_id()).collect();
        let taken = used.clone();
        let mut substitutes = (FIRST_SUBSTITUTE_ID..)
            .map(ItemId)
            .filter(|id| !own.contains(id) && !taken.contains(id));
        for key in keys {
            let id = key.item_id().filter(|id| !used.contains(id)).or_else(|| substitutes.next());
            let id = id.unwrap_or(ItemId(i64::MAX));
            used.insert(id);
            self.0.push((id, key.clone()));
        }
        self
    }

    /// In the order of the keys.
    pub(super) fn ids(&self) -> impl Iterator<Item = ItemId> + '_ {
        self.0.iter().map(|(id, _)| *id)
    }

    pub(super) fn key(&self, id: ItemId) -> Option<&ItemKey> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, key)| key)
    }

    pub(super) fn id(&self, key: &ItemKey) -> Option<ItemId> {
        self.0.iter().find(|(_, known)| known == key).map(|(id, _)| *id)
    }

    /// The verdict with the trackers' numbers, and its item. Unknown numbers are dropped.
    pub(super) fn own(&self, mut verdict: Verdict) -> Option<(ItemKey, Verdict)> {
        let item = self.key(verdict.id)?.clone();
        let (here, elsewhere): (Vec<ItemKey>, Vec<ItemKey>) = verdict
            .related
            .iter()
            .filter_map(|id| self.key(*id).cloned())
            .partition(|other| other.source() == item.source());
        verdict.related = here.iter().filter_map(ItemKey::item_id).collect();
        verdict.related_elsewhere = elsewhere;
        let meant = |duplicate: Duplicate| {
            let other = self.key(duplicate.id)?;
            let source = other.source();
            let source = (source != item.source()).then(|| source.to_owned());
            Some(Duplicate { id: other.item_id()?, source, ..duplicate })
        };
        let duplicates = std::mem::take(&mut verdict.duplicates).into_iter();
        verdict.duplicates = duplicates.filter_map(meant).collect();
        verdict.id = item.item_id().unwrap_or(verdict.id);
        Some((item, verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Complexity;

    #[test]
    fn items_of_two_sources_with_one_number_are_distinguished() {
        let keys = ["web/7", "server/7", "web/8", "server/9"];
        let keys = keys.map(|key| ItemKey::from_stored(key.into()));
        let numbers = Numbers::of(&keys);
        let ids: Vec<i64> = numbers.ids().map(|id| id.0).collect();
        assert_eq!(ids, [7, 9_000_001, 8, 9]);
        assert_eq!(numbers, Numbers::of(&keys), "after a crash as well");
        let known = ["server/55", "web/9", "server/7"].map(|key| ItemKey::from_stored(key.into()));
        let all = numbers.clone().and(&known);
        assert_eq!(all.ids().take(4).collect::<Vec<_>>(), numbers.ids().collect::<Vec<_>>());
        let more: Vec<i64> = all.ids().skip(4).map(|id| id.0).collect();
        assert_eq!(more, [55, 9_000_002], "the last one has its number already");
        let duplicate = |id| Duplicate { id: ItemId(id), why: String::new(), source: None };
        let verdict = Verdict {
            related: vec![ItemId(7), ItemId(9)],
            duplicates: [55, 9_000_002, 66].map(duplicate).into(),
            ..Verdict::new(ItemId(9_000_001), Complexity::Simple, "The same as before.")
        };
        let (item, own) = all.own(verdict).unwrap();
        assert_eq!((item.as_str(), own.id), ("server/7", ItemId(7)));
        assert_eq!(own.related, [ItemId(9)], "7 is an item of the other source");
        let related: Vec<String> =
            own.related_keys(&item).iter().map(ToString::to_string).collect();
        assert_eq!(related, ["server/9", "web/7"]);
        let duplicates: Vec<String> =
            own.duplicates.iter().map(|other| other.key(&item).to_string()).collect();
        assert_eq!(duplicates, ["server/55", "web/9"]);
    }
}
