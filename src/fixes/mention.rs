//! Item numbers in one line, in each known form.

use super::keys::runs_on;
use super::{Numbers, Rules};

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `AB#123`.
    Boards,
    /// The page of an item in Azure Boards.
    BoardsPage,
    /// `#123`, `GH-123`, the page of an issue.
    Number,
    /// A configured form.
    Pattern,
    /// `SHOP-123`.
    Key,
}

/// A number in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mention {
    /// Start and end of the form.
    pub start: usize,
    pub end: usize,
    pub item: i64,
    pub form: Form,
}

/// Precedes the number of an item in an Azure Boards address.
const BOARDS_PAGE: &str = "/_workitems/edit/";

/// Placeholder for the number in a pattern.
const ID: &str = "{id}";

/// All numbers of a line, in order. `listed`: bare numbers are items on any host.
pub fn mentions(line: &str, rules: &Rules, listed: bool) -> Vec<Mention> {
    let mut found: Vec<Mention> = keys(line, rules);
    if rules.numbers != Numbers::Nothing {
        found.extend(numbers(line, rules, listed));
    }
    for one in &rules.patterns {
        let mentions = pattern(line, one, Form::Pattern).into_iter();
        found.extend(mentions.filter_map(|mention| {
            let item = if rules.keys.is_empty() {
                Some(mention.item)
            } else {
                // The number within the project, which is not the tracker's own.
                rules.keys.numbered(mention.item)
            };
            Some(Mention { item: item?, ..mention })
        }));
    }
    // A pattern such as `Fix #{id}` is more specific than the number inside it.
    found.sort_unstable_by_key(|mention| (mention.end, mention.start));
    found.dedup_by_key(|mention| mention.end);
    // `[AB#12](…/_workitems/edit/12)` is one mention.
    found.dedup_by(|next, before| next.form == Form::BoardsPage && next.item == before.item);
    found
}

fn numbers(line: &str, rules: &Rules, listed: bool) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let bare = rules.numbers == Numbers::Items || listed;
    // `github.com/contoso/shop/issues/` belongs to `contoso/shop`.
    let own = rules
        .issue_pages
        .as_deref()
        .and_then(|pages| pages.split_once('/').map(|(_, path)| path.trim_end_matches("/issues/")));
    for (at, _) in line.match_indices('#') {
        found.extend(hash(line, at, bare, own));
    }
    if bare {
        found.extend(pattern(line, "gh-{id}", Form::Number));
        for form in ["GitHub issue {id}", "fix issue {id}", "fixes issue {id}", "fixed issue {id}"]
        {
            found.extend(pattern(line, form, Form::Number));
        }
        let in_brackets = pattern(line, "(issue {id}", Form::Number).into_iter();
        found.extend(in_brackets.map(|mention| Mention { start: mention.start + 1, ..mention }));
        let pages = rules.issue_pages.iter();
        found.extend(pages.flat_map(|pages| address(line, pages, Form::Number)));
    }
    found.extend(pattern(line, "work item {id}", Form::Number));
    found.extend(address(line, BOARDS_PAGE, Form::BoardsPage));
    found
}

/// Keys of items, also in the addresses of their pages.
fn keys(line: &str, rules: &Rules) -> Vec<Mention> {
    let mention = |(at, end, item): (usize, usize, i64)| {
        let word = line[..at].rfind(is_before_word).map_or(0, |before| before + 1);
        let start = if line[word..at].contains("://") { word } else { at };
        Mention { start, end, item, form: Form::Key }
    };
    rules.keys.find(line).into_iter().map(mention).collect()
}

/// Characters that may precede an address.
fn is_before_word(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '(' | '[' | '<' | '"')
}

/// The number after the `#` at `at`.
fn hash(line: &str, at: usize, bare: bool, own: Option<&str>) -> Option<Mention> {
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
    // `contoso/shop#12` in the repository of that name.
    if let Some(start) = own.and_then(|own| own_name(before, own)).filter(|_| bare) {
        return Some(Mention { start, end, item, form: Form::Number });
    }
    // `owner/name#12`, `C#7` and anchors of addresses.
    let glued = before
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '&' | '#'));
    (bare && !glued).then_some(Mention { start: at, end, item, form: Form::Number })
}

/// Where the repository's own name begins, if a text ends with it.
fn own_name(before: &str, own: &str) -> Option<usize> {
    let start = before.len().checked_sub(own.len())?;
    let (rest, name) = before.split_at_checked(start)?;
    let whole = !rest.ends_with(|c: char| c.is_alphanumeric() || "/-_.".contains(c));
    (whole && !own.is_empty() && name.eq_ignore_ascii_case(own)).then_some(start)
}

/// Numbers at the end of addresses that contain this text in lower case.
fn address(line: &str, page: &str, form: Form) -> Vec<Mention> {
    let lower = line.to_ascii_lowercase();
    let mention = |(at, _): (usize, &str)| {
        let rest = &line[at + page.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let item = rest[..digits].parse::<i64>().ok().filter(|item| *item > 0)?;
        let start = line[..at].rfind(is_before_word).map_or(0, |before| before + 1);
        // A comment of the item, such as `…/12#issuecomment-7`, is another target.
        let is_part = rest[digits..].starts_with(['#', '/']);
        (!is_part).then_some(Mention { start, end: at + page.len() + digits, item, form })
    };
    lower.match_indices(page).filter_map(mention).collect()
}

/// Occurrences of a text with `{id}` in it, case-insensitive.
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
        let runs_on = tail.is_empty() && runs_on(after);
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
