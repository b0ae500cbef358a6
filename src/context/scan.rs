//! Which files a repository has, found by walking it: ignored files left out, links not followed,
//! what cannot be used counted. No process is started and no file is opened.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use super::document::Content;
use ignore::{DirEntry, WalkBuilder, WalkState};

/// What tells whether a file has changed since it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// When its content, name or rights last changed, in nanoseconds since the epoch. Unlike the
    /// time of modification, no program can set it back.
    pub changed: i64,
    /// Bytes.
    pub size: u64,
    /// The file system's number.
    pub inode: u64,
}

impl Stamp {
    /// The stamp of a file's metadata.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        let changed =
            metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec());
        Self { changed, size: metadata.size(), inode: metadata.ino() }
    }

    /// Could the file be changed once more without its time moving? Then it has to be read again.
    ///
    /// File times move in ticks of some milliseconds, or of two seconds where none are kept.
    pub fn is_fresh_at(self, now: i64) -> bool {
        let tick = if self.changed % 1_000_000_000 == 0 { 2_000_000_000 } else { 20_000_000 };
        self.changed.saturating_add(tick) >= now
    }
}

/// A file worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// As it was when found.
    pub stamp: Stamp,
}

/// What was set aside, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Skipped {
    /// Known by path only: larger than the limit.
    pub large: u64,
    /// Known by path only: not text.
    pub binary: u64,
    /// Known by path only: lines nobody writes by hand.
    pub minified: u64,
    /// Known by path only, or not at all: files and folders that could not be read.
    pub unreadable: u64,
    /// Paths that are not text or hold control characters.
    pub odd_paths: u64,
    /// Symbolic links, sockets, devices.
    pub not_files: u64,
    /// Files that hold credentials by their name; never shown to an agent.
    pub secrets: u64,
    /// Files beyond the most that are indexed.
    pub beyond_limit: u64,
}

impl Skipped {
    /// Counts a file that is known by its path only.
    pub(super) fn count(&mut self, content: Content) {
        match content {
            Content::Read => {}
            Content::Large => self.large += 1,
            Content::Binary => self.binary += 1,
            Content::Minified => self.minified += 1,
            Content::Unreadable => self.unreadable += 1,
        }
    }

    /// Adds what another part of the work set aside.
    pub fn add(&mut self, other: &Self) {
        self.large += other.large;
        self.binary += other.binary;
        self.minified += other.minified;
        self.unreadable += other.unreadable;
        self.odd_paths += other.odd_paths;
        self.not_files += other.not_files;
        self.secrets += other.secrets;
        self.beyond_limit += other.beyond_limit;
    }
}

/// Folders that never hold anything of interest.
const NEVER: &[&str] =
    &[".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".idea", ".vs"];

/// Is this a file whose name says that it holds credentials?
fn is_secret(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let sample = [".example", ".sample", ".template"].iter().any(|end| name.ends_with(end));
    let env = name == ".env" || name.starts_with(".env.");
    let key = [".pem", ".key", ".pfx", ".p12", ".jks"].iter().any(|end| name.ends_with(end));
    let named = matches!(name.as_str(), "id_rsa" | "id_ed25519" | ".netrc" | ".npmrc" | ".pypirc");
    (env || key || named) && !sample
}

/// Walks `root` and gives its files in the order of their paths.
pub fn scan(root: &Path, threads: usize, most: usize) -> (Vec<Found>, Skipped) {
    let collected: Mutex<(Vec<Found>, Skipped)> = Mutex::default();
    let walker = WalkBuilder::new(root)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .threads(threads)
        .filter_entry(|entry| {
            entry.depth() == 0 || !NEVER.contains(&entry.file_name().to_string_lossy().as_ref())
        })
        .build_parallel();
    walker.run(|| {
        let mut batch =
            Batch { shared: &collected, found: Vec::new(), skipped: Skipped::default() };
        Box::new(move |entry| {
            batch.take(root, entry);
            WalkState::Continue
        })
    });
    let (mut found, mut skipped) =
        collected.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    if found.len() > most {
        skipped.beyond_limit = u64::try_from(found.len() - most).unwrap_or(u64::MAX);
        found.truncate(most);
    }
    (found, skipped)
}

/// What one thread of the walk has found; handed over when the thread is done.
struct Batch<'a> {
    shared: &'a Mutex<(Vec<Found>, Skipped)>,
    found: Vec<Found>,
    skipped: Skipped,
}

impl Batch<'_> {
    fn take(&mut self, root: &Path, entry: Result<DirEntry, ignore::Error>) {
        let Ok(entry) = entry else {
            self.skipped.unreadable += 1;
            return;
        };
        let Some(kind) = entry.file_type() else { return };
        if kind.is_dir() {
            return;
        }
        if !kind.is_file() {
            self.skipped.not_files += 1;
            return;
        }
        let Some(path) = entry
            .path()
            .strip_prefix(root)
            .ok()
            .and_then(Path::to_str)
            .filter(|path| !path.contains(char::is_control))
        else {
            self.skipped.odd_paths += 1;
            return;
        };
        if is_secret(path) {
            self.skipped.secrets += 1;
            return;
        }
        match entry.metadata() {
            Ok(metadata) => {
                self.found.push(Found { path: path.to_owned(), stamp: Stamp::of(&metadata) });
            }
            Err(_) => self.skipped.unreadable += 1,
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut shared = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.0.append(&mut self.found);
        shared.1.add(&self.skipped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_files_links_and_odd_paths_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join(".git/config"), "x").unwrap();
        std::fs::write(root.join(".gitignore"), "*.log\n").unwrap();
        std::fs::write(root.join("a.log"), "x").unwrap();
        std::fs::write(root.join("src/b.rs"), "x").unwrap();
        std::fs::write(root.join("src/a.rs"), "x").unwrap();
        std::fs::write(root.join("src/new\nline.rs"), "x").unwrap();
        std::fs::write(root.join(".env"), "PASSWORD=x").unwrap();
        std::os::unix::fs::symlink(root, root.join("src/loop")).unwrap();
        for threads in [1, 4] {
            let (found, skipped) = scan(root, threads, 100);
            let paths: Vec<_> = found.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, [".gitignore", "src/a.rs", "src/b.rs"]);
            assert_eq!((skipped.odd_paths, skipped.not_files, skipped.secrets), (1, 1, 1));
        }
        let (found, skipped) = scan(root, 2, 2);
        assert_eq!((found.len(), skipped.beyond_limit), (2, 1));
    }

    #[test]
    fn a_just_written_file_is_not_trusted() {
        let second = 1_000_000_000;
        let stamp = Stamp { changed: 10 * second + 5, size: 1, inode: 1 };
        assert!(stamp.is_fresh_at(10 * second + 6));
        assert!(!stamp.is_fresh_at(11 * second));
        assert!(Stamp { changed: 10 * second, size: 1, inode: 1 }.is_fresh_at(11 * second));
    }
}
