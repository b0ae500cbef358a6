//! A work item as fetched, and after cleaning.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Alarms, Format, ItemId, ItemKey, TextStats};

/// A long text of a work item, not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextField {
    /// The tracker's reference name, such as `System.Description`.
    pub name: String,
    pub format: Format,
    pub raw: String,
}

/// One comment, not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Display name.
    pub author: String,
    pub at: Option<Timestamp>,
    pub format: Format,
    pub raw: String,
    /// Whether its author may write to the item, as far as the tracker says.
    #[serde(default)]
    pub may_write: bool,
}

/// Number of links by target. A new link is not a change of the item: it does not move the revision
/// and does not trigger work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Links {
    /// Other items, without the parent.
    pub items: u64,
    /// Commits, pull requests, builds and the like.
    pub development: u64,
    /// Web pages.
    pub pages: u64,
    pub files: u64,
}

/// A work item as a source returns it: untrusted, not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    /// Primary key in the state.
    pub key: ItemKey,
    pub id: ItemId,
    /// Revision mark, compared only for equality: a counter in Azure DevOps, elsewhere the time of
    /// the last change. Moves on field edits and comments, not on links.
    pub rev: i64,
    /// Name that people use if it is not `#` and the number: `SHOP-12`, `contoso/shop#4`.
    #[serde(default)]
    pub handle: Option<String>,
    /// Bug, User Story, Task, …
    pub item_type: String,
    pub title: String,
    /// Workflow state, such as `Active`.
    pub state: String,
    /// Whether the tracker counts this state as finished. `None`: the tracker has only names, and
    /// `dedupe.terminal_states` decides.
    #[serde(default)]
    pub finished: Option<bool>,
    pub changed_at: Timestamp,
    pub created_at: Option<Timestamp>,
    /// 1 is the most urgent.
    pub priority: Option<i64>,
    /// Rank from 1 (critical) to 4 and name, such as `2 - High`.
    pub severity: Option<String>,
    /// `Project\A\B`; the first one if the item has several areas.
    pub area_path: Option<String>,
    #[serde(default)]
    pub more_areas: Vec<String>,
    /// `Project\Sprint 1`.
    pub iteration_path: Option<String>,
    /// Display name.
    pub assigned_to: Option<String>,
    /// Who created it: the best hint for its owner. In no prompt.
    #[serde(default)]
    pub reporter: Option<String>,
    pub tags: Vec<String>,
    pub parent: Option<ItemId>,
    #[serde(default)]
    pub links: Links,
    /// Address in the web interface.
    pub url: String,
    /// Only texts that are not empty.
    pub texts: Vec<TextField>,
    /// Newest last; empty unless comments are configured.
    pub comments: Vec<Comment>,
}

impl WorkItem {
    pub fn areas(&self) -> impl Iterator<Item = &str> {
        self.area_path.iter().chain(&self.more_areas).map(String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanField {
    /// The tracker's reference name, or `comment by …`.
    pub name: String,
    /// The whole visible text, as compact Markdown.
    pub full: String,
    /// Shortened for triage.
    pub tight: String,
}

/// Prefix of the names of comment fields.
const COMMENT: &str = "comment by ";

impl CleanField {
    pub fn comment_by(author: &str) -> String {
        format!("{COMMENT}{author}")
    }

    pub fn is_comment(&self) -> bool {
        self.name.starts_with(COMMENT)
    }

    /// Short name for a reader: `ReproSteps` for `Microsoft.VSTS.TCM.ReproSteps`. Names with spaces
    /// are our own.
    pub fn label(&self) -> &str {
        match self.name.contains(' ') {
            true => &self.name,
            false => self.name.rsplit('.').next().unwrap_or(&self.name),
        }
    }
}

/// A work item ready for a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanItem {
    /// Metadata. `texts` and `comments` are empty here; `fields` holds their cleaned form.
    pub facts: WorkItem,
    /// Cleaned texts in the item's order, comments last.
    pub fields: Vec<CleanField>,
    /// Hidden and invisible text found by cleaning.
    pub alarms: Alarms,
    pub stats: TextStats,
}
