//! Item numbers in commit messages.
//!
//! A number is a link if the message says that the commit is about the item: in the subject, after
//! a word such as `Fixes` or `Refs`, at the beginning of a line, in a list after one of these.
//! Items that are only mentioned (`since #12`, `follow-up to #12`, `as in #12`) are not linked.

use super::mention::{Form, Mention, mentions};
use super::phrases::{
    BELONGS, KEYWORDS, NOUNS, OTHERS, POINTERS, PURPOSES, REFERENCES, RELATED, REQUESTS, Said,
};
use super::{Link, Numbers, Reason, Rules, branch};

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
    if is_revert(commit.subject) || is_release(commit.subject) {
        return Vec::new();
    }
    let merged = branch::merged(commit.subject).filter(|_| commit.merge);
    // The main branch of a fork comes as a pull request.
    let by_request = pull_request(commit).is_some() || commit.body.contains("\nSee merge request ");
    let is_other = |name| branch::is_main(name) || branch::is_update(commit.subject);
    if !by_request && merged.is_some_and(is_other) {
        return Vec::new();
    }
    let mut found: Vec<Named> = Vec::new();
    let items = merged.map(|name| of_branch(name, rules)).unwrap_or_default();
    found.extend(items.into_iter().map(|item| Named::plain(item, Reason::Branch)));
    found.extend(Line { place: Place::Subject, above: "", rules }.links(commit.subject));
    // The subject is the host's, and its number is the pull request's.
    let is_merged_request = commit.merge && pull_request(commit).is_some();
    let body = Body::read(commit.body, rules);
    found.extend(body.named);
    // If the subject names no number, a line of numbers only is the item's; elsewhere it is a list
    // of references.
    if found.is_empty() && (is_merged_request || !commit.subject.contains('#')) {
        found = body.lone;
    }
    // Azure DevOps lists every item that the text mentions.
    let is_listed = |named: &Named| named.link.reason == Reason::RelatedItems;
    let is_pointer = |named: &Named| is_listed(named) && body.pointed_to.contains(&named.link.item);
    if found.iter().any(|named| is_listed(named) && !is_pointer(named)) {
        found.retain(|named| !is_pointer(named));
    }
    // If a message names the item it fixes, others are only mentioned.
    if found.iter().any(|named| named.settles) {
        found.retain(|named| !named.in_passing);
    }
    let mut found: Vec<Link> = found.into_iter().map(|named| named.link).collect();
    found.sort_unstable();
    found.dedup_by_key(|link| link.item);
    found
}

/// The items in the body of a message.
#[derive(Default)]
struct Body {
    named: Vec<Named>,
    /// On lines of numbers only.
    lone: Vec<Named>,
    /// `see #12`.
    pointed_to: Vec<i64>,
}

impl Body {
    fn read(body: &str, rules: &Rules) -> Self {
        let mut found = Self::default();
        let (mut listed, mut above) = (false, "");
        for line in body.lines() {
            let lower = line.trim().to_ascii_lowercase();
            if quotes_another(&lower) {
                continue;
            }
            // The list may be on the line of its heading or below it.
            let heading = lower.starts_with("related work item") || lower.starts_with("work item");
            listed = heading || (listed && starts_with_number(&lower));
            let here =
                Line { place: if listed { Place::Listed } else { Place::Body }, above, rules };
            above = if lower.ends_with(char::is_alphabetic) { line } else { "" };
            found.named.extend(here.links(line));
            found.lone.extend(here.lone(line));
            found.pointed_to.extend(here.pointed_to(line));
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

/// The pull request that a commit merges, if a host wrote the subject.
pub fn pull_request(commit: Commit<'_>) -> Option<i64> {
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse().ok()
    };
    let subject = commit.subject;
    // Azure Repos: "Merged PR 55: title", "Merge pull request 55 from …"; GitHub: "… #55 from …".
    // Bots: "Auto merge of #55 - …", "Merge #55".
    for start in [
        "Merged PR ",
        "Merge pull request #",
        "Merge pull request ",
        "Merge PR #",
        "Auto merge of #",
        "auto merge of #",
        "Rollup merge of #",
        "Merge #",
    ] {
        if let Some(rest) = subject.strip_prefix(start) {
            return number(rest);
        }
    }
    appended_pull_request(subject)
}

/// A squashed one: "title (#55)".
pub fn appended_pull_request(subject: &str) -> Option<i64> {
    let inside = subject.trim_end().strip_suffix(')')?.rsplit_once("(#")?.1;
    if is_digits(inside) { inside.parse().ok() } else { None }
}

/// As git writes it, or with the commits by name (`Reverts r23190-r23187`, `Revert 1a2b3c4`);
/// reverting something to fix another thing is phrased differently.
fn is_revert(subject: &str) -> bool {
    let lower = subject.to_lowercase();
    let Some(rest) = ["reverts", "reverted", "revert"].iter().find_map(|w| lower.strip_prefix(w))
    else {
        return false;
    };
    let rest = rest.trim_start_matches(" changes").trim_start_matches(" made in");
    let rest = rest.trim_start_matches(" commit");
    let name = rest.trim_start().split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
    let is_revision = name.strip_prefix('r').is_some_and(is_digits);
    let is_hash = name.len() >= 7
        && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        && name.bytes().any(|byte| byte.is_ascii_digit());
    is_revision
        || is_hash
        || rest.starts_with([':', '"'])
        || rest.starts_with(" \"")
        || rest.starts_with(" '")
}

/// `Release 1.2.3`, `Bump version to 1.2.3`: it names what others fixed.
fn is_release(subject: &str) -> bool {
    let lower = subject.to_lowercase();
    if lower.starts_with("[maven-release-plugin]") {
        return true;
    }
    let starts = ["release ", "bump version ", "version bump ", "prepare release ", "prepare for "];
    let Some(rest) = starts.iter().find_map(|start| lower.strip_prefix(start)) else {
        return false;
    };
    let is_version = |word: &str| {
        let word = word.trim_start_matches('v');
        word.contains('.')
            && word.split('.').all(|part| part.starts_with(|c: char| c.is_ascii_digit()))
    };
    rest.split_whitespace().take(4).any(is_version)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lines about another commit or pull request, and unticked boxes of a template.
fn quotes_another(lower: &str) -> bool {
    let bare = lower.trim_start_matches(['*', '-', ' ']);
    bare.starts_with("[ ]")
        || [
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

/// The context of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Subject,
    Body,
    /// Under `Related work items`.
    Listed,
}

/// An item that a line names.
#[derive(Debug, Clone, Copy)]
struct Named {
    link: Link,
    /// `Fixes #123`: the message names its item.
    settles: bool,
    /// In the middle of a sentence about something else.
    in_passing: bool,
}

impl Named {
    fn plain(item: i64, reason: Reason) -> Self {
        Self { link: Link { item, reason }, settles: false, in_passing: false }
    }
}

/// How one line is read.
struct Line<'a> {
    place: Place,
    /// The previous line, if its sentence continues here.
    above: &'a str,
    rules: &'a Rules,
}

impl Line<'_> {
    fn links(&self, line: &str) -> Vec<Named> {
        let mut links = Vec::new();
        let mut earlier: Option<(usize, Option<Reason>)> = None;
        for mention in mentions(line, self.rules, self.place == Place::Listed) {
            // "Fixes #1, #2 and #3": the first keyword applies to the whole list.
            let inherited = earlier.filter(|(end, _)| {
                *end <= mention.start && is_list_gap(&line[*end..mention.start])
            });
            let reason = match inherited {
                Some((_, reason)) if mention.form != Form::Boards => reason,
                // "Added in #1 to fix #2" is history.
                _ if earlier.is_some_and(|(end, reason)| {
                    reason.is_none()
                        && end <= mention.start
                        && Said::before(&line[end..mention.start]).ends_with(PURPOSES)
                }) =>
                {
                    None
                }
                _ => self.reason(line, &mention),
            };
            let follows = inherited.is_some();
            earlier = Some((mention.end, reason));
            links.extend(reason.map(|reason| self.named(line, &mention, (reason, follows))));
        }
        links
    }

    fn named(&self, line: &str, mention: &Mention, (reason, follows): (Reason, bool)) -> Named {
        let mut named = Named::plain(mention.item, reason);
        let said = self.words_before(&line[..mention.start]);
        named.settles = said.ends_with(KEYWORDS);
        let in_passing = match mention.form {
            Form::Boards | Form::BoardsPage => !(said.is_start() || said.ends_with(BELONGS)),
            // "Issue #12 will take care of the rest."
            _ => {
                let goes_on = line[mention.end..].contains(char::is_alphanumeric);
                (said.ends_with(NOUNS) && goes_on) || said.ends_with(REFERENCES)
            }
        };
        named.in_passing = self.place == Place::Body && in_passing && !(named.settles || follows);
        named
    }

    /// The words before a number, if necessary on the previous line.
    fn words_before(&self, before: &str) -> Said {
        let said = Said::before(before);
        if said.is_start() { Said::before(self.above) } else { said }
    }

    /// The items that a line sends the reader to.
    fn pointed_to(&self, line: &str) -> Vec<i64> {
        let points =
            |mention: &Mention| self.words_before(&line[..mention.start]).ends_with(POINTERS);
        let mentions = mentions(line, self.rules, true).into_iter();
        mentions.filter(points).map(|mention| mention.item).collect()
    }

    /// The numbers of a line that contains nothing else.
    fn lone(&self, line: &str) -> Vec<Named> {
        let link = |mention: &Mention| Named::plain(mention.item, Reason::Number);
        match mentions(line, self.rules, false).as_slice() {
            all @ [first, ..]
                if Said::before(&line[..first.start]).is_start()
                    && holds_numbers_only(&line[first.end..]) =>
            {
                all.iter().map(link).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Why the number at this position is a link; `None` if it is not.
    fn reason(&self, line: &str, mention: &Mention) -> Option<Reason> {
        let (before, after) = (&line[..mention.start], &line[mention.end..]);
        if matches!(mention.form, Form::Boards | Form::BoardsPage) {
            let said = self.words_before(before);
            let reason = if said.ends_with(RELATED) { Reason::Related } else { Reason::Boards };
            return (!said.denied && !said.ends_with(OTHERS)).then_some(reason);
        }
        if is_count(after) {
            return None;
        }
        if self.place == Place::Listed {
            return Some(Reason::RelatedItems);
        }
        let weak = match mention.form {
            Form::Pattern => Reason::Pattern,
            Form::Key => Reason::Key,
            _ => Reason::Number,
        };
        if names_branch_of_request(before) {
            return Some(Reason::Branch);
        }
        // "Crash on save (#34)" says nothing about the number, so the words before it do not
        // matter.
        if let Some(rest) = after_brackets(before, after) {
            let ends_the_line = rest.trim_end_matches(['.', ' ']).is_empty();
            // Hosts append the number of the pull request.
            let appended = self.rules.appended_pull_requests && mention.form == Form::Number;
            if ends_the_line || self.place == Place::Subject {
                return (!(ends_the_line && appended)).then_some(weak);
            }
        }
        let said = self.words_before(before);
        // A key, or a configured form, is never a pull request.
        let is_request = mention.form == Form::Number && said.ends_with(REQUESTS);
        if said.denied || is_request || said.ends_with(OTHERS) {
            return None;
        }
        if said.ends_with(RELATED) {
            return Some(Reason::Related);
        }
        if said.ends_with(KEYWORDS) {
            return Some(Reason::Keyword);
        }
        // A line of its own, such as `LP: #12`, or an entry in a list of changes.
        let has_own_form = matches!(mention.form, Form::Key | Form::Pattern);
        let begins_line = has_own_form && (said.is_start() || is_list_mark(before));
        let belongs = self.place == Place::Subject || said.ends_with(BELONGS) || begins_line;
        belongs.then_some(weak)
    }
}

/// `- `, `* [`: what precedes the first word in a list of changes.
fn is_list_mark(before: &str) -> bool {
    let marks = before.trim();
    !marks.is_empty() && marks.chars().all(|c| matches!(c, '-' | '*' | '+' | '[' | ' '))
}

/// `Closes #193 from ann/SHOP-12`: a script that merges pull requests writes it.
fn names_branch_of_request(before: &str) -> bool {
    let Some((said, branch)) = before.rsplit_once(" from ") else { return false };
    let closes = said.rsplit_once('#').is_some_and(|(word, number)| {
        is_digits(number) && word.trim().eq_ignore_ascii_case("closes")
    });
    closes && branch.contains('/') && !branch.contains(' ')
}

/// The text after the brackets around a number, or around a list that it begins.
fn after_brackets<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    let (inside, rest) = after.split_once(')').filter(|_| before.ends_with('('))?;
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'#');
    let mut words = inside.split([',', ' ']).filter(|word| !word.is_empty());
    words.all(|word| is_number(word) || matches!(word, "and" | "&")).then_some(rest)
}

/// `#5 of 10`, `#5/10`.
fn is_count(rest: &str) -> bool {
    let rest = rest.trim_start();
    let after = rest.strip_prefix("of ").or_else(|| rest.strip_prefix('/')).unwrap_or("");
    after.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// `, `, ` and `, `) (and `; brackets alone enclose something else, such as a pull request.
fn is_list_gap(gap: &str) -> bool {
    let mut words = gap.split([',', '&', '+', '/', ' ', '(', ')']).filter(|word| !word.is_empty());
    let joined = !gap.contains(['(', ')']) || gap.contains("and");
    gap.len() <= 12 && joined && words.all(|word| matches!(word, "and" | "or" | "AND"))
}

/// Whether only more numbers follow.
fn holds_numbers_only(after: &str) -> bool {
    after.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '#' | '.' | ')' | ']'))
}
