//! Which commits fixed a work item, read from commit messages and branch names (pure).
//!
//! People name items in a handful of ways: `AB#123`, `Fixes #123`, `Related work items: #1, #2`, a
//! merged branch `bugfix/123-crash`. Each link keeps its [`Reason`], so that a person can judge it.
//! What only looks like a link is left out: numbers of pull requests (`Merged PR 12`, `(#34)` at the
//! end of a subject on a host that appends them), counts (`#5 of 10`), reverts, merges from the main
//! branch, and commits too wide to say anything about one item ([`unusable`]).

mod accuracy;
mod branch;
mod message;
mod width;

pub use accuracy::{Accuracy, Judged};
pub use message::{Commit, links};
pub use width::{Change, Unusable, unusable};

/// What a bare `#123` means in this repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// The tracker's items, as in Azure Repos.
    Items,
    /// Issues and pull requests of another host, such as GitHub: only `AB#123` names an item.
    OtherHost,
}

/// How a commit names an item, strongest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The tracker itself links them.
    Artifact,
    /// `AB#123`.
    Boards,
    /// `Related work items: #123`.
    RelatedItems,
    /// `Fixes #123`.
    Keyword,
    /// The branch that was merged.
    Branch,
    /// `#123`.
    Number,
}

impl Reason {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Artifact => "linked in the tracker",
            Self::Boards => "AB#number in the message",
            Self::RelatedItems => "listed under related work items",
            Self::Keyword => "the message says that it fixes the item",
            Self::Branch => "number in the name of the merged branch",
            Self::Number => "#number in the message",
        }
    }
}

/// A commit names an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The item's number.
    pub item: i64,
    /// How.
    pub reason: Reason,
}
