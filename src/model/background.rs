//! What is known about an item besides its current text. All of it is untrusted and goes inside the
//! delimiters of a prompt.

use jiff::Timestamp;

use super::{Finding, ItemId, ItemKey, Phase, Verdict};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Background {
    /// Title of the parent item, if it was ever read.
    pub parent: Option<String>,
    pub earlier: Option<Earlier>,
    /// Items that may report the same problem, most similar first.
    pub similar: Vec<KnownTitle>,
    /// Items, commits and pull requests linked in the tracker; only for an analysis.
    pub links: String,
    /// Attached pictures and texts; only for an analysis.
    pub files: String,
    /// Names and sizes of attached files, one line; only for triage.
    pub file_names: String,
    /// Values that triage can choose from, one line; only for triage.
    pub options: String,
    /// What people said was wrong about similar items, one line; only for triage.
    pub corrections: String,
    /// Names of the item's code bases if it has several; only for triage.
    pub code_bases: Vec<String>,
}

/// Earlier results for an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Earlier {
    pub verdict: Option<(Timestamp, Verdict)>,
    /// The newest one.
    pub finding: Option<(Timestamp, Finding)>,
    /// What changed since that verdict, one short phrase each; `None` if not known.
    pub changes: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTitle {
    pub key: ItemKey,
    /// The id used in the prompt: the item's number, or a substitute.
    pub id: ItemId,
    pub phase: Phase,
    pub title: String,
}
