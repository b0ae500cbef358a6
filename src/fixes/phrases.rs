//! Phrases before a number, and what they say about it.

/// What the words before a number say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// It is not an item, or the item is only mentioned.
    Mention,
    /// A pull request.
    Request,
    /// The commit resolves the item.
    Resolves,
    /// The commit belongs to the item.
    Belongs,
    /// The same, unless the message names another item that it resolves.
    Refers,
    /// The commit adds a test for the item.
    Tests,
    /// The commit is related to the item in some way.
    Relates,
    /// The reader is sent to the item.
    Points,
    /// The item describes the problem.
    Reports,
    /// The item is the number's branch.
    Branch,
    /// The words do not tell.
    Unclear,
}

/// The first row with a phrase at the end of the words decides.
pub const SENSES: &[(&[&str], Sense)] = &[
    (MENTIONS, Sense::Mention),
    (REQUESTS, Sense::Request),
    (TESTS, Sense::Tests),
    (RELATED, Sense::Relates),
    (KEYWORDS, Sense::Resolves),
    (POINTERS, Sense::Points),
    (REPORTS, Sense::Reports),
    (REFERENCES, Sense::Refers),
    (BELONGS, Sense::Belongs),
];

/// The commit resolves the item.
const KEYWORDS: &[&str] = &[
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
const BELONGS: &[&str] = &[
    "re",
    "part of",
    "work on",
    "works on",
    "progress on",
    "in progress",
    "work for",
    "is for",
    "updates",
    "improve",
    "improves",
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

/// The commit belongs to the item, unless it names another one that it resolves.
const REFERENCES: &[&str] = &["ref", "refs", "reference", "references"];

/// The commit is related to the item in some way.
const RELATED: &[&str] = &[
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

/// The commit adds a test for the item.
const TESTS: &[&str] = &[
    "test for",
    "tests for",
    "test from",
    "test case for",
    "testcase for",
    "test cases for",
    "test case related to",
    "tests related to",
    "test related to",
];

/// The item is elsewhere, or somebody writes about its fix.
const POINTERS: &[&str] = &[
    "see",
    "see also",
    "cf",
    "changelog for",
    "entry for",
    "entries for",
    "notes for",
    "note for",
    "news for",
];

/// The item describes the problem: if the sentence resolves the problem, it resolves the item.
const REPORTS: &[&str] = &[
    "reported in",
    "reported by",
    "reported as",
    "described in",
    "described by",
    "mentioned in",
    "shown in",
    "seen in",
    "raised in",
    "noted in",
    "outlined in",
    "pointed out in",
    "workaround",
    "workaround for",
    "works around",
    "work around",
    "detailed in",
    "documented in",
    "requested in",
    "suggested in",
    "identified in",
    "problem in",
    "issue in",
    "bug in",
    "problem of",
    "issue of",
    "bug of",
    "as per",
    "per",
];

/// The number is a pull request.
const REQUESTS: &[&str] =
    &["pr", "prs", "pull", "pull request", "pull requests", "mr", "merge request"];

/// The number is not an item, or the item is only mentioned.
const MENTIONS: &[&str] = &[
    "merge",
    "merge of",
    "reverts",
    "revert",
    "reverted",
    "reverting",
    "reference to",
    "when working on",
    "while working on",
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
    "broke",
    "breaks",
    "regressed",
    "introduced",
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
    "fixed in",
    "fixed by",
    "it for",
    "its for",
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
    "tracked by",
    "tracked in",
    "tracked at",
    "tracked with",
    "references to",
    "left for",
    "left to",
    "continues",
    "unrelated to",
    "ported from",
    "port of",
    "comes from",
    "came from",
    "follow",
    "follows",
    "continuation of",
    "continued from",
    "continued in",
    "split off from",
    "prep for",
    "preparation for",
    "prepares for",
    "prepare for",
    "unblock",
    "unblocks",
    "result from",
    "results from",
    "regressed in",
    "regressed by",
    "regressed with",
    "regressed around",
    "unfix",
    "unfixes",
    "reopens",
    "reopen",
    "due to",
    "because of",
];

/// Between a problem that is resolved and its item: `fixes the crash of #12`.
pub const OWNERS: &[&str] = &["of", "discussed in", "discussed on"];

/// Before an item that is only part of a story: `the refactoring in #12`.
pub const PREPOSITIONS: &[&str] =
    &["in", "from", "of", "by", "with", "than", "at", "to", "on", "under", "via", "through"];

/// State a purpose: of this commit, or of the one mentioned before.
pub const PURPOSES: &[&str] = &["to fix", "to close", "to resolve", "to address"];

/// Words between those and the number that change nothing.
pub const FILLERS: &[&str] = &[
    "the", "issue", "issues", "bug", "bugs", "ticket", "tickets", "gh", "github", "number", "no",
    "trac", "gitlab", "bugzilla", "ado", "jira",
];

/// Words that name an item and say nothing about what the commit does with it.
pub const NOUNS: &[&str] =
    &["ticket", "tickets", "issue", "issues", "bug", "bugs", "story", "task", "defect"];

/// Things that have numbers of their own.
pub const NUMBERED: &[&str] =
    &["build", "cve", "rfc", "pep", "version", "comment", "discussion", "line", "page", "item"];

/// Things that are counted.
pub const COUNTED: &[&str] = &[
    "step",
    "part",
    "attempt",
    "try",
    "case",
    "test",
    "chapter",
    "figure",
    "round",
    "phase",
    "example",
    "argument",
    "parameter",
    "column",
    "row",
    "thread",
    "player",
    "bit",
    "channel",
    "option",
    "question",
    "reason",
    "slot",
    "worker",
    "node",
    "index",
    "layer",
    "level",
    "sprint",
    "week",
];

/// Verbs that resolve an item, at any place of a sentence.
pub const RESOLVING: &[&str] = &[
    "fix",
    "fixes",
    "fixed",
    "fixing",
    "resolve",
    "resolves",
    "resolved",
    "resolving",
    "solve",
    "solves",
    "solved",
    "address",
    "addresses",
    "addressed",
    "addressing",
];

/// The words make what follows hypothetical, or somebody else's.
pub const DENYING: &[&str] = &[
    "not", "doesn't", "don't", "didn't", "won't", "would", "never", "without", "until", "once",
    "unless", "if", "todo",
];

/// Words that leave the work to somebody else, or to another day.
pub const DEFERRING: &[&str] =
    &["todo", "later", "future", "needs", "remaining", "remains", "tracks"];

/// Words at the beginning of a subject that say that a test was switched off.
pub const SWITCHED_OFF: &[&str] = &[
    "disable",
    "disables",
    "disabled",
    "skip",
    "skips",
    "skipped",
    "exclude",
    "excludes",
    "ignore",
    "ignores",
    "ignoring",
    "mute",
    "mutes",
    "xfail",
    "quarantine",
    "temporarily",
];
