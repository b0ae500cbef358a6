//! Item numbers in names of merged branches.

/// Parts of branch names whose numbers are versions, dates or pull requests.
const NOT_ITEMS: &[&str] = &[
    "release",
    "releases",
    "hotfix-release",
    "rel",
    "version",
    "tags",
    "dependabot",
    "renovate",
    // Branches of pull requests: `origin/pr/12`, `refs/pull/12/head`.
    "pr",
    "pull",
    "pulls",
    "mr",
    "merge-requests",
];

/// Words before a number that mark it as an item.
const ITEM_WORDS: &[&str] = &[
    "ab", "bug", "fix", "wi", "item", "task", "story", "us", "pbi", "issue", "feature", "gh",
    "workitem",
];

/// Words before a number at the end of a name that make it something else.
const VERSIONED: &[&str] = &[
    "patch", "python", "version", "release", "node", "java", "ubuntu", "windows", "http", "build",
    "sprint", "phase", "part", "port", "page", "line",
];

const YEARS: std::ops::RangeInclusive<i64> = 1990..=2049;

/// The merged branch, if a tool wrote the subject.
pub fn merged(subject: &str) -> Option<&str> {
    if let Some(rest) = subject.strip_prefix("Merge branch '") {
        return rest.split('\'').next();
    }
    if let Some(rest) = subject.strip_prefix("Merge remote-tracking branch '") {
        return rest.split('\'').next();
    }
    // Bitbucket: "Merged in bugfix/12-x (pull request #7)".
    if let Some(rest) = subject.strip_prefix("Merged in ") {
        return rest.split(' ').next();
    }
    if let Some(branch) = merged_by_bot(subject) {
        return Some(branch);
    }
    // Azure Repos and GitHub: "Merge pull request 12 from a/b into main", "… #12 from owner/branch".
    let rest = subject.strip_prefix("Merge pull request ")?;
    rest.split_once(" from ")?.1.split(' ').next()
}

/// The bots of Rust's projects: "Auto merge of #12 - ann:branch, r=bob", "auto merge of #12 :
/// ann/shop/branch, r=bob".
fn merged_by_bot(subject: &str) -> Option<&str> {
    let (head, rest) = subject.split_once(" merge of #")?;
    if !matches!(head, "Auto" | "auto" | "Rollup") {
        return None;
    }
    let (_number, branch) = rest.split_once([' '])?;
    let branch = branch.trim_start_matches(['-', ':', ' ']).split(',').next()?;
    Some(branch.split_once(':').map_or(branch, |(_owner, name)| name))
}

/// Whether the merge only updates a branch from its copy elsewhere.
pub fn is_update(subject: &str) -> bool {
    let name = |branch: &str| branch.rsplit('/').next().unwrap_or(branch).to_owned();
    let Some((_, into)) = subject.rsplit_once(" into ") else { return false };
    let into = into.trim().trim_matches('\'');
    merged(subject).is_some_and(|branch| name(branch) == name(into))
}

/// Whether it is a main branch or a release branch, so that the merge contains other people's work.
pub fn is_main(branch: &str) -> bool {
    let name = branch.rsplit('/').next().unwrap_or(branch).to_ascii_lowercase();
    let first = name.split(['-', '_']).next().unwrap_or(&name);
    const MAIN: &[&str] = &[
        "main", "master", "develop", "dev", "trunk", "default", "origin", "upstream", "head",
        "next",
    ];
    MAIN.contains(&name.as_str()) || matches!(first, "stable" | "release") || is_version(&name)
}

/// `4.10.x`, `v2.1`.
fn is_version(name: &str) -> bool {
    let mut parts = name.trim_start_matches('v').split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    name.contains('.')
        && parts.next().is_some_and(is_number)
        && parts.all(|part| part == "x" || is_number(part))
}

/// Item numbers in a branch name: a part that starts with one (`bugfix/123-crash`) or names one
/// (`AB-123`, `bug_123`, `fix1098`).
pub fn items(branch: &str) -> Vec<i64> {
    let parts: Vec<&str> = branch.split('/').collect();
    // It takes the item's work back.
    if branch.to_ascii_lowercase().contains("revert") {
        return Vec::new();
    }
    if parts.iter().any(|part| NOT_ITEMS.contains(&part.to_ascii_lowercase().as_str())) {
        return Vec::new();
    }
    parts.into_iter().filter_map(item).collect()
}

fn item(part: &str) -> Option<i64> {
    let words: Vec<&str> =
        part.split(['-', '_', '#', ' ']).filter(|word| !word.is_empty()).collect();
    let number = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        // A single digit is a count; leading zeros belong to dates and versions.
        (plain && word.len() >= 2 && !word.starts_with('0')).then(|| word.parse().ok()).flatten()
    };
    // "2024-06-cleanup" and "10-5" are dates and ranges.
    if words.len() >= 2
        && number(words[0]).is_some()
        && words[1].bytes().all(|b| b.is_ascii_digit())
    {
        return None;
    }
    if let Some(found) = words.first().and_then(|word| number(word)) {
        // "2021", "2021_dev"
        let is_year = words.len() < 3 && YEARS.contains(&found);
        return (!is_year).then_some(found);
    }
    // "i4335"
    if let [only] = words.as_slice()
        && let Some(digits) = only.strip_prefix(['i', 'I']).filter(|rest| rest.len() >= 3)
        && let Some(found) = number(digits)
    {
        return Some(found);
    }
    let is_item_word = |word: &str| ITEM_WORDS.contains(&word.to_ascii_lowercase().as_str());
    let apart = words
        .windows(2)
        .find_map(|pair| if is_item_word(pair[0]) { number(pair[1]) } else { None });
    // In one word a short number is probably a version (`fix32bit`, `item2`), and two letters that
    // do not come first may be part of a hash (`patch-ab1234`).
    let glued = |(place, word): (usize, &&str)| {
        let digits = word.find(|c: char| c.is_ascii_digit())?;
        let (name, rest) = word.split_at(digits);
        let says_so = is_item_word(name) && (name.len() > 2 || place == 0);
        let is_short = rest.len() < 3 && !name.eq_ignore_ascii_case("gh");
        if says_so && !is_short { number(rest) } else { None }
    };
    apart.or_else(|| words.iter().enumerate().find_map(glued)).or_else(|| at_end(&words, number))
}

/// `trailing-semicolon-144`: a number of three digits or more that is no version and no year.
fn at_end(words: &[&str], number: impl Fn(&str) -> Option<i64>) -> Option<i64> {
    let [.., before, last] = words else { return None };
    let before = before.to_ascii_lowercase();
    let is_other = before.len() < 4 || VERSIONED.contains(&before.as_str());
    let found = number(last).filter(|_| last.len() >= 3 && !is_other)?;
    (!YEARS.contains(&found)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches_give_the_items_that_people_put_there() {
        for (branch, expected) in [
            ("bugfix/1234-crash-on-save", vec![1234]),
            ("users/ann/AB-1234", vec![1234]),
            ("feature/story_88_export", vec![88]),
            ("owner/fix-4321", vec![4321]),
            ("1234", vec![1234]),
            ("bug#77", vec![77]),
            ("ann/fix1098", vec![1098]),
            ("ann/issue1952", vec![1952]),
            ("Branch_Fix2058", vec![2058]),
            ("ann/trailing-semicolon-144", vec![144]),
            ("ann/docs-#975", vec![975]),
            ("ann/patch-144", vec![]),
            ("ann/summary-2021", vec![]),
            ("ann/2021_dev", vec![]),
            ("ann/2021-crash-on-save", vec![2021]),
            ("ann/i4335", vec![4335]),
            ("ann/i18n", vec![]),
            ("ann/py310", vec![]),
            ("ann/fix32bit", vec![]),
            ("ann/noqa-F401", vec![]),
            ("ann-patch-ab12345", vec![]),
            ("release/2024", vec![]),
            ("fix/master/14872_revert_modulepath", vec![]),
            ("2024-06-cleanup", vec![]),
            ("feature/utf-8-names", vec![]),
            ("dependabot/npm/lodash-4", vec![]),
            ("feature/v2", vec![]),
            ("main", vec![]),
            ("topic/phase-2-of-10", vec![]),
        ] {
            assert_eq!(items(branch), expected, "{branch}");
        }
    }

    #[test]
    fn a_branch_that_is_merged_into_itself_is_brought_up_to_date() {
        assert!(is_update("Merge branch 'issue944' of https://x/y into issue944"));
        assert!(is_update("Merge remote-tracking branch 'origin/fix-12' into fix-12"));
        assert!(!is_update("Merge branch 'issue944' into main"));
        assert!(!is_update("Merge branch 'issue944'"));
    }

    #[test]
    fn subjects_of_merges_name_their_branch() {
        assert_eq!(merged("Merge branch 'bugfix/12-x' into main"), Some("bugfix/12-x"));
        assert_eq!(merged("Merge pull request 7 from users/a/12 into main"), Some("users/a/12"));
        assert_eq!(merged("Merge pull request #7 from ann/12-x"), Some("ann/12-x"));
        assert_eq!(merged("Merged in bugfix/12-x (pull request #7)"), Some("bugfix/12-x"));
        assert_eq!(merged("Merge sort: fix comparison"), None);
        assert!(is_main("origin/main") && !is_main("feature/main-menu"));
        assert!(is_main("upstream/6.0.x") && is_main("stable-3.9") && is_main("v2.1"));
        assert!(!is_main("ann/12.5-crash") && !is_main("fix-release-notes"));
    }
}
