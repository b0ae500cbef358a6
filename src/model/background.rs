//! What is known about an item beside its present text. Others wrote all of it, so in a prompt it
//! stands inside the fence.

use jiff::Timestamp;

use super::{Finding, ItemId, ItemKey, Phase, Verdict};

/// What the state knows about an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Background {
    /// Title of the item above it in the backlog, if that was ever read.
    pub parent: Option<String>,
    /// What was said about it before.
    pub earlier: Option<Earlier>,
    /// Other items that may report the same, the most similar first.
    pub similar: Vec<KnownTitle>,
    /// Items, commits and pull requests that the tracker links with it; only for an analysis.
    pub links: String,
    /// Attached pictures and texts; only for an analysis.
    pub files: String,
    /// Names and sizes of attached files in a line; only for triage.
    pub file_names: String,
}

/// What was said about an item before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Earlier {
    /// What triage said, and when.
    pub verdict: Option<(Timestamp, Verdict)>,
    /// What the newest analysis found, and when.
    pub finding: Option<(Timestamp, Finding)>,
    /// What changed since that verdict, one short phrase each; none if that is not known.
    pub changes: Option<Vec<String>>,
}

/// An item as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTitle {
    pub key: ItemKey,
    /// What a prompt calls it: its own number, or one that stands for it.
    pub id: ItemId,
    pub phase: Phase,
    pub title: String,
}
