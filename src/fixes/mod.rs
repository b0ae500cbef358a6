//! Finds the commits that fixed a work item, from commit messages and branch names (pure).
//!
//! Items are named in a few ways: `AB#123`, `Fixes #123`, `Related work items: #1, #2`, a merged
//! branch `bugfix/123-crash`, the key of an item that has one (`SHOP-123`), or a configured pattern.
//! Each link keeps its [`Reason`], so that a user can judge it. False links are excluded: numbers of
//! pull requests (`Merged PR 12`, `(#34)` at the end of a subject that a host wrote), counts (`#5 of
//! 10`), items that are only mentioned (`since #12`), reverts, merges from the main branch, and
//! commits too wide to say anything about one item ([`unusable`]).

mod accuracy;
mod branch;
mod keys;
mod line;
mod mention;
mod message;
#[cfg(test)]
mod message_tests;
mod phrases;
mod said;
mod subject;
mod width;

pub use accuracy::{Accuracy, Judged};
pub use keys::{ItemName, Keys};
pub use mention::have_same_name;
pub use message::{Commit, links};
pub use subject::{appended_pull_request, pull_request};
pub use width::{Change, Unusable, unusable};

/// What a bare `#123` means in this repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// The tracker's items, as in Azure Repos.
    Items,
    /// Issues and pull requests of another host, such as GitHub: only `AB#123` names an item.
    OtherHost,
    /// Never an item, also not with `AB`: the tracker's items have keys.
    Nothing,
}

/// How a team names its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub numbers: Numbers,
    /// Addresses of pages of items, without the scheme and in lower case:
    /// `github.com/contoso/shop/issues/`.
    pub issue_pages: Vec<String>,
    /// Further forms with `{id}` in place of the number: `SHOP-{id}`.
    pub patterns: Vec<String>,
    /// Items that have a key, such as `SHOP-12`.
    pub keys: Keys,
    /// `(#34)` at the end of a subject is a pull request: the host appended it.
    pub appended_pull_requests: bool,
}

/// How a commit names an item, strongest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The tracker itself links them.
    Artifact,
    /// The tracker links the pull request that the commit merged.
    PullRequest,
    /// `AB#123`.
    Boards,
    /// `Related work items: #123`.
    RelatedItems,
    /// `Fixes #123`.
    Keyword,
    /// The branch that was merged.
    Branch,
    /// A configured form.
    Pattern,
    /// `SHOP-123`.
    Key,
    /// `#123`.
    Number,
    /// `Test for #123`.
    Test,
    /// `Related to #123`.
    Related,
}

impl Reason {
    /// Text for display.
    pub fn text(self) -> &'static str {
        match self {
            Self::Artifact => "linked in the tracker",
            Self::PullRequest => "its pull request is linked in the tracker",
            Self::Boards => "AB#number in the message",
            Self::RelatedItems => "listed under related work items",
            Self::Keyword => "the message says that it fixes the item",
            Self::Branch => "number in the name of the merged branch",
            Self::Pattern => "named as fixes.patterns says",
            Self::Key => "the item's key in the message",
            Self::Number => "#number in the message",
            Self::Test => "the message says that it tests the item",
            Self::Related => "the message says that it is related to the item",
        }
    }
}

impl Reason {
    /// Whether the commit resolves the item, and is not only about it.
    pub const fn is_strong(self) -> bool {
        !matches!(self, Self::Key | Self::Number | Self::Test | Self::Related)
    }
}

/// A commit names an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub item: i64,
    pub reason: Reason,
}
