//! A work item as text for a prompt.

use super::budget::cut_to_tokens;
use crate::model::{CleanItem, Links, tokens_of_bytes};

/// How much is shown of another item's title.
pub(super) const LONGEST_TITLE: usize = 120;

/// How much of an item a prompt has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The shortened texts, for triage.
    Tight,
    /// Everything a reader sees.
    Full,
}

/// An item as a prompt has it, with what is missing from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemText {
    /// Facts, title and texts; not yet fenced.
    pub text: String,
    /// Characters that a reader would not see, or may not see, and that were left out.
    pub hidden: usize,
    /// Bytes left out for want of room.
    pub cut: usize,
}

impl ItemText {
    /// What is missing, as attributes of the program's own tag. In the text itself a stranger could
    /// write the same words.
    pub fn marks(&self) -> String {
        let one = |name: &str, count: usize| match count {
            0 => String::new(),
            count => format!(" {name}=\"{count}\""),
        };
        one("hidden", self.hidden) + &one("cut", self.cut)
    }
}

/// The item in a few lines: facts, title, texts; within the budget. `parent` is its parent's title.
pub fn item_text(
    item: &CleanItem,
    parent: Option<&str>,
    detail: Detail,
    max_tokens: u32,
) -> ItemText {
    let cut = match detail {
        Detail::Tight => item.stats.tight_cut_bytes,
        Detail::Full => item.stats.cut_bytes,
    };
    let mut lines = vec![one_line(&item.facts.title), facts(item, parent)];
    let mut newest_comment = String::new();
    for field in &item.fields {
        let text = match detail {
            Detail::Tight => &field.tight,
            Detail::Full => &field.full,
        };
        let text = if cut > 0 { without_mark(text) } else { text };
        if text.trim().is_empty() {
            continue;
        }
        let line = format!("{}: {}", field.label(), text.trim());
        match field.is_comment() {
            true => lines.extend(Some(std::mem::replace(&mut newest_comment, line))),
            false => lines.push(line),
        }
    }
    lines.retain(|line| !line.is_empty());
    // What is cut is the end of the texts, not the last word of the discussion.
    let (newest_comment, beyond) = cut_to_tokens(&newest_comment, max_tokens / 2);
    let room = max_tokens.saturating_sub(tokens(&newest_comment));
    let (mut text, more_beyond) = cut_to_tokens(&lines.join("\n"), room);
    if !newest_comment.is_empty() {
        text.push('\n');
        text.push_str(&newest_comment);
    }
    let hidden = item.alarms.hidden_chars + item.alarms.doubtful_chars;
    ItemText { text, hidden, cut: cut + beyond + more_beyond }
}

/// With the line break before it.
fn tokens(line: &str) -> u32 {
    let bytes = if line.is_empty() { 0 } else { line.len() + 1 };
    u32::try_from(tokens_of_bytes(bytes)).unwrap_or(u32::MAX)
}

/// The cleaner says at the end of a text how much it left out; here the tag says it.
fn without_mark(text: &str) -> &str {
    let end = text.trim_end();
    let (before, last) = end.rsplit_once('\n').unwrap_or(("", end));
    let is_mark = last.starts_with("[\u{2026} ") && last.ends_with(" left out]");
    if is_mark { before } else { text }
}

fn facts(clean: &CleanItem, parent: Option<&str>) -> String {
    let item = &clean.facts;
    let mut facts = vec![one_line(&item.item_type), one_line(&item.state)];
    facts.extend(item.handle.as_deref().map(one_line));
    facts.extend(item.priority.map(|priority| format!("priority {priority}")));
    facts.extend(
        item.severity.as_deref().map(|severity| format!("severity {}", one_line(severity))),
    );
    facts.extend(item.areas().map(one_line));
    if !item.tags.is_empty() {
        let tags: Vec<String> = item.tags.iter().map(|tag| one_line(tag)).collect();
        facts.push(format!("tags {}", tags.join(", ")));
    }
    facts.extend(item.parent.map(|id| match parent {
        Some(title) => format!("parent {id}: {}", cut_line(title, LONGEST_TITLE)),
        None => format!("parent {id}"),
    }));
    facts.extend(item.created_at.map(|at| format!("created {}", at.strftime("%F"))));
    facts.extend(item.assigned_to.as_ref().map(|_| "assigned".to_owned()));
    facts.extend(links(item.links));
    facts.retain(|fact| !fact.is_empty());
    facts.join(" | ")
}

/// That there is more to look at, and of what kind.
fn links(links: Links) -> Option<String> {
    let kinds = [
        (links.items, "other items"),
        (links.development, "commits, builds or pull requests"),
        (links.pages, "web pages"),
        (links.files, "files"),
    ];
    let told: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(n, kind)| format!("{n} {kind}"))
        .collect();
    (!told.is_empty()).then(|| format!("links: {}", told.join(", ")))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// On one line, and no longer than this many characters.
pub(super) fn cut_line(text: &str, longest: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}\u{2026}", line[..end].trim_end()),
        None => line,
    }
}
