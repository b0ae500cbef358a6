//! Item numbers in commit messages.
//!
//! A number links where the message says that the commit is about the item: in the subject, after a
//! word such as `Fixes` or `Refs`, at the beginning of a line, in a list after one of these. Items
//! that are only told about (`since #12`, `follow-up to #12`, `as in #12`) are not linked.

use super::mention::{Form, Mention, mentions};
use super::phrases::{BELONGS, KEYWORDS, OTHERS, PURPOSES, RELATED, Said};
use super::{Link, Reason, Rules, branch};

/// A commit as its message tells it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Commit<'a> {
    /// First line.
    pub subject: &'a str,
    /// The rest.
    pub body: &'a str,
    /// Has it more than one parent?
    pub merge: bool,
}

/// The items that a commit names, each once with its strongest reason, in the order of their numbers.
pub fn links(commit: Commit<'_>, rules: &Rules) -> Vec<Link> {
    if is_revert(commit.subject) {
        return Vec::new();
    }
    let merged = branch::merged(commit.subject).filter(|_| commit.merge);
    // The main branch of a fork comes as a pull request.
    let by_request = pull_request(commit).is_some();
    if !by_request && merged.is_some_and(branch::is_main) {
        return Vec::new();
    }
    let mut found: Vec<Named> = Vec::new();
    let items = merged.map(branch::items).unwrap_or_default();
    found.extend(items.into_iter().map(|item| Named::plain(item, Reason::Branch)));
    let place = |place, above| Line { place, above, rules };
    found.extend(place(Place::Subject, "").links(commit.subject));
    let (mut listed, mut lone, mut above) = (false, Vec::new(), "");
    for line in commit.body.lines() {
        let lower = line.trim().to_ascii_lowercase();
        if quotes_another(&lower) {
            continue;
        }
        // The list may stand on the line of its heading or below it.
        let heading = lower.starts_with("related work item") || lower.starts_with("work item");
        listed = heading || (listed && starts_with_number(&lower));
        let here = place(if listed { Place::Listed } else { Place::Body }, above);
        above = if lower.ends_with(char::is_alphabetic) { line } else { "" };
        found.extend(here.links(line));
        lone.extend(here.lone(line));
    }
    // Beside a subject that names no number, a line of numbers alone is the item's; elsewhere it is
    // a list of what else to read.
    if found.is_empty() && !commit.subject.contains('#') {
        found = lone;
    }
    // Beside the item that it fixes, a message tells of others.
    if found.iter().any(|named| named.settles) {
        found.retain(|named| !named.in_passing);
    }
    let mut found: Vec<Link> = found.into_iter().map(|named| named.link).collect();
    found.sort_unstable();
    found.dedup_by_key(|link| link.item);
    found
}

/// The pull request that a commit merges, if its subject is one of those that hosts write.
pub fn pull_request(commit: Commit<'_>) -> Option<i64> {
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        text[..digits].parse().ok()
    };
    let subject = commit.subject;
    // Azure Repos: "Merged PR 55: title", "Merge pull request 55 from …"; GitHub: "… #55 from …".
    for start in ["Merged PR ", "Merge pull request #", "Merge pull request ", "Merge PR #"] {
        if let Some(rest) = subject.strip_prefix(start) {
            return number(rest);
        }
    }
    // A squashed one: "title (#55)".
    let inside = subject.trim_end().strip_suffix(')')?.rsplit_once("(#")?.1;
    let plain = !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit());
    if plain { inside.parse().ok() } else { None }
}

/// As git writes it, or with the commits by name (`Reverts r23190-r23187`, `Revert 1a2b3c4`); somebody
/// who takes back something to fix another thing says it otherwise.
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

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lines that tell of another commit or pull request, and boxes of a template that nobody ticked.
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

/// Where a line stands.
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
    /// `Fixes AB#123`: the message has its item.
    settles: bool,
    /// `AB#123` in the middle of a sentence.
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
    /// The line before, if its sentence goes on here.
    above: &'a str,
    rules: &'a Rules,
}

impl Line<'_> {
    fn links(&self, line: &str) -> Vec<Named> {
        let mut links = Vec::new();
        let mut earlier: Option<(usize, Option<Reason>)> = None;
        for mention in mentions(line, self.rules, self.place == Place::Listed) {
            // "Fixes #1, #2 and #3": what is said of the first holds for the whole list.
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
        if matches!(mention.form, Form::Boards | Form::BoardsPage) {
            let said = self.said(&line[..mention.start]);
            named.settles = said.ends_with(KEYWORDS);
            named.in_passing = self.place == Place::Body
                && !(named.settles || follows || said.is_start() || said.ends_with(BELONGS));
        }
        named
    }

    /// What is said before a number, if need be on the line above.
    fn said(&self, before: &str) -> Said {
        let said = Said::before(before);
        if said.is_start() { Said::before(self.above) } else { said }
    }

    /// The numbers of a line that holds nothing else.
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

    /// Why the number at this place is a link; none if it is not.
    fn reason(&self, line: &str, mention: &Mention) -> Option<Reason> {
        let (before, after) = (&line[..mention.start], &line[mention.end..]);
        if matches!(mention.form, Form::Boards | Form::BoardsPage) {
            let related = self.said(before).ends_with(RELATED);
            return Some(if related { Reason::Related } else { Reason::Boards });
        }
        if is_count(after) {
            return None;
        }
        if self.place == Place::Listed {
            return Some(Reason::RelatedItems);
        }
        let weak = if mention.form == Form::Pattern { Reason::Pattern } else { Reason::Number };
        // "Crash on save (#34)" says nothing about the number, so what stands before does not matter.
        if let Some(rest) = after_brackets(before, after) {
            let ends_the_line = rest.trim_end_matches(['.', ' ']).is_empty();
            // Hosts append the number of the pull request.
            let appended = self.rules.appended_pull_requests && mention.form == Form::Number;
            if ends_the_line || self.place == Place::Subject {
                return (!(ends_the_line && appended)).then_some(weak);
            }
        }
        let said = self.said(before);
        if said.denied || said.ends_with(OTHERS) {
            return None;
        }
        if said.ends_with(RELATED) {
            return Some(Reason::Related);
        }
        if said.ends_with(KEYWORDS) {
            return Some(Reason::Keyword);
        }
        (self.place == Place::Subject || said.ends_with(BELONGS)).then_some(weak)
    }
}

/// What follows the brackets around a number, or around a list that it begins.
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

/// `, `, ` and `, `) (and `; brackets alone enclose another thing, such as a pull request.
fn is_list_gap(gap: &str) -> bool {
    let mut words = gap.split([',', '&', '+', '/', ' ', '(', ')']).filter(|word| !word.is_empty());
    let joined = !gap.contains(['(', ')']) || gap.contains("and");
    gap.len() <= 12 && joined && words.all(|word| matches!(word, "and" | "or" | "AND"))
}

/// Nothing follows but more numbers.
fn holds_numbers_only(after: &str) -> bool {
    after.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '#' | '.' | ')' | ']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixes::Numbers;
    use proptest::prelude::*;

    fn rules(numbers: Numbers) -> Rules {
        Rules {
            numbers,
            issue_pages: Some("github.com/contoso/shop/issues/".to_owned()),
            patterns: Vec::new(),
            appended_pull_requests: false,
        }
    }

    fn commit(message: &str) -> Commit<'_> {
        let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
        Commit { subject, body, merge: subject.starts_with("Merge") }
    }

    fn of(message: &str, numbers: Numbers) -> Vec<(i64, Reason)> {
        let found = links(commit(message), &rules(numbers));
        found.into_iter().map(|link| (link.item, link.reason)).collect()
    }

    #[test]
    fn messages_name_items_in_the_ways_people_have() {
        use Reason::{Boards, Branch, Keyword, Number, Related, RelatedItems};
        for (message, expected) in [
            ("Fix crash on save, fixes #12", vec![(12, Keyword)]),
            ("Fixes #12, #13 and #14", vec![(12, Keyword), (13, Keyword), (14, Keyword)]),
            ("AB#77 crash on save", vec![(77, Boards)]),
            (
                "Crash on save\n\nRelated work items: #1, #22",
                vec![(1, RelatedItems), (22, RelatedItems)],
            ),
            (
                "Merged PR 55: Crash on save\n\nText.\n\nRelated work items: #123",
                vec![(123, RelatedItems)],
            ),
            (
                "Crash on save\n\nRelated work items:\n- #41\n- #42\n\nSee #7 of 9",
                vec![(41, RelatedItems), (42, RelatedItems)],
            ),
            ("Merge branch 'bugfix/812-save' into main", vec![(812, Branch)]),
            ("#812: crash on save", vec![(812, Number)]),
            ("Crash on save (fixes #812)", vec![(812, Keyword)]),
            ("Crash on save (#812).", vec![(812, Number)]),
            ("Crash in the test, not on save (#812)", vec![(812, Number)]),
            ("Crash on save (#812, #813)", vec![(812, Number), (813, Number)]),
            ("Resolved: #31", vec![(31, Keyword)]),
            ("[Fix #31] Crash on save", vec![(31, Keyword)]),
            ("gh-31: Crash on save", vec![(31, Number)]),
            ("Crash\n\n* [x] Closes #31", vec![(31, Keyword)]),
            ("Crash\n\nRefs #31, #32.", vec![(31, Number), (32, Number)]),
            ("Crash\n\nThis is a partial fix for issue #31", vec![(31, Keyword)]),
            ("Crash\n\nRelates to #31", vec![(31, Related)]),
            ("Crash\n\nA step toward fixing #31", vec![(31, Related)]),
            ("Crash\n\nRelated to [AB#31](https://dev.invalid)", vec![(31, Related)]),
            ("Crash (close #31) (and #32)", vec![(31, Keyword), (32, Keyword)]),
            ("Crash\n\nFixes https://github.com/contoso/shop/issues/31.", vec![(31, Keyword)]),
            ("Crash\n\nFixes\n#31", vec![(31, Keyword)]),
            ("Crash\n\nRelated to\n[AB#31](https://dev.invalid)", vec![(31, Related)]),
            ("Crash\n\nhttps://dev.azure.com/c/Shop/_workitems/edit/31/", vec![]),
            ("Crash\n\nFixes https://dev.azure.com/c/Shop/_workitems/edit/31", vec![(31, Boards)]),
            ("Crash\n\nWill be there with\n[AB#30].\nFixes [AB#31]", vec![(31, Boards)]),
            ("Crash\n\nAs agreed in [AB#30] the sum is right.\nFixes [AB#31]", vec![(31, Boards)]),
            ("Revert two changes\n\nFixes #31, and reverts #30.", vec![(31, Keyword)]),
            ("Crash on save\n\n#31", vec![(31, Number)]),
            ("Crash on save in the\nsecond tab (#31).", vec![(31, Number)]),
        ] {
            assert_eq!(of(message, Numbers::Items), expected, "{message}");
        }
    }

    #[test]
    fn what_only_looks_like_a_link_is_none() {
        for message in [
            "Merged PR 55: Crash on save",
            "Merge pull request #55 from ann/topic",
            "Step #5 of 10",
            "Attempt #5",
            "Part #5/10 of the move",
            "Revert \"Fix crash, fixes #12\"\n\nThis reverts commit abc. Fixes #12",
            "Merge branch 'main' into bugfix/812-save",
            "owner/name#12 is related",
            "Use C#7 features",
            "See https://example.invalid/page#12",
            "Colour #123abc for links",
            "Follow-up\n\nFollow-up to #12",
            "PR #12 left this behind",
            "Crash\n\nIn #12 the file was moved, and since #13 it is read.",
            "Crash\n\nThis does not fix #12",
            "Crash\n\nIt was added in #11 to fix #12",
            "Crash\n\nFixes https://github.com/contoso/other/issues/12",
            "Crash\n\nSee https://github.com/contoso/shop/issues/12",
            "Reverts r23190-r23187 because of #12",
            "Revert changes made in r21251 (#12)",
            "Revert 1a2b3c4: fixes #12",
            "Crash\n\n* [ ] Closes #12",
            "Crash\n\n* #12 broke #13",
            "Crash in PR #11\n\nReferences:\n#12 #13",
            "Crash\n\nRevert \"Right sum (#12)\"",
            "Crash\n\nThese are unused after PR #12 and #13.",
        ] {
            assert_eq!(of(message, Numbers::Items), vec![], "{message}");
        }
        let squashed = commit("Crash on save (#34)");
        let appended = Rules { appended_pull_requests: true, ..rules(Numbers::Items) };
        assert_eq!(links(squashed, &appended), vec![]);
        assert_eq!(pull_request(squashed), Some(34));
    }

    #[test]
    fn on_another_host_only_its_own_way_of_naming_items_counts() {
        assert_eq!(of("Fixes #12 and AB#13", Numbers::OtherHost), vec![(13, Reason::Boards)]);
        let listed = "Crash\n\nRelated work items: #14";
        assert_eq!(of(listed, Numbers::OtherHost), vec![(14, Reason::RelatedItems)]);
    }

    #[test]
    fn a_team_may_name_its_own_way() {
        let patterns = vec!["SHOP-{id}".to_owned(), "ticket {id}".to_owned()];
        let rules = Rules { patterns, ..rules(Numbers::OtherHost) };
        let of = |message| -> Vec<(i64, Reason)> {
            links(commit(message), &rules).into_iter().map(|l| (l.item, l.reason)).collect()
        };
        assert_eq!(of("shop-12: crash"), vec![(12, Reason::Pattern)]);
        assert_eq!(
            of("Crash\n\nFixes SHOP-12, SHOP-13"),
            vec![(12, Reason::Keyword), (13, Reason::Keyword)]
        );
        assert_eq!(of("Crash, Ticket 7"), vec![(7, Reason::Pattern)]);
        assert_eq!(of("WORKSHOP-12 and SHOP-12b and SHOP-"), vec![]);
        assert_eq!(of("Crash\n\nAs in SHOP-12 the sum is wrong"), vec![]);
    }

    #[test]
    fn pull_requests_are_known_by_the_subjects_that_hosts_write() {
        for (subject, expected) in [
            ("Merged PR 55: Crash", Some(55)),
            ("Merge pull request 56 from a/b into main", Some(56)),
            ("Merge pull request #57 from ann/topic", Some(57)),
            ("Crash on save (#58)", Some(58)),
            ("Crash on save (fixes #58)", None),
            ("Crash on save", None),
            ("(#)", None),
        ] {
            assert_eq!(pull_request(commit(subject)), expected, "{subject}");
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read_and_each_item_stands_once(
            subject in ".{0,80}", body in "(?s).{0,300}", pattern in ".{0,6}\\{id\\}.{0,3}"
        ) {
            let commit = Commit { subject: &subject, body: &body, merge: false };
            let rules = Rules { patterns: vec![pattern], ..rules(Numbers::Items) };
            let found = links(commit, &rules);
            let _any = pull_request(commit);
            prop_assert!(found.windows(2).all(|pair| pair[0].item < pair[1].item));
        }

        #[test]
        fn an_item_named_by_keyword_is_found_whatever_stands_around(
            before in "[a-zA-Z ]{0,40}", after in "[ .,;)]{1}[a-z ]{0,40}", item in 1i64..1_000_000
        ) {
            let message = format!("{before}\n\nFixes #{item}{after}");
            prop_assert!(of(&message, Numbers::Items).contains(&(item, Reason::Keyword)));
        }
    }
}
