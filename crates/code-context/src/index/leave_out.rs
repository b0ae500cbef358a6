//! Which files of a commit are ignored: the rules of its `.gitignore` and `.ignore` files, applied
//! as a folder walk applies them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::index::scan::folder_of;

/// Names of rule files; the first takes precedence over the second.
pub(crate) const RULES: [&str; 2] = [".ignore", ".gitignore"];

/// Placeholder for the root; rules are made for absolute paths.
const ROOT: &str = "/r";

/// The rules of one commit.
#[derive(Debug, Default)]
pub(crate) struct LeaveOut {
    rules: HashMap<String, [Option<Gitignore>; 2]>,
    /// Folders whose result is known.
    folders: HashMap<String, bool>,
}

/// Folder and precedence of a rule file; `None` for other paths.
pub(crate) fn rules_at(path: &str) -> Option<(&str, usize)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let at = RULES.iter().position(|rules| *rules == name)?;
    Some((folder_of(path), at))
}

impl LeaveOut {
    /// Sets the text of a rule file; `None` if it was deleted.
    pub(crate) fn set(&mut self, path: &str, text: Option<&[u8]>) {
        let Some((folder, at)) = rules_at(path) else { return };
        self.folders.clear();
        let parsed = text.map(|text| parse(folder, text));
        self.rules.entry(folder.to_owned()).or_default()[at] = parsed;
    }

    /// Whether a file is ignored.
    pub(crate) fn file(&mut self, path: &str) -> bool {
        !self.rules.is_empty() && (self.folder(folder_of(path)) || self.matches(path, false))
    }

    /// Whether everything in a folder is ignored.
    fn folder(&mut self, folder: &str) -> bool {
        if folder.is_empty() {
            return false;
        }
        if let Some(known) = self.folders.get(folder) {
            return *known;
        }
        let left_out = self.folder(folder_of(folder)) || self.matches(folder, true);
        self.folders.insert(folder.to_owned(), left_out);
        left_out
    }

    /// The innermost matching rule decides.
    fn matches(&self, path: &str, is_folder: bool) -> bool {
        let whole = whole(path);
        (0..RULES.len())
            .find_map(|kind| {
                let mut folder = path;
                while !folder.is_empty() {
                    folder = folder_of(folder);
                    let rules = self.rules.get(folder).and_then(|rules| rules[kind].as_ref());
                    match rules.map(|rules| rules.matched(&whole, is_folder)) {
                        Some(Match::Ignore(_)) => return Some(true),
                        Some(Match::Whitelist(_)) => return Some(false),
                        Some(Match::None) | None => {}
                    }
                }
                None
            })
            .unwrap_or(false)
    }
}

fn whole(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

fn parse(folder: &str, text: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new(whole(folder));
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        // As for a file on disk: nothing is read after bytes that are not text.
        let Ok(line) = std::str::from_utf8(line) else { break };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = if number == 0 { line.trim_start_matches('\u{feff}') } else { line };
        // A line that is not a pattern is skipped.
        let _no_pattern = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_rule_decides_and_ignore_goes_before_gitignore() {
        let mut rules = LeaveOut::default();
        assert!(!rules.file("a/b.log"));
        rules.set(".gitignore", Some(b"*.log\n/out/\n"));
        rules.set("a/.gitignore", Some(b"!keep.log\r\n"));
        rules.set("a/c/.ignore", Some(b"*.rs"));
        assert!(rules.file("a/b.log") && rules.file("out/x/y.rs") && rules.file("a/c/d.rs"));
        assert!(!rules.file("a/keep.log") && !rules.file("a/out/x.rs") && !rules.file("a/d.rs"));
        rules.set(".ignore", Some(b"keep.log"));
        assert!(rules.file("a/keep.log"));
        rules.set(".ignore", None);
        rules.set(".gitignore", None);
        assert!(!rules.file("out/x/y.rs") && !rules.file("a/b.log"));
    }
}
