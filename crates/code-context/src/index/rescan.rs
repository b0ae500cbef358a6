//! Scans a repository again: folders in which no name was added or removed are not listed again, so
//! most of the work is reading the time of each known file.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

use crate::index::scan::{self, Found, Skipped, Stamp, Tree};

/// Result of a scan, relative to what was known.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The current stamp of each known file, if it still exists.
    pub known: Vec<Option<Stamp>>,
    /// New files, ordered by path.
    pub new: Vec<Found>,
    pub tree: Tree,
    pub skipped: Skipped,
}

/// A file of an earlier scan.
pub(crate) trait KnownFile: Sync {
    /// Relative to the root.
    fn path(&self) -> &str;
}

/// Walks everything and compares it with the `known` files, which are ordered by path.
pub(crate) fn whole<K: KnownFile>(root: &Path, known: &[K], threads: usize, most: usize) -> Seen {
    let scanned = scan::scan(root, threads, most);
    let mut seen = Seen {
        known: Vec::with_capacity(known.len()),
        new: Vec::new(),
        tree: scanned.tree,
        skipped: scanned.skipped,
    };
    let mut files = scanned.files.into_iter().peekable();
    for file in known {
        while let Some(new) = files.next_if(|found| found.path.as_str() < file.path()) {
            seen.new.push(new);
        }
        seen.known.push(files.next_if(|found| found.path == file.path()).map(|same| same.stamp));
    }
    seen.new.extend(files);
    seen
}

/// Scans again, trusting `tree` for the time before `looked_at`. `None` if everything has to be
/// walked.
pub(crate) fn again<K: KnownFile>(
    root: &Path,
    tree: &Tree,
    known: &[K],
    looked_at: i64,
    threads: usize,
) -> Option<Seen> {
    let trusted = |stamp: Stamp, now: Stamp| stamp == now && !stamp.is_fresh_at(looked_at);
    let rule_holds = |rule: &scan::Rule| trusted(rule.stamp, scan::stamp_of_rule(root, &rule.path));
    if !tree.whole || tree.directories.is_empty() || !tree.rules.iter().all(rule_holds) {
        return None;
    }
    let places = Places::of(tree, known)?;
    let parts = in_parallel(threads, tree.directories.len(), |range| {
        look(root, tree, known, &places, range, looked_at)
    })?;
    let mut stamps = vec![None; known.len()];
    let mut changed = Vec::new();
    for part in parts {
        part.stamps.into_iter().for_each(|(file, stamp)| stamps[file as usize] = Some(stamp));
        changed.extend(part.changed);
    }
    if changed.is_empty() {
        return Some(Seen {
            known: stamps,
            new: Vec::new(),
            tree: tree.clone(),
            skipped: skipped(tree),
        });
    }
    changed.sort_unstable();
    // Listing many folders one by one is not faster than walking.
    if changed.len() > 64.max(tree.directories.len() / 4) {
        return None;
    }
    Relisting { root, tree, changed: &changed, threads }.merge(known, stamps)
}

/// What was skipped in all folders.
fn skipped(tree: &Tree) -> Skipped {
    let mut all = Skipped::default();
    for directory in &tree.directories {
        all.odd_paths += u64::from(directory.aside.odd_paths);
        all.not_files += u64::from(directory.aside.not_files);
        all.secrets += u64::from(directory.aside.secrets);
    }
    all
}

/// The known files by folder.
struct Places {
    /// Start of each folder's files in `files`; one more at the end.
    starts: Vec<u32>,
    files: Vec<u32>,
}

impl Places {
    /// `None` if a file is not in a known folder.
    fn of<K: KnownFile>(tree: &Tree, known: &[K]) -> Option<Self> {
        let numbers: HashMap<&str, u32> = tree
            .directories
            .iter()
            .zip(0u32..)
            .map(|(directory, number)| (directory.path.as_str(), number))
            .collect();
        // Ordered by path, a file is mostly in the folder of the previous one.
        let mut last = ("", *numbers.get("")?);
        let mut homes = Vec::with_capacity(known.len());
        let mut starts = vec![0u32; tree.directories.len() + 1];
        for file in known {
            let folder = scan::folder_of(file.path());
            if folder != last.0 {
                last = (folder, *numbers.get(folder)?);
            }
            homes.push(last.1);
            starts[last.1 as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut files = vec![0; known.len()];
        for (file, home) in (0u32..).zip(homes) {
            let place = &mut next[home as usize];
            files[*place as usize] = file;
            *place += 1;
        }
        Some(Self { starts, files })
    }

    fn in_directory(&self, directory: usize) -> &[u32] {
        &self.files[self.starts[directory] as usize..self.starts[directory + 1] as usize]
    }
}

#[derive(Default)]
struct Part {
    stamps: Vec<(u32, Stamp)>,
    changed: Vec<u32>,
}

/// Checks some folders and the known files in them.
fn look<K: KnownFile>(
    root: &Path,
    tree: &Tree,
    known: &[K],
    places: &Places,
    range: Range<usize>,
    looked_at: i64,
) -> Part {
    let mut part = Part::default();
    let Ok(top) = open_folder(nix::fcntl::AT_FDCWD, root) else {
        part.changed.extend(range.filter_map(|number| u32::try_from(number).ok()));
        return part;
    };
    for number in range {
        let directory = &tree.directories[number];
        let before = part.stamps.len();
        let mut same = || {
            let path = if directory.path.is_empty() { "." } else { directory.path.as_str() };
            let folder = open_folder(&top, path).ok()?;
            let stamp = stamp_of(&fstat(&folder).ok()?);
            if stamp != directory.stamp || stamp.is_fresh_at(looked_at) {
                return None;
            }
            for file in places.in_directory(number) {
                let path = known[*file as usize].path();
                let name = path.rsplit('/').next().unwrap_or(path);
                let found = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
                let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
                if kind != SFlag::S_IFREG {
                    return None;
                }
                part.stamps.push((*file, stamp_of(&found)));
            }
            Some(())
        };
        if same().is_none() {
            part.stamps.truncate(before);
            part.changed.extend(u32::try_from(number).ok());
        }
    }
    part
}

fn open_folder<P: ?Sized + nix::NixPath>(
    at: impl AsFd,
    path: &P,
) -> nix::Result<std::os::fd::OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

fn stamp_of(stat: &FileStat) -> Stamp {
    Stamp {
        changed: stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(stat.st_ctime_nsec),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        inode: stat.st_ino,
    }
}

/// Divides `count` elements among threads in small ranges; `None` if a thread panicked.
fn in_parallel<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> Option<Vec<T>> {
    const STRIDE: usize = 256;
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(STRIDE, Ordering::Relaxed);
            if start >= count {
                return done;
            }
            done.push(work(start..(start + STRIDE).min(count)));
        }
    };
    let threads = threads.clamp(1, count.div_ceil(STRIDE).max(1));
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut all = worker();
        for other in others {
            all.extend(other.join().ok()?);
        }
        Some(all)
    })
}

/// Lists the folders that changed, and new ones below them.
struct Relisting<'a> {
    root: &'a Path,
    tree: &'a Tree,
    /// Numbers of folders, in order.
    changed: &'a [u32],
    threads: usize,
}

/// What to do with a folder of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Interest {
    /// It has changed: list it.
    Listed,
    /// A folder below it has changed.
    Passed,
    /// Neither.
    Left,
}

impl Relisting<'_> {
    fn merge<K: KnownFile>(&self, known: &[K], mut stamps: Vec<Option<Stamp>>) -> Option<Seen> {
        let interests = Arc::new(self.interests());
        let scanned = self.walk(&interests);
        if scanned.skipped.unreadable > 0 {
            return None;
        }
        let interest = |path: &str| interests.get(path).copied();
        // A folder is gone if its parent is gone, or was listed and does not contain it.
        let found: HashMap<&str, &scan::Directory> =
            scanned.tree.directories.iter().map(|found| (found.path.as_str(), found)).collect();
        let mut alive: HashMap<&str, bool> = HashMap::new();
        let mut tree = Tree { whole: true, ..Tree::default() };
        for directory in &self.tree.directories {
            let path = directory.path.as_str();
            let parent = scan::folder_of(path);
            let named = path.is_empty()
                || interest(parent) != Some(Interest::Listed)
                || found.contains_key(path);
            let lives = named && (path.is_empty() || alive.get(parent).copied().unwrap_or(false));
            alive.insert(path, lives);
            let listed = interest(path) == Some(Interest::Listed);
            if lives && listed && self.rules_of(path) != scan::rules_in(self.root, path) {
                return None;
            }
            if lives && !listed {
                tree.directories.push(directory.clone());
            }
        }
        let fresh = |path: &str| !matches!(interest(path), Some(Interest::Passed | Interest::Left));
        let listed = scanned.tree.directories.iter().filter(|directory| fresh(&directory.path));
        tree.directories.extend(listed.cloned());
        tree.directories.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        tree.rules = self.rules(&alive, &scanned.tree, &fresh);
        let mut new = Vec::new();
        for (file, stamp) in known.iter().zip(&mut stamps) {
            if !alive.get(scan::folder_of(file.path())).copied().unwrap_or(false) {
                *stamp = None;
            }
        }
        for found in scanned.files.into_iter().filter(|file| fresh(scan::folder_of(&file.path))) {
            match known.binary_search_by(|file| file.path().cmp(&found.path)) {
                Ok(at) => stamps[at] = Some(found.stamp),
                Err(_) => new.push(found),
            }
        }
        let skipped = skipped(&tree);
        Some(Seen { known: stamps, new, tree, skipped })
    }

    /// Every known folder, and what to do with it.
    fn interests(&self) -> HashMap<String, Interest> {
        let all = self.tree.directories.iter();
        let mut interests: HashMap<String, Interest> =
            all.map(|directory| (directory.path.clone(), Interest::Left)).collect();
        for number in self.changed {
            let mut path = self.tree.directories[*number as usize].path.as_str();
            interests.insert(path.to_owned(), Interest::Listed);
            while !path.is_empty() {
                path = scan::folder_of(path);
                if let Some(interest @ Interest::Left) = interests.get_mut(path) {
                    *interest = Interest::Passed;
                }
            }
        }
        interests
    }

    fn walk(&self, interests: &Arc<HashMap<String, Interest>>) -> scan::Scanned {
        let (root, interests) = (self.root.to_owned(), Arc::clone(interests));
        let wanted = move |entry: &ignore::DirEntry| {
            let Some(path) = entry.path().strip_prefix(&root).ok().and_then(Path::to_str) else {
                return true;
            };
            let in_passed = matches!(
                interests.get(scan::folder_of(path)),
                Some(Interest::Passed | Interest::Left)
            );
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            match interests.get(path).filter(|_| is_folder) {
                // An unchanged one must still be seen where its folder is listed.
                Some(Interest::Left) => !in_passed,
                Some(_) => true,
                None => !in_passed,
            }
        };
        scan::walk(self.root, self.threads, usize::MAX, wanted)
    }

    fn rules_of(&self, folder: &str) -> Vec<scan::Rule> {
        let mut known: Vec<scan::Rule> =
            self.tree.rules.iter().filter(|rule| owner(&rule.path) == folder).cloned().collect();
        known.sort_unstable();
        known
    }

    fn rules(
        &self,
        alive: &HashMap<&str, bool>,
        scanned: &Tree,
        fresh: &impl Fn(&str) -> bool,
    ) -> Vec<scan::Rule> {
        let lives = |rule: &&scan::Rule| {
            let folder = owner(&rule.path);
            !fresh(folder) && alive.get(folder).copied().unwrap_or(false)
        };
        let mut rules: Vec<scan::Rule> = self.tree.rules.iter().filter(lives).cloned().collect();
        rules.extend(scanned.rules.iter().filter(|rule| fresh(owner(&rule.path))).cloned());
        rules.sort_unstable();
        rules
    }
}

/// The folder that a rule belongs to.
fn owner(rule: &str) -> &str {
    if rule.starts_with('/') {
        // The root of a linked work tree.
        return "";
    }
    match rule.strip_suffix(".git/info/exclude") {
        Some(folder) => folder.trim_end_matches('/'),
        None => scan::folder_of(rule),
    }
}
