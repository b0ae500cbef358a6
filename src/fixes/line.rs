//! One line of a commit message.

use super::mention::{Form, Mention, mentions};
use super::phrases::Sense;
use super::said::Said;
use super::subject::is_digits;
use super::{Link, Reason, Rules};

/// A smaller number in a sentence counts something.
const SMALLEST_IN_TEXT: i64 = 10;

/// The context of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Subject,
    Body,
    /// Under `Related work items`.
    Listed,
}

/// An item that a line names.
#[derive(Debug, Clone, Copy)]
pub struct Named {
    pub link: Link,
    /// `Fixes #123`: the message names its item.
    pub settles: bool,
    /// In the middle of a sentence about something else.
    pub in_passing: bool,
    /// A key in a sentence, which does not begin its line.
    pub after_key: bool,
    /// `See #123`: the item may be what the commit is about, or background.
    pub points: bool,
}

impl Named {
    pub fn plain(item: i64, reason: Reason) -> Self {
        Self {
            link: Link { item, reason },
            settles: false,
            in_passing: false,
            after_key: false,
            points: false,
        }
    }
}

/// How one line is read.
pub struct Line<'a> {
    pub place: Place,
    /// The previous line, if its sentence continues here.
    pub above: &'a str,
    pub rules: &'a Rules,
}

impl Line<'_> {
    pub fn links(&self, line: &str) -> Vec<Named> {
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
                        && Said::before(&line[end..mention.start]).states_purpose()
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
        let sense = said.sense();
        named.settles = sense == Sense::Resolves;
        let in_passing = match mention.form {
            Form::Boards | Form::BoardsPage => {
                !(said.is_start() || matches!(sense, Sense::Belongs | Sense::Refers))
            }
            // "Issue #12 makes it worse."
            _ => {
                let goes_on = line[mention.end..].contains(char::is_alphanumeric);
                (said.is_noun() && goes_on) || sense == Sense::Refers
            }
        };
        named.in_passing = self.place == Place::Body && in_passing && !(named.settles || follows);
        named.points = reason == Reason::Related && sense != Sense::Relates;
        // "SHOP-12: the other half is SHOP-13"
        named.after_key = reason == Reason::Key && !(said.is_start() || follows || named.settles);
        named
    }

    /// The words before a number, if necessary on the previous line.
    fn words_before(&self, before: &str) -> Said {
        let said = Said::before(before);
        if said.is_start() { Said::before(self.above) } else { said }
    }

    /// The items that a line sends the reader to.
    pub fn pointed_to(&self, line: &str) -> Vec<i64> {
        let points =
            |mention: &Mention| self.words_before(&line[..mention.start]).sense() == Sense::Points;
        let mentions = mentions(line, self.rules, true).into_iter();
        mentions.filter(points).map(|mention| mention.item).collect()
    }

    /// The numbers of a line that contains nothing else.
    pub fn lone(&self, line: &str) -> Vec<Named> {
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
        let said = self.words_before(before);
        if matches!(mention.form, Form::Boards | Form::BoardsPage) {
            return of_boards(&said);
        }
        if is_count(after) || is_future(after) {
            return None;
        }
        if self.place == Place::Listed {
            return Some(Reason::RelatedItems);
        }
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
                return (!(ends_the_line && appended)).then_some(mention.form.reason());
            }
        }
        self.by_words(&said, mention, (before, after))
    }

    /// The same, from the words before the number.
    fn by_words(
        &self,
        said: &Said,
        mention: &Mention,
        (before, after): (&str, &str),
    ) -> Option<Reason> {
        let unless_denied = |reason| (!said.denied).then_some(reason);
        match said.sense() {
            Sense::Mention => return None,
            _ if mention.form == Form::Number && said.counts(mention.item) => return None,
            // A key, or a configured form, is never a pull request.
            Sense::Request if mention.form == Form::Number => return None,
            Sense::Tests => return Some(Reason::Test),
            Sense::Branch => return Some(Reason::Branch),
            Sense::Relates => return unless_denied(Reason::Related),
            Sense::Resolves => return unless_denied(Reason::Keyword),
            Sense::Points | Sense::Reports => {
                return unless_denied(Reason::Related).filter(|_| !said.defers);
            }
            Sense::Belongs | Sense::Refers => return unless_denied(mention.form.reason()),
            _ => {}
        }
        // A line of its own, such as `LP: #12`, or an entry in a list of changes.
        let has_own_form = matches!(mention.form, Form::Key | Form::Pattern);
        let begins_line = has_own_form && (said.is_start() || is_list_mark(before));
        if self.place == Place::Subject || begins_line {
            return Some(mention.form.reason());
        }
        let is_story = said.is_story(!after.contains(char::is_alphanumeric)) || said.defers;
        let is_large = has_own_form || mention.item >= SMALLEST_IN_TEXT;
        unless_denied(Reason::Related).filter(|_| is_large && !is_story)
    }
}

/// Azure Boards links every item that a message mentions.
fn of_boards(said: &Said) -> Option<Reason> {
    match said.sense() {
        _ if said.denied => None,
        Sense::Mention => None,
        Sense::Relates | Sense::Points => Some(Reason::Related),
        _ => Some(Reason::Boards),
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

/// `#12 will take care of the rest`.
fn is_future(rest: &str) -> bool {
    rest.starts_with(" will ") || rest.starts_with(" would ")
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
