//! What a tracker returns about finished items.

use jiff::Timestamp;

use crate::fixes::ItemName;
use crate::model::{ItemId, WorkItem};

/// Which finished items to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequest {
    /// Changed at or after this instant.
    pub since: Timestamp,
    /// Names of the states that count as finished.
    pub states: Vec<String>,
    /// Only those that match the configured condition, which often excludes finished items.
    pub watched_only: bool,
}

/// A finished item without its texts, which are read as of before the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedItem {
    pub id: ItemId,
    /// What people and commits call it.
    pub name: ItemName,
    pub title: String,
    pub area: String,
    pub item_type: String,
    pub created_at: Option<Timestamp>,
    /// Number of links to commits, pull requests and so on.
    pub development_links: u64,
}

impl FinishedItem {
    pub(super) fn new(item: WorkItem, name: ItemName, development_links: u64) -> Self {
        Self {
            id: item.id,
            name,
            title: item.title,
            area: item.area_path.unwrap_or_default(),
            item_type: item.item_type,
            created_at: item.created_at,
            development_links,
        }
    }
}

/// An item as of an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsOf {
    pub item: WorkItem,
    pub text: PastText,
}

/// Whether the long texts of a past item are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastText {
    /// The texts of that time.
    OfThatTime,
    /// The newest texts: the tracker keeps no others, and the item has changed since.
    Unknown,
}

/// A link from an item to a code change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DevelopmentLink {
    Commit(String),
    PullRequest(i64),
}

/// An item and one of its links.
pub type LinkedItem = (ItemId, DevelopmentLink);
