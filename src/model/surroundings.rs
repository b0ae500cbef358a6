//! What stands around a work item in its tracker: linked items, commits and pull requests, attached
//! files. Read for items that are about to be analysed. Strangers wrote all of it.

use serde::{Deserialize, Serialize};

use super::{ItemId, TextField};

/// What one item is to another.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum LinkKind {
    Parent,
    Duplicate,
    Child,
    Related,
    /// Depends on it, tests it, or anything else that a tracker knows.
    Other,
}

/// Another item that the tracker links with this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedItem {
    pub kind: LinkKind,
    /// Its number in this source; none for one of another organisation, repository or tracker.
    pub id: Option<ItemId>,
    /// What people call it, such as `contoso/shop#42`; none: its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// None: it may not be read, or is gone.
    pub title: Option<String>,
    pub item_type: String,
    pub state: String,
    /// Address for people.
    pub url: String,
    /// What a parent says, raw.
    #[serde(skip)]
    pub text: Option<TextField>,
}

impl LinkedItem {
    /// One of which nothing is known yet but what it is to the item.
    pub fn new(kind: LinkKind, id: Option<ItemId>, handle: Option<String>) -> Self {
        let (item_type, state, url) = (String::new(), String::new(), String::new());
        Self { kind, id, handle, title: None, item_type, state, url, text: None }
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match (&self.handle, self.id) {
            (Some(handle), _) => handle.clone(),
            (None, Some(id)) => format!("#{id}"),
            (None, None) => self.url.clone(),
        }
    }
}

/// What a change of the code is in the tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ChangeKind {
    Commit,
    PullRequest,
}

/// A commit or pull request that the tracker links with an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedChange {
    pub kind: ChangeKind,
    /// The commit's hash or the pull request's number.
    pub id: String,
    /// Where the tracker keeps it, in its own words.
    #[serde(skip)]
    pub place: String,
    /// One line; empty until it is known.
    pub title: String,
    /// Of a pull request, such as `completed`.
    pub state: String,
    /// The commit that a pull request was merged with.
    #[serde(skip)]
    pub commit: Option<String>,
    /// Files it touched, the first of them.
    pub files: Vec<String>,
}

impl LinkedChange {
    /// One of which nothing is known yet but where it is.
    pub fn new(kind: ChangeKind, id: String, place: String) -> Self {
        let (title, state) = (String::new(), String::new());
        Self { kind, id, place, title, state, commit: None, files: Vec::new() }
    }
}

/// A file attached to an item, or shown in its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    pub address: String,
    /// As the tracker states it.
    pub size: Option<u64>,
}

/// What became of an attached file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentFate {
    pub name: String,
    pub size: Option<u64>,
    /// For people: what was done with it, or why nothing.
    pub fate: String,
}

/// What stands around an item. The lists are bounded by whoever reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub items: Vec<LinkedItem>,
    pub changes: Vec<LinkedChange>,
    pub files: Vec<Attachment>,
    /// Links beyond the bounds, and of kinds that nobody can use.
    pub left_out: u64,
}

/// What was read of it for an analysis, to be shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadSurroundings {
    pub items: Vec<LinkedItem>,
    pub changes: Vec<LinkedChange>,
    pub files: Vec<AttachmentFate>,
    /// Links beyond the bounds.
    pub left_out: u64,
}
