//! What triage says about an item.

use serde::{Deserialize, Serialize};

use super::{Confidence, ItemId};

/// How much work an item looks like.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
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
    /// The question that only the code can answer, or else the next step.
    pub reason: String,
    /// Items that one change or decision settles together with it.
    #[serde(default)]
    pub related: Vec<ItemId>,
    /// English words and likely names in the code by which to find the places that matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<String>,
    /// How sure triage is of this; none in verdicts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What in the text does not fit together; empty if nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doubt: String,
    /// Items that report the same thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<Duplicate>,
}

/// An item that reports the same thing, and what shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredDuplicate")]
pub struct Duplicate {
    pub id: ItemId,
    /// Empty in verdicts of earlier versions.
    pub why: String,
}

/// Verdicts of earlier versions have only the number.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredDuplicate {
    Number(ItemId),
    Explained { id: ItemId, why: String },
}

impl From<StoredDuplicate> for Duplicate {
    fn from(stored: StoredDuplicate) -> Self {
        match stored {
            StoredDuplicate::Number(id) => Self { id, why: String::new() },
            StoredDuplicate::Explained { id, why } => Self { id, why },
        }
    }
}

impl Verdict {
    /// A verdict that says this and nothing else.
    pub fn new(id: ItemId, complexity: Complexity, reason: impl Into<String>) -> Self {
        Self {
            id,
            complexity,
            needs_deep_analysis: false,
            modules: Vec::new(),
            reason: reason.into(),
            related: Vec::new(),
            terms: Vec::new(),
            confidence: None,
            doubt: String::new(),
            duplicates: Vec::new(),
        }
    }

    /// Every text in it that the agent wrote.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.reason, &mut self.doubt]
            .into_iter()
            .chain(&mut self.modules)
            .chain(&mut self.terms)
            .chain(self.duplicates.iter_mut().map(|duplicate| &mut duplicate.why))
    }
}
