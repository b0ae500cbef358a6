//! What triage says about an item.

use serde::{Deserialize, Serialize};

use super::{Confidence, ItemId, ItemKey};

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
    /// The same of other sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_elsewhere: Vec<ItemKey>,
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
    /// The source it is in, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Duplicate {
    /// The item that is meant, in a verdict on `own`.
    pub fn key(&self, own: &ItemKey) -> ItemKey {
        match &self.source {
            Some(source) => ItemKey::new(source, self.id),
            None => own.of_same_source(self.id),
        }
    }
}

/// Verdicts of earlier versions have only the number.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredDuplicate {
    Number(ItemId),
    Explained {
        id: ItemId,
        why: String,
        #[serde(default)]
        source: Option<String>,
    },
}

impl From<StoredDuplicate> for Duplicate {
    fn from(stored: StoredDuplicate) -> Self {
        match stored {
            StoredDuplicate::Number(id) => Self { id, why: String::new(), source: None },
            StoredDuplicate::Explained { id, why, source } => Self { id, why, source },
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
            related_elsewhere: Vec::new(),
            terms: Vec::new(),
            confidence: None,
            doubt: String::new(),
            duplicates: Vec::new(),
        }
    }

    /// The items that belong together with `own`, which this verdict is about.
    pub fn related_keys(&self, own: &ItemKey) -> Vec<ItemKey> {
        let here = self.related.iter().map(|id| own.of_same_source(*id));
        here.chain(self.related_elsewhere.iter().cloned()).collect()
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
