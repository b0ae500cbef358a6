//! Which items share a session.

use crate::model::{CleanItem, ItemId, estimate_tokens};
use crate::prompt::{Detail, ItemText, item_text};
use crate::settings::Triage;

/// Estimated tokens of what a session costs beside its items: system prompt, schema, the agent's
/// own words. A test holds the first two to this.
const OVERHEAD_TOKENS: u64 = 800;

/// Estimated tokens of an item's fence.
const FENCE_TOKENS: u64 = 16;

/// A verdict is about a hundred tokens of output; more items than this would make an answer that
/// risks being cut.
const MAX_ITEMS: usize = 200;

/// One item of a batch, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchItem {
    /// Which.
    pub id: ItemId,
    /// What triage reads; not yet fenced.
    pub text: ItemText,
    /// Why it is asked about although it was seen before.
    pub news: Option<News>,
}

/// Why an item that was seen before is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Its text or a watched field changed.
    Edited,
    /// A person asked for it.
    Requested,
}

impl News {
    /// One word for the program's own tag.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Requested => "requested",
        }
    }
}

impl BatchItem {
    fn tokens(&self) -> u64 {
        estimate_tokens(&self.text.text) + FENCE_TOKENS
    }
}

/// The items of one session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// In the order of the run.
    pub items: Vec<BatchItem>,
    /// A picture of the code bases involved; may be empty. Not yet fenced.
    pub code: String,
}

impl Batch {
    /// Its ids.
    pub fn ids(&self) -> Vec<ItemId> {
        self.items.iter().map(|item| item.id).collect()
    }

    /// Estimated tokens of its prompt.
    pub fn tokens(&self) -> u64 {
        OVERHEAD_TOKENS
            + estimate_tokens(&self.code)
            + self.items.iter().map(BatchItem::tokens).sum::<u64>()
    }

    /// The part of it that has to be asked about again.
    #[must_use]
    pub fn only(&self, ids: &[ItemId]) -> Self {
        let items = self.items.iter().filter(|item| ids.contains(&item.id)).cloned().collect();
        Self { items, code: self.code.clone() }
    }

    /// The same with a picture of the code bases and why its items are asked about again.
    #[must_use]
    pub fn with(mut self, code: &str, news: impl Fn(ItemId) -> Option<News>) -> Self {
        code.clone_into(&mut self.code);
        self.items.iter_mut().for_each(|item| item.news = news(item.id));
        self
    }

    fn has_room(&self, item: &BatchItem, config: &Triage) -> bool {
        self.items.len() < MAX_ITEMS
            && self.tokens() + item.tokens() <= u64::from(config.max_prompt_tokens)
    }
}

/// Puts the items into as few batches as fit the budget. An item that is too long for any batch
/// has one of its own: it was cut to its own limit before, and nothing is ever left out.
pub fn plan_batches(items: &[CleanItem], config: &Triage) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for item in items {
        let text = item_text(item, Detail::Tight, config.max_item_tokens);
        let item = BatchItem { id: item.facts.id, text, news: None };
        match batches.iter_mut().find(|batch| batch.has_room(&item, config)) {
            Some(batch) => batch.items.push(item),
            None => batches.push(Batch { items: vec![item], ..Batch::default() }),
        }
    }
    batches
}
