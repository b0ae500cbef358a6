//! Finds the files of a repository by walking it: ignored files are omitted, links are not
//! followed, unusable ones are counted. No process is started and no file is opened.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::text::document::Content;
use ignore::{DirEntry, WalkBuilder, WalkState};

/// Tells whether a file has changed since it was read.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Stamp {
    /// The ctime in nanoseconds since the epoch. Unlike the mtime, a program cannot set it back.
    pub changed: i64,
    /// In bytes.
    pub size: u64,
    pub inode: u64,
}

impl Stamp {
    /// The stamp from a file's metadata.
    pub fn of(metadata: &std::fs::Metadata) -> Self {
        let changed =
            metadata.ctime().saturating_mul(1_000_000_000).saturating_add(metadata.ctime_nsec());
        Self { changed, size: metadata.size(), inode: metadata.ino() }
    }

    /// Whether the file could change again without its time changing. Then it has to be read again.
    ///
    /// File times advance in ticks of some milliseconds, or of two seconds on some file systems.
    pub fn is_fresh_at(self, now: i64) -> bool {
        let tick = if self.changed % 1_000_000_000 == 0 { 2_000_000_000 } else { 20_000_000 };
        self.changed.saturating_add(tick) >= now
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// As of the scan.
    pub stamp: Stamp,
}

/// Number of skipped files, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Skipped {
    /// Only the path is indexed: larger than the limit.
    pub large: u64,
    /// Only the path is indexed: not text.
    pub binary: u64,
    /// Only the path is indexed: lines that are not written by hand.
    pub minified: u64,
    /// Only the path is indexed, or nothing: files and folders that could not be read.
    pub unreadable: u64,
    /// Files, and folders with their content, whose paths are not UTF-8 or contain control
    /// characters.
    pub odd_paths: u64,
    /// Symbolic links, sockets, devices.
    pub not_files: u64,
    /// Files that contain credentials according to their name; never shown to an agent.
    pub secrets: u64,
    /// Files above the limit.
    pub beyond_limit: u64,
}

impl Skipped {
    /// Counts a file of which only the path is indexed.
    pub(crate) fn count(&mut self, content: Content) {
        match content {
            Content::Read => {}
            Content::Large => self.large += 1,
            Content::Binary => self.binary += 1,
            Content::Minified => self.minified += 1,
            Content::Unreadable => self.unreadable += 1,
        }
    }

    /// What was skipped and why, for display; only non-zero counts.
    pub fn reasons(&self) -> impl Iterator<Item = (u64, &'static str)> + use<> {
        [
            (self.large, "too large"),
            (self.binary, "binary"),
            (self.minified, "minified"),
            (self.unreadable, "unreadable"),
            (self.odd_paths, "with unusable paths"),
            (self.not_files, "links or devices"),
            (self.secrets, "with credentials"),
            (self.beyond_limit, "beyond the limit"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }

    /// Only unusual reasons: every repository has links and images.
    pub fn surprises(&self) -> impl Iterator<Item = (u64, &'static str)> + use<> {
        let ordinary = Self { large: 0, binary: 0, minified: 0, not_files: 0, secrets: 0, ..*self };
        ordinary.reasons()
    }

    /// Adds the counts of another part of the work.
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

/// Names of files with rules for what is ignored.
const RULES: [&str; 2] = [".ignore", ".gitignore"];

/// Folders that are never scanned.
const NEVER: &[&str] =
    &[".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", ".idea", ".vs"];

/// Whether the file contains credentials according to its name.
fn is_secret(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let sample = [".example", ".sample", ".template"].iter().any(|end| name.ends_with(end));
    let env = name == ".env" || name.starts_with(".env.");
    let key = [".pem", ".key", ".pfx", ".p12", ".jks"].iter().any(|end| name.ends_with(end));
    let named = matches!(name.as_str(), "id_rsa" | "id_ed25519" | ".netrc" | ".npmrc" | ".pypirc");
    (env || key || named) && !sample
}

#[derive(Debug, Default)]
pub(crate) struct Scanned {
    /// Ordered by path.
    pub files: Vec<Found>,
    pub skipped: Skipped,
}

/// Walks `root` and returns its files ordered by path, at most `most`.
pub(crate) fn scan(root: &Path, threads: usize, most: usize) -> Scanned {
    let odd = Arc::new(AtomicBool::new(has_odd_rules(root)));
    if !odd.load(Ordering::Relaxed) {
        let found = walk(root, threads, most, Some(Arc::clone(&odd)));
        if !odd.load(Ordering::Relaxed) {
            return found;
        }
    }
    tracing::warn!(
        folder = %root.display(),
        "an ignore file in it is not a small regular file: ignore rules are not applied"
    );
    walk(root, threads, most, None)
}

/// A much larger file does not hold rules.
const MAX_RULES: u64 = 1 << 20;

/// Whether a folder has a file of rules that must not be read: a link may lead to a file without an
/// end, a pipe is never written. Git does not follow such links either.
fn has_odd_rules(folder: &Path) -> bool {
    RULES.iter().any(|name| {
        let about = folder.join(name).symlink_metadata();
        about.is_ok_and(|about| !about.is_file() || about.len() > MAX_RULES)
    })
}

/// Without `odd`, no rules are applied; otherwise it is set if rules must not be read, and the walk
/// is incomplete.
fn walk(root: &Path, threads: usize, most: usize, odd: Option<Arc<AtomicBool>>) -> Scanned {
    let collected: Mutex<Scanned> = Mutex::default();
    let with_rules = odd.is_some();
    let may_enter = move |entry: &DirEntry| {
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        let Some(odd) = odd.as_ref().filter(|_| is_folder && has_odd_rules(entry.path())) else {
            return true;
        };
        odd.store(true, Ordering::Relaxed);
        false
    };
    let walker = WalkBuilder::new(root)
        .git_ignore(with_rules)
        .ignore(with_rules)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .threads(threads)
        .filter_entry(move |entry| {
            entry.depth() == 0
                || !NEVER.contains(&entry.file_name().to_string_lossy().as_ref())
                    && may_enter(entry)
        })
        .build_parallel();
    walker.run(|| {
        let mut batch = ScanBatch { shared: &collected, most, own: Scanned::default() };
        Box::new(move |entry| batch.take(root, entry))
    });
    let mut all = collected.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    all.keep_within(most, 0);
    all.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    all
}

/// The folder of a path.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl Scanned {
    /// Drops files above the limit once there are `slack` too many, so that memory stays bounded.
    fn keep_within(&mut self, most: usize, slack: usize) {
        if self.files.len() <= most.saturating_add(slack) {
            return;
        }
        let dropped = self.files.len() - most;
        self.files.select_nth_unstable_by(most, |a, b| a.path.cmp(&b.path));
        self.files.truncate(most);
        self.skipped.beyond_limit += u64::try_from(dropped).unwrap_or(u64::MAX);
    }
}

/// What one thread of the walk has found; passed on in batches.
struct ScanBatch<'a> {
    shared: &'a Mutex<Scanned>,
    most: usize,
    own: Scanned,
}

impl ScanBatch<'_> {
    fn take(&mut self, root: &Path, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        /// Batch size of a thread.
        const HAND_OVER: usize = 4096;
        let Ok(entry) = entry else {
            self.own.skipped.unreadable += 1;
            return WalkState::Continue;
        };
        let Some(kind) = entry.file_type() else { return WalkState::Continue };
        let relative = entry.path().strip_prefix(root).unwrap_or_else(|_| entry.path());
        let plain = relative.to_str().filter(|path| !path.contains(char::is_control));
        let Some(path) = plain else {
            self.own.skipped.odd_paths += 1;
            return if kind.is_dir() { WalkState::Skip } else { WalkState::Continue };
        };
        if kind.is_dir() {
            return WalkState::Continue;
        }
        if !kind.is_file() {
            self.own.skipped.not_files += 1;
        } else if is_secret(path) {
            self.own.skipped.secrets += 1;
        } else {
            match entry.metadata() {
                Ok(metadata) => {
                    let stamp = Stamp::of(&metadata);
                    self.own.files.push(Found { path: path.to_owned(), stamp });
                }
                Err(_) => self.own.skipped.unreadable += 1,
            }
        }
        if self.own.files.len() >= HAND_OVER {
            self.hand_over();
        }
        WalkState::Continue
    }

    fn hand_over(&mut self) {
        let own = std::mem::take(&mut self.own);
        let mut shared = self.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.files.extend(own.files);
        shared.skipped.add(&own.skipped);
        shared.keep_within(self.most, self.most.max(16_384));
    }
}

impl Drop for ScanBatch<'_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link may lead to a file without an end, and everybody who can merge can commit one.
    #[test]
    fn rules_that_are_no_small_regular_file_are_not_read() {
        for place in ["", "src"] {
            for name in [".gitignore", ".ignore"] {
                let folder = tempfile::tempdir().unwrap();
                let root = folder.path();
                std::fs::create_dir(root.join("src")).unwrap();
                std::fs::write(root.join("src/a.rs"), "x").unwrap();
                std::fs::write(root.join("b.rs"), "x").unwrap();
                std::os::unix::fs::symlink("/dev/zero", root.join(place).join(name)).unwrap();
                let found = scan(root, 2, 100);
                let mut paths: Vec<_> = found.files.iter().map(|file| &*file.path).collect();
                paths.retain(|path| path.ends_with(".rs"));
                assert_eq!(paths, ["b.rs", "src/a.rs"], "{place}/{name}");
            }
        }
    }

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
            let Scanned { files, skipped, .. } = scan(root, threads, 100);
            let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
            assert_eq!(paths, [".gitignore", "src/a.rs", "src/b.rs"]);
            assert_eq!((skipped.odd_paths, skipped.not_files, skipped.secrets), (1, 1, 1));
        }
        let Scanned { files, skipped, .. } = scan(root, 2, 2);
        assert_eq!((files.len(), skipped.beyond_limit), (2, 1));
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
