//! What a tracker can tell about items that are done.

use jiff::Timestamp;

use crate::model::{ItemId, WorkItem};

/// Which finished items are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedRequest {
    /// Changed at or after this instant.
    pub since: Timestamp,
    /// Names of the states that count as finished.
    pub states: Vec<String>,
    /// Only those that the configured condition would watch. Such a condition often leaves out what
    /// is finished.
    pub watched_only: bool,
}

/// An item that is done, without its texts: those are read as they were before the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedItem {
    pub id: ItemId,
    pub title: String,
    pub area: String,
    pub item_type: String,
    pub created_at: Option<Timestamp>,
    /// Links to commits, pull requests and their like.
    pub development_links: u64,
}

/// An item as it was at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsOf {
    pub item: WorkItem,
    pub text: PastText,
}

/// How far the long texts of an item as it was are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastText {
    /// They are those of that time.
    OfThatTime,
    /// They are the newest: the tracker keeps no others, and the item changed since then.
    Unknown,
}

/// A link from an item to what changed the code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DevelopmentLink {
    /// The id of a commit.
    Commit(String),
    /// The number of a pull request.
    PullRequest(i64),
}

/// An item and one of its links.
pub type LinkedItem = (ItemId, DevelopmentLink);
