//! Item numbers in commit messages.
//!
//! A number is a link if the message says that the commit is about the item: in the subject, after
//! a word such as `Fixes` or `Refs`, at the beginning of a line, in a list after one of these.
//! Items that are only mentioned (`since #12`, `follow-up to #12`, `as in #12`) are not linked; one
//! that the message points to (`see #12`) is, if the message names no other.

use std::collections::BTreeSet;

use super::keys::ANOTHER;
use super::line::{Line, Named, Place};
use super::subject::{
    is_import, is_merge_up, is_release, is_revert, pull_request, switches_off_test,
};
use super::{Link, Numbers, Reason, Rules, branch};

/// A message that points to more items is about none of them.
const MAX_POINTED: usize = 2;

#[derive(Debug, Clone, Copy, Default)]
pub struct Commit<'a> {
    /// First line.
    pub subject: &'a str,
    pub body: &'a str,
    /// Whether it has more than one parent.
    pub merge: bool,
}

/// The items that a commit names, each once with its strongest reason, ordered by number.
pub fn links(commit: Commit<'_>, rules: &Rules) -> Vec<Link> {
    let is_many = is_import(commit.subject) || (commit.merge && is_merge_up(commit.subject));
    if is_revert(commit.subject) || is_release(commit.subject) || is_many {
        return Vec::new();
    }
    let merged = branch::merged(commit.subject).filter(|_| commit.merge);
    // The main branch of a fork comes as a pull request.
    let by_request = pull_request(commit).is_some() || commit.body.contains("\nSee merge request ");
    let is_other = |name| branch::is_main(name) || branch::is_update(commit.subject);
    if !by_request && merged.is_some_and(is_other) {
        return resolved_by_merge(commit.body, rules);
    }
    // The title of the pull request.
    let is_title = |line: &&str| !line.trim().is_empty();
    if commit.merge && by_request && commit.body.lines().find(is_title).is_some_and(is_revert) {
        return Vec::new();
    }
    let mut found: Vec<Named> = Vec::new();
    let items = merged.map(|name| of_branch(name, rules)).unwrap_or_default();
    found.extend(items.into_iter().map(|item| Named::plain(item, Reason::Branch)));
    // The branch that it was merged into is not what was merged.
    let subject = match merged {
        Some(_) => commit.subject.rsplit_once(" into ").map_or(commit.subject, |(said, _)| said),
        None => commit.subject,
    };
    found.extend(Line { place: Place::Subject, above: "", rules }.links(subject));
    // The subject is the host's, and its number is the pull request's.
    let is_merged_request = commit.merge && pull_request(commit).is_some();
    let body = MessageBody::read(commit.body, is_merged_request, rules);
    found.extend(body.named);
    let request = pull_request(commit);
    let is_request = |named: &Named| Some(named.link.item) == request;
    // If the subject names no number but that of its pull request, a line of numbers only is the
    // item's; elsewhere it is a list of references.
    let numbers = commit.subject.matches('#').count();
    let names_none = numbers <= usize::from(request.is_some());
    if found.iter().all(is_request) && (is_merged_request || names_none) {
        found.extend(body.lone);
    }
    drop_listed_pointers(&mut found, &body.pointed_to);
    drop_mentioned(&mut found, begins_with_key(commit.subject, rules));
    let is_named = found.iter().any(|named| !(named.points || is_request(named)));
    drop_pointers(&mut found, is_named || switches_off_test(commit.subject));
    strongest(found)
}

/// Each item once with its strongest reason, ordered by number.
fn strongest(found: Vec<Named>) -> Vec<Link> {
    let mut links: Vec<Link> = found.into_iter().map(|named| named.link).collect();
    links.retain(|link| link.item != ANOTHER);
    links.sort_unstable();
    links.dedup_by_key(|link| link.item);
    links
}

/// A merge of a main branch contains other people's work, and git may list it with an indent. What a
/// person adds below it (`Closes #12`) counts.
fn resolved_by_merge(body: &str, rules: &Rules) -> Vec<Link> {
    let is_own = |line: &&str| !line.starts_with([' ', '\t', '*', '-', '#']);
    let own: Vec<&str> = body.lines().filter(is_own).collect();
    let mut named = MessageBody::read(&own.join("\n"), false, rules).named;
    named.retain(|named| named.settles);
    strongest(named)
}

/// Azure DevOps lists every item that the text mentions, also those that the reader is sent to.
fn drop_listed_pointers(found: &mut Vec<Named>, pointed_to: &[i64]) {
    let is_listed = |named: &Named| named.link.reason == Reason::RelatedItems;
    let is_pointer = |named: &Named| is_listed(named) && pointed_to.contains(&named.link.item);
    if found.iter().any(|named| is_listed(named) && !is_pointer(named)) {
        found.retain(|named| !is_pointer(named));
    }
}

/// If a message names the item it fixes, or begins with a key, others are only mentioned.
fn drop_mentioned(found: &mut Vec<Named>, begins_with_key: bool) {
    if found.iter().any(|named| named.settles) {
        found.retain(|named| !named.in_passing);
    }
    if begins_with_key {
        found.retain(|named| !named.after_key);
    }
}

/// What only points to an item counts if the message names no other, and not many.
fn drop_pointers(found: &mut Vec<Named>, is_named: bool) {
    let pointed = found.iter().filter(|named| named.points).map(|named| named.link.item);
    if is_named || pointed.collect::<BTreeSet<i64>>().len() > MAX_POINTED {
        found.retain(|named| !named.points);
    }
}

/// `SHOP-12: …`, `[SHOP-12] …`.
fn begins_with_key(subject: &str, rules: &Rules) -> bool {
    let first = rules.keys.find(subject).first().map(|(start, _, _)| *start);
    first.is_some_and(|start| subject[..start].trim_matches(['[', '(', ' ']).is_empty())
}

/// The items in the body of a message.
#[derive(Default)]
struct MessageBody {
    named: Vec<Named>,
    /// On lines of numbers only.
    lone: Vec<Named>,
    /// `see #12`.
    pointed_to: Vec<i64>,
}

impl MessageBody {
    /// `titled`: the first line is the title of a pull request.
    fn read(body: &str, titled: bool, rules: &Rules) -> Self {
        let mut found = Self::default();
        let (mut listed, mut above, mut is_paragraph) = (false, "", true);
        let title = titled.then(|| body.lines().position(|line| !line.trim().is_empty())).flatten();
        for (at, line) in body.lines().enumerate() {
            let lower = line.trim().to_ascii_lowercase();
            if quotes_another(&lower) {
                continue;
            }
            // The list may be on the line of its heading or below it.
            let heading = lower.starts_with("related work item") || lower.starts_with("work item");
            listed = heading || (listed && starts_with_number(&lower));
            let place = match listed {
                true => Place::Listed,
                false if title == Some(at) => Place::Subject,
                false => Place::Body,
            };
            let here = Line { place, above, rules };
            above = if lower.ends_with(char::is_alphabetic) { line } else { "" };
            // Most lines name nothing.
            if !line.bytes().any(|byte| byte.is_ascii_digit()) {
                is_paragraph = lower.is_empty();
                continue;
            }
            found.named.extend(here.links(line));
            found.pointed_to.extend(here.pointed_to(line));
            let lone = if is_paragraph { here.lone(line) } else { Vec::new() };
            is_paragraph = !lone.is_empty();
            found.lone.extend(lone);
        }
        found
    }
}

/// Items in the name of a branch.
fn of_branch(name: &str, rules: &Rules) -> Vec<i64> {
    let keys = rules.keys.find(name).into_iter().map(|(_, _, item)| item);
    let numbers = (rules.numbers != Numbers::Nothing).then(|| branch::items(name));
    keys.chain(numbers.into_iter().flatten()).collect()
}

/// Lines about another commit or pull request.
fn quotes_another(lower: &str) -> bool {
    [
        "reverts ",
        "revert \"",
        "this reverts",
        "cherry-picked from",
        "(cherry picked from",
        "co-authored-by",
        "reviewed-on",
        "see also",
        "> ",
    ]
    .iter()
    .any(|start| lower.starts_with(start))
}

fn starts_with_number(lower: &str) -> bool {
    let bare = lower.trim_start_matches(['-', '*', ' ', '\t']);
    bare.strip_prefix("ab").unwrap_or(bare).starts_with('#')
}
