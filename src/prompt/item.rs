//! A work item and its background as text for a prompt. Not fenced yet.

use crate::model::{
    BYTES_PER_TOKEN, CleanItem, Earlier, Finding, ItemKey, KnownTitle, Links, Verdict,
    tokens_of_bytes,
};

/// Of another item's title, in characters; of one in a list of many.
const MAX_TITLE_LEN: usize = 120;
const SHORT_TITLE: usize = 44;
/// Of the changes since the last reading, in characters.
const MAX_CHANGES_LEN: usize = 400;
/// Files of an earlier finding that are listed.
const MAX_FILES: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The shortened texts, for triage.
    Tight,
    /// The complete texts.
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemText {
    /// Facts, title and texts; not fenced yet.
    pub text: String,
    /// Number of removed characters that a reader does not or may not see.
    pub hidden: usize,
    /// Bytes cut to fit the budget.
    pub cut: usize,
}

impl ItemText {
    /// What is missing, as attributes of our own tag. The text itself could contain the same words.
    pub fn marks(&self) -> String {
        let one = |name: &str, count: usize| match count {
            0 => String::new(),
            count => format!(" {name}=\"{count}\""),
        };
        one("hidden", self.hidden) + &one("cut", self.cut)
    }
}

/// The item as facts, title and texts, within the budget. `parent` is its parent's title.
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
    // Cuts the end of the texts rather than the newest comment.
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

/// Includes the line break before it.
fn tokens(line: &str) -> u32 {
    let bytes = if line.is_empty() { 0 } else { line.len() + 1 };
    u32::try_from(tokens_of_bytes(bytes)).unwrap_or(u32::MAX)
}

/// Removes the cleaner's note on how much was cut; here the tag says it.
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
        Some(title) => format!("parent {id}: {}", cut_line(title, MAX_TITLE_LEN)),
        None => format!("parent {id}"),
    }));
    facts.extend(item.created_at.map(|at| format!("created {}", at.strftime("%F"))));
    facts.extend(item.assigned_to.as_ref().map(|_| "assigned".to_owned()));
    facts.extend(links(item.links));
    facts.retain(|fact| !fact.is_empty());
    facts.join(" | ")
}

/// Number of links by kind.
fn links(links: Links) -> Option<String> {
    let kinds = [
        (links.items, "other items"),
        (links.development, "commits, builds or pull requests"),
        (links.pages, "web pages"),
        (links.files, "files"),
    ];
    let reported: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(n, kind)| format!("{n} {kind}"))
        .collect();
    (!reported.is_empty()).then(|| format!("links: {}", reported.join(", ")))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One line, at most `longest` characters.
fn cut_line(text: &str, longest: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(longest) {
        Some((end, _)) => format!("{}\u{2026}", line[..end].trim_end()),
        None => line,
    }
}

/// Earlier results and what changed since.
pub fn earlier_text(earlier: &Earlier, detail: Detail) -> String {
    let mut lines = Vec::new();
    if let Some((at, verdict)) = &earlier.verdict {
        lines.push(format!("{} verdict: {}", at.strftime("%F"), verdict_line(verdict)));
    }
    if let Some((at, finding)) = &earlier.finding {
        lines.push(format!("{} finding: {}", at.strftime("%F"), finding_text(finding, detail)));
    }
    let since = earlier.changes.as_ref().map(|changes| match changes.is_empty() {
        true => "nothing in the item".to_owned(),
        false => changes.join("; "),
    });
    lines
        .extend(since.map(|since| format!("changed since: {}", cut_line(&since, MAX_CHANGES_LEN))));
    lines.join("\n")
}

fn verdict_line(verdict: &Verdict) -> String {
    let complexity: &str = verdict.complexity.into();
    let deep = if verdict.needs_deep_analysis { "analysis" } else { "no analysis" };
    format!("{deep}, {complexity}: {}", cut_line(&verdict.reason, 240))
}

fn finding_text(finding: &Finding, detail: Detail) -> String {
    let confidence = finding.confidence.to_string().to_lowercase();
    let (summary, change) = match detail {
        Detail::Tight => (300, 0),
        Detail::Full => (800, 1_000),
    };
    let mut text = format!("{} (confidence {confidence})", cut_line(&finding.summary, summary));
    if change > 0 {
        text += &format!("\nit suggested: {}", cut_line(&finding.suggested_change, change));
        let files: Vec<&str> =
            finding.files.iter().take(MAX_FILES).map(|file| file.path.as_str()).collect();
        text += &format!("\nin: {}", files.join(", "));
    }
    text
}

/// Other items, one per line: `17 | done | Total is wrong`; items of a source other than `own` have
/// its name. Without `own`, they have their batch numbers and short titles: triage gets many.
pub fn known_text<'a>(
    known: impl IntoIterator<Item = &'a KnownTitle>,
    own: Option<&ItemKey>,
) -> String {
    let line = |known: &KnownTitle| {
        let phase: &str = known.phase.into();
        let name = match own {
            Some(own) if own.source() != known.key.source() => known.key.to_string(),
            _ => known.id.to_string(),
        };
        let longest = if own.is_some() { MAX_TITLE_LEN } else { SHORT_TITLE };
        format!("{name} | {phase} | {}", cut_line(&known.title, longest))
    };
    known.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The text, or the beginning that fits, and how many bytes were cut.
pub fn cut_to_tokens(text: &str, max_tokens: u32) -> (String, usize) {
    let max_bytes =
        usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    if text.len() <= max_bytes {
        return (text.to_owned(), 0);
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // Ending at a line or word reads better than a slightly longer text.
    if let Some(line_end) = text[..end].rfind('\n').filter(|line_end| *line_end * 10 >= end * 9) {
        end = line_end;
    }
    let kept = text[..end].trim_end();
    (kept.to_owned(), text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::estimate_tokens;

    #[test]
    fn a_short_text_stays_and_of_a_long_one_is_known_what_is_missing() {
        assert_eq!(cut_to_tokens("short", 10), ("short".to_owned(), 0));
        let (kept, cut) = cut_to_tokens(&"word ".repeat(100), 50);
        assert_eq!((kept.len() + cut, kept.ends_with("word")), (500, true));
    }

    proptest! {
        #[test]
        fn never_longer_than_allowed(text in "\\PC{0,400}", max in 12_u32..80) {
            prop_assert!(estimate_tokens(&cut_to_tokens(&text, max).0) <= u64::from(max));
        }

        #[test]
        fn any_limit_is_survived(text in "\\PC{0,60}", max in any::<u32>()) {
            cut_to_tokens(&text, max);
        }
    }
}
