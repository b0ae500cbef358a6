//! Suggested values for fields, as a person reads them.

use serde::Serialize;

use crate::model::{Fate, ItemKey, Verdict};
use crate::report::lines::short_key;
use crate::store::{DuplicateGroup, JudgedItem, SuggestionRow};

/// What triage suggests for one item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuggestedItem {
    pub key: ItemKey,
    pub title: String,
    pub suggestions: Vec<SuggestedLine>,
}

/// One suggestion: `area`, `Shop\Cart`, `right in 87 % of your last 400 items`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SuggestedLine {
    pub name: String,
    pub value: String,
    /// How far it can be trusted, and what became of it; may be empty.
    pub note: String,
}

impl SuggestedLine {
    /// `area: Shop\Cart (right in 87 % of your last 400 items)`
    pub fn text(&self) -> String {
        match self.note.as_str() {
            "" => format!("{}: {}", self.name, self.value),
            note => format!("{}: {} ({note})", self.name, self.value),
        }
    }
}

/// Everything suggested for an item: only what was right often enough, and what needs no figure
/// because it shows its evidence.
pub fn lines(
    rows: &[SuggestionRow],
    verdict: Option<&Verdict>,
    (group, own): (&DuplicateGroup, &ItemKey),
) -> Vec<SuggestedLine> {
    let shown = rows.iter().filter(|row| row.suggestion.shown);
    let mut found: Vec<SuggestedLine> = shown.map(field_line).collect();
    let line = |name: &str, value: String, note: &str| SuggestedLine {
        name: name.to_owned(),
        value,
        note: note.to_owned(),
    };
    if let Some(verdict) = verdict {
        if !verdict.ask.is_empty() {
            found.push(line("ask the reporter", verdict.ask.clone(), ""));
        }
        if let Some(commit) = &verdict.fixed_by {
            found.push(line("probably fixed already", commit.clone(), "the commit names the item"));
        }
    }
    if let Some(live) = group.live().filter(|live| live.key != *own) {
        let value = format!("{} {}", short_key(&live.key), live.title);
        found.push(line("duplicate of", value, "the one to keep of its group"));
    }
    found
}

fn field_line(row: &SuggestionRow) -> SuggestedLine {
    let suggestion = &row.suggestion;
    let now = (!suggestion.before.is_empty()).then(|| format!("now {}", suggestion.before));
    let became = match (suggestion.fate, row.written) {
        (Fate::Open, true) => Some("written by heartbeat"),
        (Fate::Open, false) => None,
        (Fate::Kept, _) => Some("kept"),
        (Fate::Changed, _) => Some("a person chose another value"),
        (Fate::Ignored, _) => Some("not used"),
    };
    let notes: Vec<String> =
        [suggestion.figure(), now, became.map(str::to_owned)].into_iter().flatten().collect();
    SuggestedLine {
        name: suggestion.field.word().to_owned(),
        value: suggestion.value.clone(),
        note: notes.join("; "),
    }
}

/// The suggestions of a report's items, in their order.
pub(super) fn by_item(
    rows: &[SuggestionRow],
    judged: &[JudgedItem],
    groups: &[DuplicateGroup],
) -> Vec<SuggestedItem> {
    let nothing = DuplicateGroup::default();
    let one = |item: &JudgedItem| {
        let own: Vec<SuggestionRow> =
            rows.iter().filter(|row| row.suggestion.key == item.key).cloned().collect();
        let has = |group: &&DuplicateGroup| group.items.iter().any(|one| one.key == item.key);
        let group = groups.iter().find(has).unwrap_or(&nothing);
        SuggestedItem {
            key: item.key.clone(),
            title: item.title.clone(),
            suggestions: lines(&own, Some(&item.verdict), (group, &item.key)),
        }
    };
    judged.iter().map(one).filter(|item| !item.suggestions.is_empty()).collect()
}
