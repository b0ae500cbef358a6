//! What is said before a number, and what it makes of it.

/// Words that say that the commit settles the item.
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
    "solves",
];

/// Words that say that the commit belongs to the item.
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

/// Words that say that the commit has to do with the item, and not what.
pub const RELATED: &[&str] = &[
    "relates",
    "relates to",
    "related",
    "related to",
    "related to closed",
    "towards",
    "toward",
    "towards fixing",
    "toward fixing",
    "towards closing",
    "toward closing",
    "towards resolving",
    "toward resolving",
];

/// Words that tell why something was done: of this commit, or of the one that was told of before.
pub const PURPOSES: &[&str] = &["to fix", "to close", "to resolve", "to address"];

/// Words between those and the number that change nothing.
const FILLERS: &[&str] =
    &["the", "issue", "issues", "bug", "bugs", "ticket", "tickets", "gh", "github", "number", "no"];

/// Words before a number that make it something else than an item, or an item that is only told of.
pub const OTHERS: &[&str] = &[
    "pr",
    "prs",
    "pull",
    "pull request",
    "pull requests",
    "mr",
    "merge request",
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
    /// In lower case, one space between words, fillers at the end taken off.
    text: String,
    /// It is said that the commit does not do it.
    pub denied: bool,
}

impl Said {
    pub fn before(before: &str) -> Self {
        // A full stop ends what was said before.
        let sentence = before.rsplit(". ").next().unwrap_or(before);
        let sentence =
            if before.trim_end().ends_with(['.', ';', '!', '?']) { "" } else { sentence };
        let lower = sentence.to_lowercase();
        let mut words: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric() && c != '\'').collect();
        words.retain(|word| !word.is_empty() && *word != "x");
        while words.len() > 1 && words.last().is_some_and(|last| FILLERS.contains(last)) {
            words.pop();
        }
        let last = &words[words.len().saturating_sub(5)..];
        let denied = last.iter().any(|word| {
            matches!(*word, "not" | "doesn't" | "don't" | "didn't" | "won't" | "never" | "without")
        });
        Self { text: words.join(" "), denied }
    }

    /// Nothing is said: the number begins the line.
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
