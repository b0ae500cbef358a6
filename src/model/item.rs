//! A work item as it was fetched, and as it looks after cleaning.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Alarms, ItemId, ItemKey};

/// How a text field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Rich text as HTML: the tracker's default.
    Html,
    /// Markdown with `<`, `>` and `"` entity-encoded, as Azure DevOps delivers it.
    Markdown,
    /// Markdown as a person wrote it, as GitHub delivers it.
    RawMarkdown,
    /// Plain text, passed on as it is.
    Plain,
    /// The XML of a test case's steps, with HTML escaped inside.
    TestSteps,
    /// Atlassian's document format, as JSON: Jira Cloud.
    Adf,
    /// Jira's wiki markup, as Data Center keeps it.
    Wiki,
}

/// One long text of a work item, raw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextField {
    /// The tracker's reference name, such as `System.Description`.
    pub name: String,
    /// How [`raw`](Self::raw) is written.
    pub format: Format,
    /// The value as it came.
    pub raw: String,
}

/// One entry of the discussion, raw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// Who wrote it, for display.
    pub author: String,
    /// When it was written.
    pub at: Option<Timestamp>,
    /// How [`raw`](Self::raw) is written.
    pub format: Format,
    /// The text as it came.
    pub raw: String,
}

/// How many links an item has, by what they lead to. A link says nothing new about the item itself:
/// it moves no revision and wakes nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Links {
    /// Other items, the parent not counted.
    pub items: u64,
    /// Commits, pull requests, builds and their like.
    pub development: u64,
    /// Pages on the web.
    pub pages: u64,
    /// Attached files.
    pub files: u64,
}

/// A work item as a source delivers it: untrusted, not yet cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkItem {
    /// Key of its row in the state.
    pub key: ItemKey,
    /// The tracker's number.
    pub id: ItemId,
    /// Mark of the revision, compared for equality only: a counter in Azure DevOps, elsewhere the
    /// time of the last change. Moves on field edits and comments, not on links.
    pub rev: i64,
    /// How people name it, if not by `#` and its number: `SHOP-12`, `contoso/shop#4`.
    #[serde(default)]
    pub handle: Option<String>,
    /// Bug, User Story, Task, …
    pub item_type: String,
    /// One line.
    pub title: String,
    /// Workflow state, such as `Active`.
    pub state: String,
    /// Whether the tracker itself counts this state as finished; none: it has only names, and
    /// `dedupe.terminal_states` decides.
    #[serde(default)]
    pub finished: Option<bool>,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// 1 is the most urgent.
    pub priority: Option<i64>,
    /// Such as `2 - High`: its rank among 1 (critical) to 4, and its name.
    pub severity: Option<String>,
    /// `Project\A\B`; where an item has several areas, the first.
    pub area_path: Option<String>,
    /// Its other areas.
    #[serde(default)]
    pub more_areas: Vec<String>,
    /// `Project\Sprint 1`.
    pub iteration_path: Option<String>,
    /// Display name.
    pub assigned_to: Option<String>,
    /// In the tracker's order.
    pub tags: Vec<String>,
    /// The item above it in the backlog.
    pub parent: Option<ItemId>,
    /// What else it is linked to.
    #[serde(default)]
    pub links: Links,
    /// Address for people.
    pub url: String,
    /// Long texts that are not empty.
    pub texts: Vec<TextField>,
    /// Newest last; empty unless configured.
    pub comments: Vec<Comment>,
}

impl WorkItem {
    /// Every area it is in.
    pub fn areas(&self) -> impl Iterator<Item = &str> {
        self.area_path.iter().chain(&self.more_areas).map(String::as_str)
    }
}

/// What cleaning made of a text, in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextStats {
    /// Bytes as fetched.
    pub raw_bytes: usize,
    /// Bytes after cleaning.
    pub clean_bytes: usize,
    /// Bytes left out by a budget or an input limit.
    pub cut_bytes: usize,
    /// Bytes that triage's budget left out of the shortened texts.
    #[serde(default)]
    pub tight_cut_bytes: usize,
}

impl TextStats {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            raw_bytes: self.raw_bytes + other.raw_bytes,
            clean_bytes: self.clean_bytes + other.clean_bytes,
            cut_bytes: self.cut_bytes + other.cut_bytes,
            tight_cut_bytes: self.tight_cut_bytes + other.tight_cut_bytes,
        }
    }
}

/// One long text of a work item after cleaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanField {
    /// The tracker's reference name, or `comment by …`.
    pub name: String,
    /// Everything a reader sees, as compact Markdown.
    pub full: String,
    /// The same, shortened for triage.
    pub tight: String,
}

/// How the name of a comment's field begins.
const COMMENT: &str = "comment by ";

impl CleanField {
    /// The name of a comment's field.
    pub fn comment_by(author: &str) -> String {
        format!("{COMMENT}{author}")
    }

    pub fn is_comment(&self) -> bool {
        self.name.starts_with(COMMENT)
    }

    /// `Microsoft.VSTS.TCM.ReproSteps` is `ReproSteps` to a reader; names with spaces are ours.
    pub fn label(&self) -> &str {
        match self.name.contains(' ') {
            true => &self.name,
            false => self.name.rsplit('.').next().unwrap_or(&self.name),
        }
    }
}

/// A work item ready for a prompt: metadata, clean texts, what cleaning noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanItem {
    /// Its number, title, state and so on. `texts` and `comments` are empty here: their clean form is
    /// in `fields`.
    pub facts: WorkItem,
    /// Clean texts, in the item's order, comments last.
    pub fields: Vec<CleanField>,
    /// Hidden and invisible text.
    pub alarms: Alarms,
    /// Sizes before and after.
    pub stats: TextStats,
}
