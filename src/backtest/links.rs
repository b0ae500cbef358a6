//! The commits that were found for each item, and why: to check how a team's commits are read.

use std::fmt::Write as _;

use serde::Serialize;

use super::{PastCommit, PastItem};
use crate::fixes::Reason;
use crate::model::text::clip;

/// Length of a title or a subject in the text output.
const WIDTH: usize = 80;

/// An item with the commits that did its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemLinks {
    pub item: i64,
    /// As people write it.
    pub name: String,
    pub title: String,
    /// Oldest first.
    pub commits: Vec<LinkedCommit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkedCommit {
    pub id: String,
    /// Seconds since the epoch.
    pub time: i64,
    pub subject: String,
    pub reason: Reason,
    /// The reason for people.
    pub why: &'static str,
    /// It follows the commit that resolved the item, so it does not tell where the fix was.
    pub follows_up: bool,
}

impl ItemLinks {
    pub(super) fn of(item: &PastItem, commits: &[(&PastCommit, bool)]) -> Self {
        let linked = |(commit, follows_up): &(&PastCommit, bool)| LinkedCommit {
            id: commit.id.clone(),
            time: commit.time,
            subject: commit.subject.clone(),
            reason: commit.reason,
            why: commit.reason.text(),
            follows_up: *follows_up,
        };
        Self {
            item: item.id,
            name: item.name.text(),
            title: item.title.clone(),
            commits: commits.iter().map(linked).collect(),
        }
    }
}

/// Every item with its commits, and how many have one.
pub fn render_links(links: &[ItemLinks], notes: &[String]) -> String {
    let mut out = String::new();
    for ItemLinks { name, title, commits, .. } in links {
        // Writing to a string cannot fail.
        let _never_fails = writeln!(out, "{name} {}", clip(title, WIDTH));
        if commits.is_empty() {
            out.push_str("  no commit found\n");
        }
        for LinkedCommit { id, time, subject, why, follows_up, .. } in commits {
            let more = if *follows_up { "; after the fix" } else { "" };
            let day =
                jiff::Timestamp::from_second(*time).map(|time| time.strftime("%F").to_string());
            let (id, day) = (id.get(..10).unwrap_or(id), day.unwrap_or_default());
            let _never_fails =
                writeln!(out, "  {id} {day} {}\n             ({why}{more})", clip(subject, WIDTH));
        }
    }
    let found = links.iter().filter(|item| !item.commits.is_empty()).count();
    let _never_fails = writeln!(out, "\nCommits were found for {found} of {} items.", links.len());
    for note in notes {
        let _never_fails = writeln!(out, "Note: {note}");
    }
    out
}
