//! Groups items into sessions.

use std::collections::HashMap;

use super::answer::Numbers;
use crate::model::{Background, CleanItem, ItemId, ItemKey, KnownTitle, estimate_tokens};
use crate::prompt::{Detail, ItemText, earlier_text, item_text, known_text};
use crate::settings::TriageSettings;

/// Estimated tokens of a session besides its items: system prompt, schema, the agent's own prompt.
/// A test checks the first two.
const OVERHEAD_TOKENS: u64 = 800;

/// Estimated tokens of an item's fence.
const FENCE_TOKENS: u64 = 16;

/// Estimated tokens of the known items that may report the same as one item; at least this many of
/// them are offered.
const KNOWN_TOKENS: u64 = 300;
const LEAST_KNOWN: usize = 3;

/// A verdict is about a hundred output tokens; with more items, the answer may be cut off.
const MAX_ITEMS: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchItem {
    pub key: ItemKey,
    /// The number used in this batch.
    pub id: ItemId,
    /// Not fenced yet.
    pub text: ItemText,
    /// Earlier results and what changed since; may be empty. Not fenced yet.
    pub earlier: String,
    /// Known items that may report the same problem.
    pub similar: Vec<KnownTitle>,
    /// Numbered values to choose from; may be empty. Not fenced yet.
    pub options: String,
    /// What people said was wrong about similar items; may be empty. Not fenced yet.
    pub corrections: String,
    /// Names of its code bases if it has several.
    pub code_bases: Vec<String>,
}

impl BatchItem {
    fn tokens(&self) -> u64 {
        let earlier = match self.earlier.as_str() {
            "" => 0,
            earlier => estimate_tokens(earlier) + FENCE_TOKENS,
        };
        // Their lines, and their numbers in the tag.
        let known =
            estimate_tokens(&known_text(&self.similar, None)) + 4 * self.similar.len() as u64;
        let line = |text: &str| estimate_tokens(text) + u64::from(!text.is_empty()) * 4;
        let options =
            line(&self.options) + line(&self.corrections) + line(&self.code_bases.join(", "));
        estimate_tokens(&self.text.text) + FENCE_TOKENS + earlier + known + options
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// In the order of the run.
    pub items: Vec<BatchItem>,
    /// Overview of the code bases; may be empty. Not fenced yet.
    pub code: String,
}

impl Batch {
    pub fn ids(&self) -> Vec<ItemId> {
        self.items.iter().map(|item| item.id).collect()
    }

    /// Estimated tokens of the prompt.
    pub fn tokens(&self) -> u64 {
        OVERHEAD_TOKENS
            + estimate_tokens(&self.code)
            + self.items.iter().map(BatchItem::tokens).sum::<u64>()
    }

    /// The batch reduced to these ids, to ask again.
    #[must_use]
    pub fn only(&self, ids: &[ItemId]) -> Self {
        let items = self.items.iter().filter(|item| ids.contains(&item.id)).cloned().collect();
        Self { items, code: self.code.clone() }.numbered()
    }

    /// Two parts of about the same size; `None` if it has a single item.
    pub fn halves(&self) -> Option<[Self; 2]> {
        if self.items.len() < 2 {
            return None;
        }
        let (first, second) = self.items.split_at(self.items.len() / 2);
        let part = |items: &[BatchItem]| {
            Self { items: items.to_vec(), code: self.code.clone() }.numbered()
        };
        Some([part(first), part(second)])
    }

    /// One item alone, and the others if there are any.
    pub fn without(self, index: usize) -> (Self, Option<Self>) {
        let Self { mut items, code } = self;
        let index = index.min(items.len().saturating_sub(1));
        let one = (!items.is_empty()).then(|| items.remove(index));
        let rest = (!items.is_empty()).then(|| Self { items, code: code.clone() }.numbered());
        (Self { items: one.into_iter().collect(), code }.numbered(), rest)
    }

    /// Assigns unique numbers to its items and to those that may report the same.
    fn numbered(mut self) -> Self {
        let numbers = self.numbers();
        for (item, id) in self.items.iter_mut().zip(numbers.ids()) {
            item.id = id;
            for known in &mut item.similar {
                known.id = numbers.id(&known.key).unwrap_or(known.id);
            }
        }
        self
    }

    pub(super) fn numbers(&self) -> Numbers {
        let similar = self.items.iter().flat_map(|item| &item.similar);
        Numbers::of(self.items.iter().map(|item| &item.key)).and(similar.map(|known| &known.key))
    }

    pub fn keys_of(&self, ids: &[ItemId]) -> Vec<ItemKey> {
        let numbers = self.numbers();
        ids.iter().filter_map(|id| numbers.key(*id)).cloned().collect()
    }

    pub fn keys(&self) -> Vec<ItemKey> {
        self.items.iter().map(|item| item.key.clone()).collect()
    }

    /// Known items that may report the same problem as one of these, without duplicates.
    pub fn candidates(&self) -> Vec<&KnownTitle> {
        let own: std::collections::HashSet<&ItemKey> =
            self.items.iter().map(|item| &item.key).collect();
        let mut candidates: Vec<&KnownTitle> =
            self.items.iter().flat_map(|item| &item.similar).collect();
        candidates.retain(|known| !own.contains(&known.key));
        candidates.sort_by_key(|known| known.id);
        candidates.dedup_by_key(|known| known.id);
        candidates
    }

    fn has_room(&self, item: &BatchItem, config: &TriageSettings) -> bool {
        self.items.len() < MAX_ITEMS
            && self.tokens() + item.tokens() <= u64::from(config.max_prompt_tokens)
    }
}

/// Packs the items into as few batches as the budget allows. An item too long for any batch gets
/// its own: it was already cut to its limit, and no item is dropped. `code` is the overview of the
/// code bases, which every batch contains.
pub fn plan_batches(
    items: &[CleanItem],
    background: &HashMap<ItemKey, Background>,
    code: &str,
    config: &TriageSettings,
) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for item in items {
        let item = batch_item(item, background.get(&item.facts.key), config);
        match batches.iter_mut().find(|batch| batch.has_room(&item, config)) {
            Some(batch) => batch.items.push(item),
            None => batches.push(Batch { items: vec![item], code: code.to_owned() }),
        }
    }
    batches.into_iter().map(Batch::numbered).collect()
}

/// The most similar items, as many as the bound allows.
fn within_bound(similar: &[KnownTitle]) -> Vec<KnownTitle> {
    let mut left = KNOWN_TOKENS;
    let mut kept = Vec::with_capacity(similar.len());
    for known in similar {
        let tokens = estimate_tokens(&known_text([known], None)) + 4;
        if tokens > left && kept.len() >= LEAST_KNOWN {
            break;
        }
        left = left.saturating_sub(tokens);
        kept.push(known.clone());
    }
    kept
}

fn batch_item(
    item: &CleanItem,
    background: Option<&Background>,
    config: &TriageSettings,
) -> BatchItem {
    let parent = background.and_then(|known| known.parent.as_deref());
    let earlier = background.and_then(|known| known.earlier.as_ref());
    let mut text = item_text(item, parent, Detail::Tight, config.max_item_tokens);
    if let Some(files) = background.map(|known| &known.file_names).filter(|names| !names.is_empty())
    {
        text.text.push_str(&format!("\nattached: {files}"));
    }
    BatchItem {
        key: item.facts.key.clone(),
        id: item.facts.id,
        text,
        earlier: earlier.map(|earlier| earlier_text(earlier, Detail::Tight)).unwrap_or_default(),
        similar: background.map(|known| within_bound(&known.similar)).unwrap_or_default(),
        options: background.map(|known| known.options.clone()).unwrap_or_default(),
        corrections: background.map(|known| known.corrections.clone()).unwrap_or_default(),
        code_bases: background.map(|known| known.code_bases.clone()).unwrap_or_default(),
    }
}
