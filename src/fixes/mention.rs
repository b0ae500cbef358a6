//! Numbers of items in one line, in each of the forms that are known.

use super::{Numbers, Rules};

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `AB#123`.
    Boards,
    /// `#123`, `GH-123`.
    Number,
    /// A form of the configuration.
    Pattern,
}

/// A number in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mention {
    /// Where its form begins, and where it ends.
    pub start: usize,
    pub end: usize,
    pub item: i64,
    pub form: Form,
}

/// Where a pattern has its number.
const ID: &str = "{id}";

/// All of a line, in their order. `listed`: bare numbers are items whatever the host.
pub fn mentions(line: &str, rules: &Rules, listed: bool) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let bare = rules.numbers == Numbers::Items || listed;
    for (at, _) in line.match_indices('#') {
        found.extend(hash(line, at, bare));
    }
    if bare {
        found.extend(pattern(line, "gh-{id}", Form::Number));
    }
    for one in &rules.patterns {
        found.extend(pattern(line, one, Form::Pattern));
    }
    // A pattern such as `Fix #{id}` says more than the number inside it.
    found.sort_unstable_by_key(|mention| (mention.end, mention.start));
    found.dedup_by_key(|mention| mention.end);
    found
}

/// The number after the sign at `at`.
fn hash(line: &str, at: usize, bare: bool) -> Option<Mention> {
    let (before, after) = (&line[..at], &line[at + 1..]);
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    let item = after[..digits].parse::<i64>().ok().filter(|item| *item > 0)?;
    if after[digits..].starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let end = at + 1 + digits;
    let boards = before.len().checked_sub(2).filter(|start| before.is_char_boundary(*start));
    if let Some(start) = boards.filter(|start| before[*start..].eq_ignore_ascii_case("ab")) {
        return Some(Mention { start, end, item, form: Form::Boards });
    }
    // `owner/name#12`, `C#7` and anchors of addresses.
    let glued = before
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '&' | '#'));
    (bare && !glued).then_some(Mention { start: at, end, item, form: Form::Number })
}

/// Occurrences of a text with `{id}` in it, whatever its case.
fn pattern(line: &str, pattern: &str, form: Form) -> Vec<Mention> {
    let Some((head, tail)) = pattern.split_once(ID).filter(|(head, _)| !head.trim().is_empty())
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (start, _) in line.char_indices() {
        let Some(rest) = without_prefix(&line[start..], head) else { continue };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(item) = rest[..digits].parse::<i64>() else { continue };
        let number_end = line.len() - rest.len() + digits;
        let Some(after) = without_prefix(&rest[digits..], tail) else { continue };
        let word_before = line[..start].ends_with(char::is_alphanumeric);
        let word_starts = head.starts_with(char::is_alphanumeric);
        let runs_on = tail.is_empty() && after.starts_with(|c: char| c.is_alphanumeric());
        if item > 0 && !(word_before && word_starts) && !runs_on {
            found.push(Mention { start, end: number_end, item, form });
        }
    }
    found
}

fn without_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}
