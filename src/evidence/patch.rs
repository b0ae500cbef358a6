//! Unified diffs, applied to texts. As strict as `git apply`: every context line must be there, at
//! any offset. Two things that models get wrong are forgiven: the counts in the heads of hunks, and
//! line ends that the file has and the patch does not.

use std::collections::BTreeMap;

use super::{Code, File};

/// Files that a patch may touch.
const MAX_FILES: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("it is not a unified diff (line {line})")]
    Malformed { line: usize },
    #[error("it changes nothing")]
    Nothing,
    #[error("it has a binary part")]
    Binary,
    #[error("it makes a link of {path}")]
    Link { path: String },
    #[error("it touches too many files")]
    TooManyFiles,
    #[error("it touches {path}, outside of the code base")]
    Outside { path: String },
    #[error("the analysed commit has no {path}")]
    NoSuchFile { path: String },
    #[error("it creates {path}, which is there already")]
    AlreadyThere { path: String },
    #[error("{path} is not text that can be patched")]
    NotText { path: String },
    #[error("part {hunk} of {path} does not fit the code")]
    DoesNotFit { path: String, hunk: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Context,
    Added,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk {
    /// The line that its head names, from 1.
    at: usize,
    pub lines: Vec<(Mark, String)>,
    /// The last old or new line ends without a newline.
    no_newline: (bool, bool),
}

/// The change of one file; `old` is `None` for a new one, `new` for a deleted one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilePatch {
    pub old: Option<String>,
    pub new: Option<String>,
    pub hunks: Vec<Hunk>,
}

impl FilePatch {
    /// Its path after the patch, or before it if that deletes the file.
    pub fn path(&self) -> &str {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    pub files: Vec<FilePatch>,
}

/// The files that a patch leaves, by path; `None` for deleted ones.
pub type Outcome = BTreeMap<String, Option<String>>;

pub fn parse(text: &str) -> Result<Patch, PatchError> {
    let lines: Vec<&str> = unfenced(text);
    let mut patch = Patch::default();
    // Of the file that is being read; renames and modes may come without any hunk.
    let mut file: Option<FilePatch> = None;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let next = lines.get(at + 1).copied().unwrap_or_default();
        if let Some(rest) = line.strip_prefix("diff --git ") {
            patch.files.extend(file.replace(by_git_head(rest)));
        } else if line.starts_with("--- ") && next.starts_with("+++ ") {
            let (old, new) = (path_in(line, "--- ", "a/"), path_in(next, "+++ ", "b/"));
            let begun = file.take().filter(|file| file.hunks.is_empty());
            match begun {
                Some(begun) => file = Some(FilePatch { old, new, ..begun }),
                None => file = Some(FilePatch { old, new, hunks: Vec::new() }),
            }
            at += 1;
        } else if line.starts_with("@@") {
            let Some(file) = &mut file else { return Err(PatchError::Malformed { line: at + 1 }) };
            let (hunk, after) = hunk(&lines, at)?;
            file.hunks.push(hunk);
            at = after;
            // A second file may begin without `diff --git`.
            if lines.get(at).is_some_and(|line| line.starts_with("--- ")) {
                patch.files.push(std::mem::take(file));
            }
            continue;
        } else if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            return Err(PatchError::Binary);
        } else if let Some(file) = &mut file {
            // Links to files and to other repositories.
            if line.contains("mode 12") || line.contains("mode 16") {
                return Err(PatchError::Link { path: file.path().to_owned() });
            }
            extended_head(line, file);
        }
        at += 1;
    }
    patch.files.extend(file);
    patch.files.retain(|file| !file.hunks.is_empty() || file.old != file.new);
    match patch.files.len() {
        0 if text.contains("@@") => Err(PatchError::Malformed { line: 1 }),
        0 => Err(PatchError::Nothing),
        count if count > MAX_FILES => Err(PatchError::TooManyFiles),
        _ => Ok(patch),
    }
}

/// The lines of a diff, without the code fence around it and blank lines at the end.
fn unfenced(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    while lines.last().is_some_and(|line| line.trim().is_empty() || line.starts_with("```")) {
        lines.pop();
    }
    let first = lines.iter().position(|line| !line.trim().is_empty()).unwrap_or_default();
    let fence = lines.get(first).is_some_and(|line| line.starts_with("```"));
    lines.drain(..first + usize::from(fence));
    lines
}

/// `a/src/x b/src/x`: the same path twice, unless a rename says otherwise.
fn by_git_head(rest: &str) -> FilePatch {
    let half = rest.len() / 2;
    let path = rest
        .split_at_checked(half)
        .and_then(|(old, new)| {
            Some((old.strip_prefix("a/")?, new.trim_start().strip_prefix("b/")?))
        })
        .filter(|(old, new)| old == new)
        .map(|(old, _)| old.to_owned());
    FilePatch { old: path.clone(), new: path, hunks: Vec::new() }
}

fn extended_head(line: &str, file: &mut FilePatch) {
    let rest = |head: &str| line.strip_prefix(head).map(unquoted);
    if line.starts_with("new file mode") {
        file.old = None;
    } else if line.starts_with("deleted file mode") {
        file.new = None;
    } else if let Some(old) = rest("rename from ") {
        file.old = Some(old);
    } else if let Some(new) = rest("rename to ") {
        file.new = Some(new);
    }
}

fn path_in(line: &str, head: &str, prefix: &str) -> Option<String> {
    let path = line.strip_prefix(head)?;
    // A time may follow after a tab.
    let path = unquoted(path.split('\t').next().unwrap_or(path).trim_end());
    if path == "/dev/null" {
        return None;
    }
    Some(path.strip_prefix(prefix).unwrap_or(&path).to_owned())
}

fn unquoted(path: &str) -> String {
    path.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(path).to_owned()
}

/// Reads a hunk from its head on; returns it with the number of the line after it.
fn hunk(lines: &[&str], head: usize) -> Result<(Hunk, usize), PatchError> {
    let (at, old_count, new_count) =
        ranges(lines[head]).ok_or(PatchError::Malformed { line: head + 1 })?;
    let mut hunk = Hunk { at, ..Hunk::default() };
    let mut next = head + 1;
    while let Some(line) = lines.get(next) {
        let begins_file = line.starts_with("diff --git ")
            || (line.starts_with("--- ")
                && lines.get(next + 1).is_some_and(|line| line.starts_with("+++ ")));
        if line.starts_with("@@") || begins_file {
            break;
        }
        let (mark, rest) = match line.chars().next() {
            Some(' ') => (Mark::Context, &line[1..]),
            Some('+') => (Mark::Added, &line[1..]),
            Some('-') => (Mark::Removed, &line[1..]),
            Some('\\') => {
                let last = hunk.lines.last().map(|(mark, _)| *mark);
                hunk.no_newline.0 |= matches!(last, Some(Mark::Context | Mark::Removed));
                hunk.no_newline.1 |= matches!(last, Some(Mark::Context | Mark::Added));
                next += 1;
                continue;
            }
            // An empty context line of which the blank was lost.
            None => (Mark::Context, ""),
            Some(_) => return Err(PatchError::Malformed { line: next + 1 }),
        };
        hunk.lines.push((mark, rest.to_owned()));
        next += 1;
    }
    // Blank lines between two parts belong to neither.
    let count =
        |hunk: &Hunk, without| hunk.lines.iter().filter(|(mark, _)| *mark != without).count();
    while count(&hunk, Mark::Added) > old_count
        && count(&hunk, Mark::Removed) > new_count
        && hunk.lines.last().is_some_and(|(mark, text)| *mark == Mark::Context && text.is_empty())
    {
        hunk.lines.pop();
    }
    match hunk.lines.iter().any(|(mark, _)| *mark != Mark::Context) {
        true => Ok((hunk, next)),
        false => Err(PatchError::Malformed { line: head + 1 }),
    }
}

/// `@@ -12,5 +12,6 @@`: the old line and both counts.
fn ranges(head: &str) -> Option<(usize, usize, usize)> {
    let mut words = head.strip_prefix("@@ ")?.split(' ');
    let old = words.next()?.strip_prefix('-')?;
    let new = words.next()?.strip_prefix('+')?;
    let range = |range: &str| -> Option<(usize, usize)> {
        let (line, count) = range.split_once(',').unwrap_or((range, "1"));
        Some((line.parse().ok()?, count.parse().ok()?))
    };
    let ((at, old_count), (_, new_count)) = (range(old)?, range(new)?);
    Some((at, old_count, new_count))
}

/// Applies a patch to the files of a commit.
pub fn apply(patch: &Patch, code: &dyn Code) -> Result<Outcome, PatchError> {
    let mut outcome = Outcome::new();
    for file in &patch.files {
        for path in [&file.old, &file.new].into_iter().flatten() {
            if !code.admits(path) {
                return Err(PatchError::Outside { path: path.clone() });
            }
        }
        // A patch may come back to a file that it changed before.
        let current = |path: &str| -> Result<Option<String>, PatchError> {
            if let Some(changed) = outcome.get(path) {
                return Ok(changed.clone());
            }
            match code.file(path) {
                File::Missing => Ok(None),
                File::Text(text) if text.is_utf8 => Ok(Some(text.text.clone())),
                _ => Err(PatchError::NotText { path: path.to_owned() }),
            }
        };
        let old = match &file.old {
            Some(path) => {
                Some(current(path)?.ok_or_else(|| PatchError::NoSuchFile { path: path.clone() })?)
            }
            None => None,
        };
        if let Some(new) = file.new.as_ref().filter(|new| file.old.as_ref() != Some(*new))
            && current(new)?.is_some()
        {
            return Err(PatchError::AlreadyThere { path: new.clone() });
        }
        let text = applied(file, old.as_deref().unwrap_or_default())?;
        if let Some(path) = file.old.as_ref().filter(|old| file.new.as_ref() != Some(*old)) {
            outcome.insert(path.clone(), None);
        }
        match &file.new {
            Some(path) => drop(outcome.insert(path.clone(), Some(text))),
            None if text.is_empty() => {}
            None => {
                let path = file.path().to_owned();
                return Err(PatchError::DoesNotFit { path, hunk: 1 });
            }
        }
    }
    let is_same = |path: &str, text: &Option<String>| match (code.file(path), text) {
        (File::Text(old), Some(new)) => old.text == *new,
        _ => false,
    };
    match !outcome.is_empty() && outcome.iter().all(|(path, text)| is_same(path, text)) {
        true => Err(PatchError::Nothing),
        false => Ok(outcome),
    }
}

fn applied(file: &FilePatch, old: &str) -> Result<String, PatchError> {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let bare = |line: &str| -> String {
        let line = line.strip_suffix('\n').unwrap_or(line);
        line.strip_suffix('\r').unwrap_or(line).to_owned()
    };
    let windows = lines.iter().filter(|line| line.ends_with("\r\n")).count();
    let end = if windows * 2 > lines.len() { "\r\n" } else { "\n" };
    let texts: Vec<String> = lines.iter().map(|line| bare(line)).collect();
    let mut new = String::with_capacity(old.len());
    let (mut done, mut shift) = (0_usize, 0_isize);
    for (number, hunk) in file.hunks.iter().enumerate() {
        let misfit = || PatchError::DoesNotFit { path: file.path().to_owned(), hunk: number + 1 };
        let wanted: Vec<&str> = hunk
            .lines
            .iter()
            .filter(|(mark, _)| *mark != Mark::Added)
            .map(|(_, text)| text.strip_suffix('\r').unwrap_or(text))
            .collect();
        // Without a line to hold on to, only an empty file says where it belongs.
        if wanted.is_empty() && !texts.is_empty() {
            return Err(misfit());
        }
        let named = hunk.at.saturating_sub(1).saturating_add_signed(shift);
        let fits = |start: &usize| {
            let here = texts.get(*start..*start + wanted.len());
            here.is_some_and(|here| here.iter().zip(&wanted).all(|(have, want)| have == want))
        };
        let last = (texts.len() + 1).saturating_sub(wanted.len()).max(done);
        let place = (done..=last)
            .filter(fits)
            .min_by_key(|start| start.abs_diff(named))
            .ok_or_else(misfit)?;
        shift +=
            isize::try_from(place).unwrap_or_default() - isize::try_from(named).unwrap_or_default();
        lines[done..place].iter().for_each(|line| new.push_str(line));
        let mut from = place;
        for (mark, text) in &hunk.lines {
            if *mark != Mark::Removed && !new.is_empty() && !new.ends_with('\n') {
                new.push_str(end);
            }
            match mark {
                Mark::Added => {
                    new.push_str(text);
                    new.push_str(end);
                }
                Mark::Context => new.push_str(lines[from]),
                Mark::Removed => {}
            }
            from += usize::from(*mark != Mark::Added);
        }
        done = from;
        if hunk.no_newline.1 && done == lines.len() && new.ends_with(end) {
            new.truncate(new.len() - end.len());
        }
    }
    lines[done..].iter().for_each(|line| new.push_str(line));
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

    struct OneFile(&'static str);

    impl Code for OneFile {
        fn commit(&self) -> Option<&str> {
            None
        }

        fn file(&self, path: &str) -> File {
            if path == "a.txt" { File::of(self.0.as_bytes()) } else { File::Missing }
        }

        fn knows(&self, _: &str) -> Option<bool> {
            None
        }

        fn files_with(&self, _: &[&str], _: usize) -> Vec<String> {
            Vec::new()
        }

        fn has_file_named(&self, _: &str) -> bool {
            false
        }
    }

    fn patched(patch: &str, old: &'static str) -> Result<Outcome, PatchError> {
        apply(&parse(patch)?, &OneFile(old))
    }

    fn head(hunk: &str) -> String {
        format!("--- a/a.txt\n+++ b/a.txt\n{hunk}")
    }

    fn new(text: &str) -> Result<Outcome, PatchError> {
        Ok(Outcome::from([("a.txt".to_owned(), Some(text.to_owned()))]))
    }

    #[test]
    fn a_patch_applies_at_its_line_or_elsewhere_and_with_wrong_counts() {
        let expected = new("one\ntwo\nTHREE\nfour\nfive\nsix\n");
        for hunk in [
            "@@ -2,3 +2,3 @@\n two\n-three\n+THREE\n four\n",
            "@@ -40,3 +40,3 @@ fn x\n two\n-three\n+THREE\n four\n",
            "@@ -2,9 +2,1 @@\n two\n-three\n+THREE\n four\n\n",
            "@@ -2,3 +2,3 @@\r\n two\r\n-three\r\n+THREE\r\n four\r\n",
        ] {
            assert_eq!(patched(&head(hunk), OLD), expected, "{hunk}");
            assert_eq!(patched(&format!("```diff\n{}```", head(hunk)), OLD), expected, "{hunk}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = |hunk: &str| patched(&head(hunk), OLD).unwrap_err();
        let misfit = PatchError::DoesNotFit { path: "a.txt".into(), hunk: 1 };
        assert_eq!(error("@@ -2,3 +2,3 @@\n two\n-drei\n+THREE\n four\n"), misfit);
        assert_eq!(error("@@ -2,0 +2,1 @@\n+more\n"), misfit);
        assert_eq!(error("@@ nonsense @@\n+more\n"), PatchError::Malformed { line: 3 });
        assert_eq!(error("@@ -2,2 +2,2 @@\n two\n?\n"), PatchError::Malformed { line: 5 });
        assert_eq!(patched("", OLD), Err(PatchError::Nothing));
        let outside = "--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(patched(outside, OLD), Err(PatchError::Outside { path: "../x".into() }));
        let git = "--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+b\n";
        assert!(matches!(patched(git, OLD), Err(PatchError::Outside { .. })));
        let gone = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(patched(gone, OLD), Err(PatchError::NoSuchFile { path: "b.txt".into() }));
        let there = "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+b\n";
        assert_eq!(patched(there, OLD), Err(PatchError::AlreadyThere { path: "a.txt".into() }));
        let binary = "diff --git a/a.txt b/a.txt\nBinary files a/a.txt and b/a.txt differ\n";
        assert_eq!(patched(binary, OLD), Err(PatchError::Binary));
        let link = "diff --git a/b.txt b/b.txt\nnew file mode 120000\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+/etc/passwd\n";
        assert_eq!(patched(link, OLD), Err(PatchError::Link { path: "b.txt".into() }));
        let same = head("@@ -1,2 +1,2 @@\n one\n-two\n+two\n");
        assert_eq!(patched(&same, OLD), Err(PatchError::Nothing));
        let mode = "diff --git a/a.txt b/a.txt\nold mode 100644\nnew mode 100755\n";
        assert_eq!(patched(mode, OLD), Err(PatchError::Nothing));
    }

    #[test]
    fn files_are_created_deleted_and_renamed() {
        let patch = "diff --git a/a.txt b/b.txt\nsimilarity index 90%\nrename from a.txt\nrename to b.txt\n\
                     --- a/a.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n\
                     diff --git a/c.txt b/c.txt\nnew file mode 100644\n--- /dev/null\n+++ b/c.txt\n@@ -0,0 +1,1 @@\n+c\n";
        let outcome = patched(patch, OLD).unwrap();
        assert_eq!(outcome["a.txt"], None);
        assert_eq!(outcome["b.txt"].as_deref(), Some("one\nTWO\nthree\nfour\nfive\nsix\n"));
        assert_eq!(outcome["c.txt"].as_deref(), Some("c\n"));
        let delete = "--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n";
        assert_eq!(patched(delete, "one\ntwo\n").unwrap()["a.txt"], None);
        assert!(patched(delete, OLD).is_err(), "the rest of the file would be lost");
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        let hunk = head("@@ -1,2 +1,3 @@\n one\n+more\n two\n");
        assert_eq!(patched(&hunk, "one\r\ntwo\r\n"), new("one\r\nmore\r\ntwo\r\n"));
        let last = head("@@ -2 +2,2 @@\n two\n+more\n");
        assert_eq!(patched(&last, "one\ntwo"), new("one\ntwo\nmore\n"));
        let bare = head(
            "@@ -2 +2 @@\n-two\n\\ No newline at end of file\n+2\n\\ No newline at end of file\n",
        );
        assert_eq!(patched(&bare, "one\ntwo"), new("one\n2"));
    }

    #[test]
    fn a_removed_line_of_dashes_is_no_head() {
        let patch = head("@@ -1,2 +1,1 @@\n one\n--- two\n");
        assert_eq!(patched(&patch, "one\n-- two\n"), new("one\n"));
    }
}
