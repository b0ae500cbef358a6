//! What the subject of a commit says about the whole commit.

use super::message::Commit;
use super::phrases::SWITCHED_OFF;
use super::said::words_of;

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
pub fn is_revert(subject: &str) -> bool {
    let lower = subject.to_lowercase();
    // What is reverted twice is there again.
    if lower.starts_with("revert \"revert \"") {
        return false;
    }
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
        || is_key(rest)
}

/// ` SHOP-12`, ` #12` at the end: the item's work is taken back.
fn is_key(rest: &str) -> bool {
    let name = rest.trim();
    let number = name.strip_prefix('#').or_else(|| name.rsplit_once('-').map(|(_, number)| number));
    !name.contains(' ') && number.is_some_and(is_digits)
}

/// `Squashed 'docs/' changes from 1a2b3c4..5d6e7f8`, `Merged revisions 6108-6127 via svnmerge`: many
/// commits in one.
pub fn is_import(subject: &str) -> bool {
    let is_subtree = subject.starts_with("Squashed '") && subject.contains("' changes from ");
    is_subtree || subject.starts_with("Merged revisions ")
}

/// `Merge up 047fde5 to 5.5.x`, `Manual mergeup`: brings the work of one release to another.
pub fn is_merge_up(subject: &str) -> bool {
    let lower = subject.to_lowercase();
    ["merge up ", "mergeup", "merge-up"].iter().any(|words| lower.contains(words))
}

/// `Release 1.2.3`, `Bump version to 1.2.3`: it names what others fixed.
pub fn is_release(subject: &str) -> bool {
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

/// Whether the commit only switches off a test that shows an item's problem.
pub fn switches_off_test(subject: &str) -> bool {
    let lower = subject.to_lowercase();
    // `tests: skip …`, `MINOR: Ignoring …`
    let said = lower.split_once([':', ';']).map_or(lower.as_str(), |(_, said)| said);
    let first = words_of(said).into_iter().next();
    lower.contains("test") && first.is_some_and(|word| SWITCHED_OFF.contains(&word))
}

pub fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
