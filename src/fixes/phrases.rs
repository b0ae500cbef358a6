//! The words before a number, and what they mean.

/// The commit resolves the item.
pub const KEYWORDS: &[&str] = &[
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "bugfix",
    "close",
    "closes",
    "closed",
    "closing",
    "resolve",
    "resolves",
    "resolved",
    "resolving",
    "implement",
    "implements",
    "implemented",
    "complete",
    "completes",
    "completed",
    "finishes",
    "fix for",
    "fixes for",
    "solve",
    "solves",
    "solved",
    "solving",
];

/// The commit belongs to the item.
pub const BELONGS: &[&str] = &[
    "ref",
    "refs",
    "references",
    "re",
    "part of",
    "work on",
    "works on",
    "progress on",
    "work for",
    "is for",
    "address",
    "addresses",
    "addressing",
    "contributes to",
    "help",
    "helps",
    "jira",
    "ticket",
    "tickets",
    "issue",
    "issues",
    "bug",
    "bugs",
    "story",
    "task",
    "defect",
];

/// The commit is related to the item in some way.
pub const RELATED: &[&str] = &[
    "relates",
    "relates to",
    "related",
    "related to",
    "related to closed",
    "related with",
    "towards",
    "toward",
    "towards fixing",
    "toward fixing",
    "towards closing",
    "toward closing",
    "towards resolving",
    "toward resolving",
];

/// The commit belongs to the item, unless it names another one that it resolves.
pub const REFERENCES: &[&str] = &["ref", "refs", "reference", "references"];

/// The item is elsewhere.
pub const POINTERS: &[&str] = &["see", "see also", "cf"];

/// State a purpose: of this commit, or of the one mentioned before.
pub const PURPOSES: &[&str] = &["to fix", "to close", "to resolve", "to address"];

/// Words between those and the number that change nothing.
const FILLERS: &[&str] = &[
    "the", "issue", "issues", "bug", "bugs", "ticket", "tickets", "gh", "github", "number", "no",
    "trac", "gitlab", "bugzilla",
];

/// Words that name an item and say nothing about what the commit does with it.
pub const NOUNS: &[&str] =
    &["ticket", "tickets", "issue", "issues", "bug", "bugs", "story", "task", "defect"];

/// The number is a pull request.
pub const REQUESTS: &[&str] =
    &["pr", "prs", "pull", "pull request", "pull requests", "mr", "merge request"];

/// The number is not an item, or the item is only mentioned.
pub const OTHERS: &[&str] = &[
    // Bots: `Auto merge of #12 - ann:branch, r=bob`, `Merge #12 #13`.
    "merge",
    "merge of",
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
    "see",
    "see also",
    "cf",
    "since",
    "after",
    "before",
    "like",
    "unlike",
    "as in",
    "as with",
    "similar to",
    "same as",
    "follow up to",
    "follow up for",
    "follow up of",
    "follow up on",
    "follow up from",
    "follow up",
    "followup to",
    "followup for",
    "followup of",
    "followup",
    "following",
    "introduced in",
    "introduced by",
    "introduced with",
    "added in",
    "added by",
    "broken by",
    "broken in",
    "regression from",
    "regression of",
    "regression in",
    "caused by",
    "in fix for",
    "in the fix for",
    "by fix for",
    "by the fix for",
    "about",
    "changed",
    "as per",
    "fixed in",
    "fixed by",
    "it for",
    "its for",
    "due to",
    "because of",
    "test for",
    "tests for",
    "test from",
    "test case for",
    "testcase for",
    "changelog for",
    "entry for",
    "entries for",
    "notes for",
    "note for",
    "news for",
    "credit for",
    "tweak",
    "tweaks",
    "tweaking",
    "exposed by",
    "revealed by",
    "uncovered by",
    "triggered by",
    "prompted by",
    "inspired by",
    "workaround",
    "workaround for",
    "works around",
    "work around",
    "split out of",
    "extracted from",
    "based on",
    "builds on",
    "depends on",
    "depended on",
    "relies on",
    "relied on",
    "blocked on",
    "blocked by",
    "waits for",
    "until",
    "supersedes",
    "superseded by",
    "duplicate of",
    "instead of",
    "thanks to",
    "reported in",
    "discussed in",
    "mentioned in",
    "described in",
];

/// The words before a number.
pub struct Said {
    /// In lower case, single spaces, without fillers at the end.
    text: String,
    /// The words are negated.
    pub denied: bool,
}

impl Said {
    pub fn before(before: &str) -> Self {
        // A full stop ends the earlier sentence.
        let sentence = before.rsplit(". ").next().unwrap_or(before);
        let sentence =
            if before.trim_end().ends_with(['.', ';', '!', '?']) { "" } else { sentence };
        // "Not generated (fix #12)": brackets have words of their own, if any.
        let sentence = match sentence.rsplit_once('(') {
            Some((_, inside)) if !inside.contains(')') && inside.contains(char::is_alphabetic) => {
                inside
            }
            _ => sentence,
        };
        let lower = sentence.to_lowercase();
        let mut words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric() && c != '\'').collect();
        words.retain(|word| !word.is_empty() && *word != "x");
        while words.len() > 1 && words.last().is_some_and(|last| FILLERS.contains(last)) {
            words.pop();
        }
        let last = &words[words.len().saturating_sub(5)..];
        let denied = last.iter().any(|word| {
            matches!(
                *word,
                "not" | "doesn't" | "don't" | "didn't" | "won't" | "would" | "never" | "without"
            )
        });
        Self { text: words.join(" "), denied }
    }

    /// Nothing precedes it: the number begins the line.
    pub fn is_start(&self) -> bool {
        self.text.is_empty()
    }

    pub fn ends_with(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| {
            self.text
                .strip_suffix(phrase)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with(' '))
        })
    }
}
