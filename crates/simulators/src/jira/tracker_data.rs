//! The data of the simulated Jira: issues, comments, and the order of changes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::text::JiraText;
use heartbeat::clock::Clock;
use heartbeat::simulate::StoredFile;

/// The key of the project with the issues.
pub const PROJECT: &str = "PARCEL";
pub const PROJECT_NAME: &str = "Parcel Tracking";
/// Another project, which is not watched.
pub const OTHER: &str = "OPS";
/// Number of the first issue.
pub const FIRST_ID: i64 = 10_001;

/// Most urgent first.
pub const PRIORITIES: [&str; 5] = ["Highest", "High", "Medium", "Low", "Lowest"];

/// States and the keys of their categories.
pub const STATES: [(&str, &str); 4] = [
    ("To Do", "new"),
    ("In Progress", "indeterminate"),
    ("In Review", "indeterminate"),
    ("Done", "done"),
];

#[derive(Debug, Clone)]
pub struct JiraNote {
    pub id: i64,
    pub author: String,
    pub text: JiraText,
    pub at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct JiraRecord {
    pub id: i64,
    pub project: String,
    /// Number in the project.
    pub number: i64,
    pub summary: String,
    pub description: JiraText,
    pub kind: String,
    pub status: String,
    pub priority: String,
    pub labels: Vec<String>,
    pub components: Vec<String>,
    pub assignee: Option<String>,
    pub parent: Option<i64>,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub comments: Vec<JiraNote>,
    /// Name of the link, whether it is outward, and the other issue.
    pub links: Vec<(String, bool, i64)>,
    /// Id, name and content.
    pub files: Vec<(i64, String, StoredFile)>,
    pub children: Vec<i64>,
    /// All edits, oldest first.
    pub history: Vec<Edit>,
}

/// What one edit changed.
#[derive(Debug, Clone)]
pub struct Edit {
    pub at: Timestamp,
    /// The field, its old value and its new value.
    pub fields: Vec<(&'static str, String, String)>,
}

impl JiraRecord {
    pub fn key(&self) -> String {
        format!("{}-{}", self.project, self.number)
    }

    /// `new`, `indeterminate` or `done`.
    pub fn category(&self) -> &'static str {
        STATES.iter().find(|(name, _)| *name == self.status).map_or("indeterminate", |(_, key)| key)
    }
}

#[derive(Debug)]
pub struct JiraData {
    pub clock: Clock,
    issues: BTreeMap<i64, JiraRecord>,
    /// Sorted by the time of the last change.
    order: BTreeSet<(Timestamp, i64)>,
    numbers: BTreeMap<String, i64>,
    last_comment: i64,
    /// New keys of projects, by their old ones.
    pub renamed: BTreeMap<String, String>,
    pub zone: jiff::tz::TimeZone,
}

impl JiraData {
    pub fn new(clock: Clock, zone: jiff::tz::TimeZone) -> Self {
        Self {
            clock,
            issues: BTreeMap::new(),
            order: BTreeSet::new(),
            numbers: BTreeMap::new(),
            last_comment: 10_000,
            renamed: BTreeMap::new(),
            zone,
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The current key of a project, by key or name.
    pub fn project(&self, name: &str) -> Option<String> {
        let by_name = name.eq_ignore_ascii_case(PROJECT_NAME).then(|| PROJECT.to_owned());
        let known = [PROJECT, OTHER].into_iter().find(|key| key.eq_ignore_ascii_case(name));
        let key = known.map(str::to_owned).or(by_name)?;
        Some(self.renamed.get(&key).cloned().unwrap_or(key))
    }

    /// Adds an issue that was created and last changed at `at`; returns its id.
    pub fn add(&mut self, mut issue: JiraRecord, at: Timestamp) -> i64 {
        let at = milliseconds(at);
        let id = FIRST_ID + i64::try_from(self.issues.len()).unwrap_or(0);
        let id = self.issues.keys().next_back().map_or(id, |last| id.max(last + 1));
        let number = self.numbers.entry(issue.project.clone()).or_default();
        *number += 1;
        (issue.id, issue.number, issue.created, issue.updated) = (id, *number, at, at);
        self.order.insert((at, id));
        self.issues.insert(id, issue);
        id
    }

    pub fn get(&self, id: i64) -> Option<&JiraRecord> {
        self.issues.get(&id)
    }

    /// By id or key.
    pub fn find(&self, name: &str) -> Option<&JiraRecord> {
        match name.parse::<i64>() {
            Ok(id) => self.issues.get(&id),
            Err(_) => self.issues.values().find(|issue| issue.key().eq_ignore_ascii_case(name)),
        }
    }

    pub fn file(&self, id: &str) -> Option<&StoredFile> {
        let mut files = self.issues.values().flat_map(|issue| &issue.files);
        files.find(|(known, _, _)| known.to_string() == id).map(|(_, _, file)| file)
    }

    pub fn ids(&self) -> Vec<i64> {
        self.issues.keys().copied().collect()
    }

    /// Changes an issue now; every change moves the date, even within a millisecond.
    pub fn edit(&mut self, id: i64, change: impl FnOnce(&mut JiraRecord)) -> bool {
        let Some(issue) = self.issues.get(&id) else { return false };
        let next = issue.updated.checked_add(jiff::SignedDuration::from_millis(1));
        let at = self.now().max(next.unwrap_or(issue.updated));
        self.edit_at(id, at, change)
    }

    /// Changes an issue at a given time.
    pub fn edit_at(
        &mut self,
        id: i64,
        at: Timestamp,
        change: impl FnOnce(&mut JiraRecord),
    ) -> bool {
        let Some(issue) = self.issues.get_mut(&id) else { return false };
        self.order.remove(&(issue.updated, id));
        let held = |issue: &JiraRecord| {
            let description = issue.description.wiki.clone();
            [issue.summary.clone(), description, issue.status.clone()]
        };
        let before = held(issue);
        change(issue);
        issue.updated = milliseconds(at);
        let changed = ["summary", "description", "status"].into_iter().zip(before);
        let changed = changed.zip(held(issue)).map(|((name, from), to)| (name, from, to));
        let fields: Vec<_> = changed.filter(|(_, from, to)| from != to).collect();
        if !fields.is_empty() {
            issue.history.push(Edit { at: issue.updated, fields });
        }
        self.order.insert((issue.updated, id));
        true
    }

    pub fn delete(&mut self, id: i64) -> bool {
        let Some(issue) = self.issues.remove(&id) else { return false };
        self.order.remove(&(issue.updated, id))
    }

    /// Adds a comment; returns its id.
    pub fn add_comment(&mut self, id: i64, author: &str, text: JiraText) -> Option<i64> {
        self.last_comment += 1;
        let (comment, author) = (self.last_comment, author.to_owned());
        let at = self.now();
        let done = self.edit(id, |issue| {
            issue.comments.push(JiraNote { id: comment, author, text, at });
        });
        // A comment has the time of the change that it made.
        let issue = self.issues.get_mut(&id)?;
        let updated = issue.updated;
        if let Some(last) = issue.comments.last_mut() {
            last.at = updated;
        }
        done.then_some(comment)
    }

    /// Issues in the order of their changes, from `from` on.
    pub fn by_change(&self, from: Timestamp) -> impl Iterator<Item = &JiraRecord> {
        self.order.range((from, i64::MIN)..).filter_map(|(_, id)| self.issues.get(id))
    }

    /// A time in the service's format: milliseconds, the account's offset without a colon.
    pub fn time(&self, at: Timestamp) -> Value {
        json!(at.to_zoned(self.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.3f%z").to_string())
    }
}

/// Cuts a time to the precision of the service.
fn milliseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}
