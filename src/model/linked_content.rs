//! What the tracker links to a work item: other items, commits, pull requests, attached files. Read
//! for items about to be analysed. All of it is untrusted.

use serde::{Deserialize, Serialize};

use super::{ItemId, TextField};

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
    /// Any other kind of link.
    Other,
}

/// Another item that the tracker links with this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedItem {
    pub kind: LinkKind,
    /// Number in this source; `None` for an item of another organisation, repository or tracker.
    pub id: Option<ItemId>,
    /// Name such as `contoso/shop#42`; `None` if the number is the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// `None` if it is gone or may not be read.
    pub title: Option<String>,
    pub item_type: String,
    pub state: String,
    /// Address in the web interface.
    pub url: String,
    /// Description of a parent, not cleaned.
    #[serde(skip)]
    pub text: Option<TextField>,
}

impl LinkedItem {
    /// Only kind and identity; the rest is not known yet.
    pub fn new(kind: LinkKind, id: Option<ItemId>, handle: Option<String>) -> Self {
        let (item_type, state, url) = (String::new(), String::new(), String::new());
        Self { kind, id, handle, title: None, item_type, state, url, text: None }
    }

    pub fn name(&self) -> String {
        match (&self.handle, self.id) {
            (Some(handle), _) => handle.clone(),
            (None, Some(id)) => format!("#{id}"),
            (None, None) => self.url.clone(),
        }
    }
}

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
    /// Repository, in the tracker's own notation.
    #[serde(skip)]
    pub place: String,
    /// One line; empty until known.
    pub title: String,
    /// State of a pull request, such as `completed`.
    pub state: String,
    /// The merge commit of a pull request.
    #[serde(skip)]
    pub commit: Option<String>,
    /// The first files it changed.
    pub files: Vec<String>,
}

impl LinkedChange {
    /// Only kind and identity; the rest is not known yet.
    pub fn new(kind: ChangeKind, id: String, place: String) -> Self {
        let (title, state) = (String::new(), String::new());
        Self { kind, id, place, title, state, commit: None, files: Vec::new() }
    }
}

/// A file attached to an item or shown in its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    pub address: String,
    /// As reported by the tracker.
    pub size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentUse {
    pub name: String,
    pub size: Option<u64>,
    /// How it was used, or why not; as text.
    #[serde(rename = "fate")]
    pub note: String,
}

/// The reader bounds these lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkedContent {
    pub items: Vec<LinkedItem>,
    pub changes: Vec<LinkedChange>,
    pub files: Vec<Attachment>,
    /// Links beyond the bounds, and of unusable kinds.
    pub left_out: u64,
}

/// What of it was read for an analysis, for display.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadLinkedContent {
    pub items: Vec<LinkedItem>,
    pub changes: Vec<LinkedChange>,
    pub files: Vec<AttachmentUse>,
    /// Links beyond the bounds.
    pub left_out: u64,
}
