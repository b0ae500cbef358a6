//! Item numbers in one line, in each known form.

use super::keys::runs_on;
use super::{Numbers, Reason, Rules};

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

impl Form {
    /// The reason of a link whose words say nothing more.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Boards | Self::BoardsPage => Reason::Boards,
            Self::Number => Reason::Number,
            Self::Pattern => Reason::Pattern,
            Self::Key => Reason::Key,
        }
    }
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
        found.extend(mentions.filter_map(|mut mention| {
            mention.start = address_start(line, mention.start);
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
    for (at, _) in line.match_indices('#') {
        found.extend(hash(line, at, bare, &rules.issue_pages));
    }
    if bare {
        found.extend(pattern(line, "gh-{id}", Form::Number));
        found.extend(worded(line));
    }
    for pages in &rules.issue_pages {
        let name = repository_name(pages);
        // GitLab has a path of its own.
        for folder in ["issues", "-/issues", "-/work_items"] {
            found.extend(address(line, &format!("/{name}/{folder}/"), Form::Number));
        }
    }
    found.extend(pattern(line, "work item {id}", Form::Number));
    found.extend(address(line, BOARDS_PAGE, Form::BoardsPage));
    found
}

/// `shop` of `github.com/contoso/shop/issues/`: a repository keeps its name when it moves to another
/// owner, and forks have it too.
pub(super) fn repository_name(pages: &str) -> &str {
    let path = pages.trim_end_matches("/issues/").trim_end_matches("/-");
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether two addresses of issues belong to one repository, or to it and its fork.
pub fn have_same_name(one: &str, other: &str) -> bool {
    repository_name(one) == repository_name(other)
}

/// Numbers without `#` that a word makes an item: `issue 12`, `Issue-12`, `fixes 123`, and a number
/// that begins the line: `123: Crash on save`. They begin at the digits.
fn worded(line: &str) -> Vec<Mention> {
    let digits = |c: char| c.is_ascii_digit();
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(at) = line[rest..].find(digits) {
        let start = rest + at;
        let end = line[start..].find(|c| !digits(c)).map_or(line.len(), |length| start + length);
        rest = end;
        let item = line[start..end].parse::<i64>().ok();
        let is_item = makes_item(&line[..start], &line[start..end], &line[end..]);
        let mention = |item| Mention { start, end, item, form: Form::Number };
        found.extend(item.filter(|item| *item > 0 && is_item).map(mention));
    }
    found
}

const ITEM_NOUNS: &[&str] = &["issue", "issues", "bug", "bugs", "ticket", "tickets", "defect"];
const ITEM_VERBS: &[&str] =
    &["fix", "fixes", "fixed", "close", "closes", "closed", "resolve", "resolves", "resolved"];

fn makes_item(before: &str, digits: &str, after: &str) -> bool {
    if runs_on(after) || digits.len() < 2 || digits.starts_with('0') {
        return false;
    }
    // Results of requests, such as 404, are no items.
    let is_status = digits.len() == 3 && digits.starts_with(['4', '5']);
    let ends = after.is_empty() || after.starts_with([',', '.', ':', ';', ')', ']']);
    if before.is_empty() {
        return after.starts_with(": ") && digits.len() > 2 && !is_status;
    }
    let bare = before.trim_end_matches([' ', ':', '-']);
    let gap = before.len() - bare.len();
    let start = bare.rfind(|c: char| !c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
    let word = bare.get(start..).unwrap_or_default().to_ascii_lowercase();
    let is_noun = ITEM_NOUNS.contains(&word.as_str()) && gap <= 2 && (gap > 0 || digits.len() > 2);
    let is_fix_for =
        word == "for" && bare[..start].trim_end().to_ascii_lowercase().ends_with("fix");
    let is_verb = (ITEM_VERBS.contains(&word.as_str()) || is_fix_for) && (1..=2).contains(&gap);
    is_noun || (is_verb && digits.len() > 2 && ends && !is_status)
}

/// Keys of items, also in the addresses of their pages.
fn keys(line: &str, rules: &Rules) -> Vec<Mention> {
    let mention = |(at, end, item): (usize, usize, i64)| Mention {
        start: address_start(line, at),
        end,
        item,
        form: Form::Key,
    };
    rules.keys.find(line).into_iter().map(mention).collect()
}

/// The beginning of the address that contains this place; without one, the place itself.
fn address_start(line: &str, at: usize) -> usize {
    let word = line[..at].rfind(is_before_word).map_or(0, |before| before + 1);
    if line[word..at].contains("://") { word } else { at }
}

/// Characters that may precede an address.
fn is_before_word(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '(' | '[' | '<' | '"')
}

/// The number after the `#` at `at`.
fn hash(line: &str, at: usize, bare: bool, pages: &[String]) -> Option<Mention> {
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
    if let Some(start) = pages.iter().find_map(|pages| own_name(before, pages)) {
        return Some(Mention { start, end, item, form: Form::Number });
    }
    // `owner/name#12`, `C#7` and anchors of addresses.
    let glued = before
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '&' | '#'));
    (bare && !glued).then_some(Mention { start: at, end, item, form: Form::Number })
}

/// Where the name of the items' repository begins, if a text ends with it: `contoso/shop`, `shop`.
fn own_name(before: &str, pages: &str) -> Option<usize> {
    let start = before.rfind(|c: char| !(c.is_alphanumeric() || "/-_.".contains(c)));
    let start = start.map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let name = before[start..].to_lowercase();
    let (_, path) = pages.split_once('/')?;
    let path = path.trim_end_matches("/issues/").trim_end_matches("/-");
    (!name.is_empty() && (name == path || name == repository_name(pages))).then_some(start)
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
