//! Which commits fixed a work item, read from commit messages and branch names (pure).
//!
//! People name items in a handful of ways: `AB#123`, `Fixes #123`, `Related work items: #1, #2`, a
//! merged branch `bugfix/123-crash`, or one of their own (`SHOP-123`), which the configuration names.
//! Each link keeps its [`Reason`], so that a person can judge it. What only looks like a link is left
//! out: numbers of pull requests (`Merged PR 12`, `(#34)` at the end of a subject that a host wrote),
//! counts (`#5 of 10`), items that are only told of (`since #12`), reverts, merges from the main
//! branch, and commits too wide to say anything about one item ([`unusable`]).

mod accuracy;
mod branch;
mod mention;
mod message;
mod phrases;
mod width;

pub use accuracy::{Accuracy, Judged};
pub use message::{Commit, links, pull_request};
pub use width::{Change, Unusable, unusable};

/// What a bare `#123` means in this repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// The tracker's items, as in Azure Repos.
    Items,
    /// Issues and pull requests of another host, such as GitHub: only `AB#123` names an item.
    OtherHost,
}

/// How a team names its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    pub numbers: Numbers,
    /// Where the repository's own host shows its issues, without the scheme and in lower case:
    /// `github.com/contoso/shop/issues/`.
    pub issue_pages: Option<String>,
    /// More ways, each a text with `{id}` in the number's place: `SHOP-{id}`.
    pub patterns: Vec<String>,
    /// `(#34)` at the end of a subject is a pull request: a host appended it.
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
    /// A way of the configuration.
    Pattern,
    /// `#123`.
    Number,
    /// `Related to #123`.
    Related,
}

impl Reason {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Artifact => "linked in the tracker",
            Self::PullRequest => "its pull request is linked in the tracker",
            Self::Boards => "AB#number in the message",
            Self::RelatedItems => "listed under related work items",
            Self::Keyword => "the message says that it fixes the item",
            Self::Branch => "number in the name of the merged branch",
            Self::Pattern => "named as fixes.patterns says",
            Self::Number => "#number in the message",
            Self::Related => "the message says that it is related to the item",
        }
    }
}

impl Reason {
    /// Does it say that the commit settles the item, and not only that it is about it?
    pub const fn is_strong(self) -> bool {
        !matches!(self, Self::Number | Self::Related)
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
