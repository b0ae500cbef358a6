//! What a commit changed, from git's own description of it (pure).

use crate::fixes::Change;

/// Reads `git diff -U0 --no-prefix`: files that existed before, with the lines that were changed or
/// removed, or between which something was added.
pub fn parse(diff: &str) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    let mut path: Option<String> = None;
    let mut in_hunks = false;
    for line in diff.lines() {
        if line.starts_with("diff --git ") {
            (path, in_hunks) = (None, false);
        } else if let Some(old) = line.strip_prefix("--- ").filter(|_| !in_hunks) {
            path = (old != "/dev/null").then(|| unquoted(old));
            changes.extend(path.clone().map(|path| Change { path, lines: Vec::new() }));
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            in_hunks = true;
            let range = hunk.split(' ').next().and_then(range);
            if let (Some(change), Some(range), Some(_)) = (changes.last_mut(), range, &path) {
                change.lines.push(range);
            }
        }
    }
    changes
}

/// `12,3` or `12`; with a length of 0 something was added after that line.
fn range(text: &str) -> Option<(u32, u32)> {
    let (first, length) = text.split_once(',').unwrap_or((text, "1"));
    let (first, length): (u32, u32) = (first.parse().ok()?, length.parse().ok()?);
    Some((first.max(1), (first + length.max(1) - 1).max(1)))
}

/// Git quotes unusual names and may end a name with a tab.
fn unquoted(name: &str) -> String {
    let name = name.trim_end_matches('\t');
    let Some(inner) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    inner.replace("\\\"", "\"").replace("\\t", "\t").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_existed_are_given_with_their_lines() {
        let diff = "diff --git src/a.rs src/a.rs\nindex 1..2 100644\n--- src/a.rs\n+++ src/a.rs\n@@ -3,2 +3 @@ fn x\n-old\n--- a line that looks like a header\n+new\n@@ -9,0 +9,2 @@\n+more\ndiff --git n.rs n.rs\nnew file mode 100644\n--- /dev/null\n+++ n.rs\n@@ -0,0 +1 @@\n+x\ndiff --git \"a b\" \"a b\"\n--- \"a\\tb\"\n+++ \"a\\tb\"\n@@ -1 +1 @@\n-x\n+y\n";
        let expected = [
            Change { path: "src/a.rs".to_owned(), lines: vec![(3, 4), (9, 9)] },
            Change { path: "a\tb".to_owned(), lines: vec![(1, 1)] },
        ];
        assert_eq!(parse(diff), expected);
    }
}
