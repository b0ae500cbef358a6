//! What triage says about an item.

use serde::{Deserialize, Serialize};

use super::ItemId;

/// How much work an item looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Complexity {
    /// No thought needed.
    Trivial,
    /// One obvious place to change.
    Simple,
    /// Several places, or a cause that is not obvious.
    Moderate,
    /// Needs design or a long hunt.
    Complex,
}

/// Triage's answer for one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The item it is about.
    pub id: ItemId,
    /// Size of the work.
    pub complexity: Complexity,
    /// Is a session on the code base worth its price?
    pub needs_deep_analysis: bool,
    /// Parts of the code base it names, as the item's words suggest them.
    #[serde(default)]
    pub modules: Vec<String>,
    /// One sentence for a person.
    pub reason: String,
    /// Items that look like the same matter.
    #[serde(default)]
    pub related: Vec<ItemId>,
}

impl Verdict {
    /// Every text in it that the agent wrote.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.reason].into_iter().chain(&mut self.modules)
    }
}
