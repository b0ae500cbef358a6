//! Triage's verdict on an item.

use serde::{Deserialize, Serialize};

use super::{Confidence, ItemId, ItemKey};

/// Estimated amount of work.
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
    Trivial,
    /// One obvious place to change.
    Simple,
    /// Several places, or a cause that is not obvious.
    Moderate,
    /// Needs design or a long search for the cause.
    Complex,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub id: ItemId,
    pub complexity: Complexity,
    /// Whether a session on the code base is worth its cost.
    pub needs_deep_analysis: bool,
    /// Parts of the code base that the item's text suggests.
    #[serde(default)]
    pub modules: Vec<String>,
    /// The question that only the code can answer, otherwise the next step.
    pub reason: String,
    /// Items of this source that the same change or decision resolves.
    #[serde(default)]
    pub related: Vec<ItemId>,
    /// Such items of other sources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_elsewhere: Vec<ItemKey>,
    /// English words and likely identifiers with which to search the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<String>,
    /// `None` in verdicts of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// Contradictions in the text; empty if none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doubt: String,
    /// Items that report the same problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<Duplicate>,
    /// The one question to ask the reporter; empty if nothing is missing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ask: String,
    /// A commit that names the item and is newer than it: short id and title. From the code's
    /// history, not from an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_by: Option<String>,
    /// Names of the item's code bases that matter, if it has several; empty: all may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code_bases: Vec<String>,
    /// Numbers of the offered values that fit; `None`: no choice was made. Only in an answer: what
    /// they stand for is stored as suggestions.
    #[serde(default, skip_serializing)]
    pub set: Option<Vec<i64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredDuplicate")]
pub struct Duplicate {
    pub id: ItemId,
    /// The evidence; empty in verdicts of earlier versions.
    pub why: String,
    /// Set if the item is in another source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Duplicate {
    /// The duplicate's key; `own` is the item that the verdict is about.
    pub fn key(&self, own: &ItemKey) -> ItemKey {
        match &self.source {
            Some(source) => ItemKey::new(source, self.id),
            None => own.of_same_source(self.id),
        }
    }
}

/// Verdicts of earlier versions stored only the number.
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
    /// A verdict with only these values.
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
            ask: String::new(),
            fixed_by: None,
            code_bases: Vec::new(),
            set: None,
        }
    }

    /// Keys of the related items; `own` is the item that the verdict is about.
    pub fn related_keys(&self, own: &ItemKey) -> Vec<ItemKey> {
        let here = self.related.iter().map(|id| own.of_same_source(*id));
        here.chain(self.related_elsewhere.iter().cloned()).collect()
    }

    /// Every text that the agent wrote.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        [&mut self.reason, &mut self.doubt, &mut self.ask]
            .into_iter()
            .chain(&mut self.modules)
            .chain(&mut self.code_bases)
            .chain(&mut self.terms)
            .chain(self.fixed_by.as_mut())
            .chain(self.duplicates.iter_mut().map(|duplicate| &mut duplicate.why))
    }
}
