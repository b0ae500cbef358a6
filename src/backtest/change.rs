//! What a commit changed, from git's diff (pure).

use crate::context::{Kind, Language};
use crate::fixes::Change;

/// Most code files kept of one commit: a wider one says nothing about any of them.
const MAX: usize = 200;

/// Reads a diff without context and prefixes line by line: code files that existed before, with the
/// lines that were changed or removed, or between which lines were added.
#[derive(Default)]
pub struct Reader {
    changes: Vec<Change>,
    /// Whether lines of the current file are kept.
    kept: bool,
    in_hunks: bool,
}

impl Reader {
    pub fn line(&mut self, line: &str) {
        if line.starts_with("diff --git ") {
            (self.kept, self.in_hunks) = (false, false);
        } else if let Some(old) = line.strip_prefix("--- ").filter(|_| !self.in_hunks) {
            let path = (old != "/dev/null").then(|| unquoted(old));
            let path = path.filter(|path| is_code(path) && self.changes.len() < MAX);
            self.kept = path.is_some();
            self.changes.extend(path.map(|path| Change { path, lines: Vec::new() }));
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            self.in_hunks = true;
            let range = hunk.split(' ').next().and_then(range);
            if let (Some(change), Some(range), true) = (self.changes.last_mut(), range, self.kept) {
                change.lines.push(range);
            }
        }
    }

    pub fn finish(self) -> Vec<Change> {
        self.changes
    }
}

/// Tests and documents change with a fix; they do not tell where it belongs.
fn is_code(path: &str) -> bool {
    Kind::of_path(path, Language::of_path(path).is_code()) == Kind::Source
}

/// `12,3` or `12`; a length of 0 means an addition after that line.
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
        let diff = "\ndiff --git src/a.rs src/a.rs\nindex 1..2 100644\n--- src/a.rs\n+++ src/a.rs\n@@ -3,2 +3 @@ fn x\n-old\n--- a line that looks like a header\n+new\n@@ -9,0 +9,2 @@\n+more\ndiff --git n.rs n.rs\nnew file mode 100644\n--- /dev/null\n+++ n.rs\n@@ -0,0 +1 @@\n+x\ndiff --git d.md d.md\n--- d.md\n+++ d.md\n@@ -1 +1 @@\n-x\n+y\ndiff --git \"a b\" \"a b\"\n--- \"a\\tb.rs\"\n+++ \"a\\tb.rs\"\n@@ -1 +1 @@\n-x\n+y\n";
        let expected = [
            Change { path: "src/a.rs".to_owned(), lines: vec![(3, 4), (9, 9)] },
            Change { path: "a\tb.rs".to_owned(), lines: vec![(1, 1)] },
        ];
        let mut reader = Reader::default();
        diff.lines().for_each(|line| reader.line(line));
        assert_eq!(reader.finish(), expected);
    }
}
