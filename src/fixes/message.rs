//! Item numbers in commit messages.

use super::{Link, Numbers, Reason, branch};

/// A commit as its message tells it.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'a> {
    /// First line.
    pub subject: &'a str,
    /// The rest.
    pub body: &'a str,
    /// Has it more than one parent?
    pub merge: bool,
}

/// Words that say that the commit settles the item.
const KEYWORDS: &[&str] = &[
    "fix",
    "fixes",
    "fixed",
    "close",
    "closes",
    "closed",
    "resolve",
    "resolves",
    "resolved",
    "implements",
    "implement",
    "completes",
    "complete",
];

/// Words before a number that make it something else than an item.
const OTHER_THINGS: &[&str] = &[
    "pr",
    "prs",
    "pull",
    "request",
    "requests",
    "mr",
    "build",
    "step",
    "part",
    "attempt",
    "try",
    "case",
    "test",
    "line",
    "page",
    "chapter",
    "figure",
    "cve",
    "rfc",
    "pep",
    "version",
    "round",
    "phase",
    "item",
    "example",
    "comment",
    "discussion",
    "reverts",
    "revert",
];

/// The items that a commit names, each once with its strongest reason, in the order of their numbers.
pub fn links(commit: Commit<'_>, numbers: Numbers) -> Vec<Link> {
    if is_revert(commit.subject) {
        return Vec::new();
    }
    let merged = branch::merged(commit.subject).filter(|_| commit.merge);
    if merged.is_some_and(branch::is_main) {
        return Vec::new();
    }
    let mut found: Vec<Link> = Vec::new();
    let items = merged.map(branch::items).unwrap_or_default();
    found.extend(items.into_iter().map(|item| Link { item, reason: Reason::Branch }));
    found.extend(in_line(commit.subject, numbers, true));
    let mut listed = false;
    for line in commit.body.lines() {
        let lower = line.trim().to_ascii_lowercase();
        if quotes_another(&lower) {
            continue;
        }
        // The list may stand on the line of its heading or below it.
        let heading = lower.starts_with("related work item") || lower.starts_with("work item");
        listed = heading || (listed && starts_with_number(&lower));
        let here = in_line(line, if listed { Numbers::Items } else { numbers }, false);
        found.extend(here.map(|link| {
            if listed {
                Link { reason: Reason::RelatedItems.min(link.reason), ..link }
            } else {
                link
            }
        }));
    }
    found.sort_unstable();
    found.dedup_by_key(|link| link.item);
    found
}

fn is_revert(subject: &str) -> bool {
    subject.starts_with("Revert ")
        || subject.starts_with("revert:")
        || subject.starts_with("Revert:")
}

/// Lines that tell of another commit or pull request.
fn quotes_another(lower: &str) -> bool {
    [
        "reverts ",
        "this reverts",
        "cherry-picked from",
        "(cherry picked from",
        "co-authored-by",
        "reviewed-on",
        "see also",
        "follow-up to",
        "follow up to",
        "followup to",
        "introduced in",
        "introduced by",
        "regression from",
        "caused by",
    ]
    .iter()
    .any(|start| lower.starts_with(start))
}

fn starts_with_number(lower: &str) -> bool {
    let bare = lower.trim_start_matches(['-', '*', ' ', '\t']);
    bare.strip_prefix("ab").unwrap_or(bare).starts_with('#')
}

/// The numbers of one line with what they are. `subject`: is it a first line?
fn in_line(line: &str, numbers: Numbers, subject: bool) -> impl Iterator<Item = Link> {
    let mut links = Vec::new();
    let mut keyword = false;
    for (at, _) in line.match_indices('#') {
        let (before, after) = (&line[..at], &line[at + 1..]);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(item) = after[..digits].parse::<i64>() else { continue };
        let (rest, glued) = (&after[digits..], before.chars().next_back());
        if item == 0 || rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let boards = before.len() >= 2
            && before.is_char_boundary(before.len() - 2)
            && before[before.len() - 2..].eq_ignore_ascii_case("ab");
        if boards {
            links.push(Link { item, reason: Reason::Boards });
            continue;
        }
        // `owner/name#12` and `C#7` and anchors of addresses.
        if glued.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | '&')) {
            continue;
        }
        if numbers == Numbers::OtherHost
            || is_count(rest)
            || appended_pull_request(before, rest, subject)
        {
            continue;
        }
        let word = last_word(before);
        if OTHER_THINGS.contains(&word.as_str()) {
            continue;
        }
        // "Fixes #1, #2 and #3": the keyword holds for the whole list.
        let in_list = matches!(word.as_str(), "" | "and")
            && before.trim_end().ends_with([',', '&', 'd'])
            && keyword;
        keyword = KEYWORDS.contains(&word.as_str()) || in_list;
        links.push(Link { item, reason: if keyword { Reason::Keyword } else { Reason::Number } });
    }
    links.into_iter()
}

/// `#5 of 10`, `#5/10`.
fn is_count(rest: &str) -> bool {
    let rest = rest.trim_start();
    let after = rest.strip_prefix("of ").or_else(|| rest.strip_prefix('/')).unwrap_or("");
    after.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Hosts append the pull request's number to the subject of a squashed merge: `Fix crash (#34)`.
fn appended_pull_request(before: &str, rest: &str, subject: bool) -> bool {
    subject
        && before.ends_with('(')
        && rest.trim_end() == ")"
        && last_word(before.trim_end_matches('(')) != "fixes"
}

/// The word before a number, in lower case, without what stands between.
fn last_word(before: &str) -> String {
    let trimmed = before.trim_end_matches(|c: char| !c.is_alphanumeric());
    // A full stop ends what was said before.
    if before[trimmed.len()..].contains(['.', ';', '!', '?']) {
        return String::new();
    }
    let word = trimmed.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    if before[trimmed.len()..].contains(',') { String::new() } else { word.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(message: &str, numbers: Numbers) -> Vec<(i64, Reason)> {
        let (subject, body) = message.split_once('\n').unwrap_or((message, ""));
        let commit = Commit { subject, body, merge: subject.starts_with("Merge") };
        links(commit, numbers).into_iter().map(|link| (link.item, link.reason)).collect()
    }

    #[test]
    fn messages_name_items_in_the_ways_people_have() {
        use Reason::{Boards, Branch, Keyword, Number, RelatedItems};
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
            ("Resolved: #31", vec![(31, Keyword)]),
        ] {
            assert_eq!(of(message, Numbers::Items), expected, "{message}");
        }
    }

    #[test]
    fn what_only_looks_like_a_link_is_none() {
        for message in [
            "Crash on save (#34)",
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
        ] {
            assert_eq!(of(message, Numbers::Items), vec![], "{message}");
        }
    }

    #[test]
    fn on_another_host_only_its_own_way_of_naming_items_counts() {
        assert_eq!(of("Fixes #12 and AB#13", Numbers::OtherHost), vec![(13, Reason::Boards)]);
        let listed = "Crash\n\nRelated work items: #14";
        assert_eq!(of(listed, Numbers::OtherHost), vec![(14, Reason::RelatedItems)]);
    }

    proptest! {
        #[test]
        fn any_message_is_read_and_each_item_stands_once(subject in ".{0,80}", body in "(?s).{0,300}") {
            let commit = Commit { subject: &subject, body: &body, merge: false };
            let found = links(commit, Numbers::Items);
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
