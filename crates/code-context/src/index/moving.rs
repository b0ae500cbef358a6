//! The index of a code base at one commit after another, without a work tree. Each content is read
//! once; a move costs the difference between two commits. Results equal those of an index of the
//! checked-out commit.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::git::GitError;
use crate::git::history::{self, History, MAX_COMMITS};
use crate::git::objects::{BlobId, Blobs, Objects};
use crate::index::build::{self, WORDS_PER_SEGMENT};
use crate::index::catalog::Entry;
use crate::index::open::{Index, NONE};
use crate::index::part::{self, Fresh, Part};
use crate::index::scan::Stamp;
use crate::index::segment::{Builder, Segment, SegmentError};
use crate::index::snapshot::Snapshot;
use crate::text::document::{Content, Document, Reader};
use crate::text::language::Language;
use crate::{Ancestry, ContextError, Options};

/// Words kept in memory until they are written as a segment: about 30 MiB.
const FRESH_WORDS: usize = 500_000;
/// With this many files at once, segments are written directly.
const MANY: usize = 1000;
/// Files read between two checks whether a segment is full.
const STRIDE: usize = 256;

type Wanted = (String, BlobId);
/// A file with its content id.
type Kept = (Entry, BlobId);

/// An index that moves along a history. Its folder is removed on drop.
#[derive(Debug)]
pub struct MovingIndex {
    index: Index,
    /// The code base's folder within its repository, with a trailing slash; empty: all of it.
    prefix: String,
    options: Options,
    ancestry: Arc<Ancestry>,
    snapshot: Snapshot,
    /// Documents of other commits, in parts that still exist.
    others: HashMap<Wanted, Entry>,
    /// Contents that are not in the repository.
    missing: HashSet<BlobId>,
    segments: Segments,
}

/// Result of a move.
#[derive(Debug)]
pub enum Moved<'a> {
    Here(&'a Index),
    /// The commit is not in the repository.
    NoCommit,
    /// The commit does not have the code base's folder.
    NoFolder,
}

/// The folder of the segments.
#[derive(Debug)]
struct Segments {
    folder: PathBuf,
    next: AtomicUsize,
}

impl Segments {
    fn next(&self) -> PathBuf {
        self.folder.join(format!("segment-{:06}", self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "could not remove the index of past commits");
        }
    }
}

impl MovingIndex {
    /// An index of the code base at `root`, which is the folder `prefix` of its repository. It
    /// writes only below `folder`, which it owns.
    pub fn open(
        root: &Path,
        prefix: &str,
        folder: &Path,
        ancestry: Arc<Ancestry>,
        options: &Options,
    ) -> Result<Self, ContextError> {
        let unwritable = |source| ContextError::Store { path: folder.to_owned(), source };
        // The rest of an interrupted one is useless.
        if folder.is_dir() {
            std::fs::remove_dir_all(folder).map_err(unwritable)?;
        }
        crate::private_files::create_folder(folder).map_err(unwritable)?;
        let segments = Segments { folder: folder.to_owned(), next: AtomicUsize::new(0) };
        let objects = Objects::open(root).map_err(unreadable(root))?;
        Ok(Self {
            index: Index::of_objects(root.to_owned(), Blobs::of(objects)),
            prefix: prefix.to_owned(),
            options: *options,
            ancestry,
            snapshot: Snapshot::default(),
            others: HashMap::new(),
            missing: HashSet::new(),
            segments,
        })
    }

    /// Moves to a commit, given by its full id. After an error the index is unusable.
    pub fn move_to(&mut self, commit: &str) -> Result<Moved<'_>, ContextError> {
        let root = self.index.root().to_owned();
        let blobs = self.index.blobs().ok_or(ContextError::Worker)?;
        let ids = std::mem::take(&mut blobs.ids);
        let objects = blobs.objects();
        let tree = tree_of(objects, commit, self.prefix.trim_end_matches('/'));
        let tree = match tree.map_err(unreadable(&root))? {
            Some(Some(tree)) => tree,
            unusable => {
                blobs.ids = ids;
                return Ok(if unusable.is_some() { Moved::NoFolder } else { Moved::NoCommit });
            }
        };
        self.snapshot.move_to(&root, objects, &tree).map_err(unreadable(&root))?;
        let old = self.index.take_files().into_iter().zip(ids);
        let (mut kept, mut wanted) = self.compare(old);
        self.drop_stale_parts(&mut kept, &mut wanted);
        kept.extend(self.read(&root, wanted)?);
        // A stable sort: it is fast with ordered runs.
        kept.sort_by(|a, b| a.0.path.cmp(&b.0.path));
        let (files, ids) = kept.into_iter().unzip();
        self.index.number(files);
        self.index.blobs().ok_or(ContextError::Worker)?.ids = ids;
        self.move_history(&root, commit);
        Ok(Moved::Here(&self.index))
    }

    /// Separates the known files of the commit from those to read.
    fn compare(&mut self, old: impl Iterator<Item = Kept>) -> (Vec<Kept>, Vec<Wanted>) {
        let mut old = old.peekable();
        let (mut kept, mut wanted) = (Vec::new(), Vec::new());
        let others = &mut self.others;
        let mut set_aside = |(entry, id): Kept| {
            others.insert((entry.path.clone(), id), entry);
        };
        for (path, id) in self.snapshot.files().take(self.options.most_files) {
            while let Some(gone) = old.next_if(|(entry, _)| entry.path < *path) {
                set_aside(gone);
            }
            match old.next_if(|(entry, _)| entry.path == *path) {
                Some(same) if same.1 == *id => kept.push(same),
                changed => {
                    changed.into_iter().for_each(&mut set_aside);
                    wanted.push((path.clone(), id.clone()));
                }
            }
        }
        old.for_each(set_aside);
        wanted.retain(|wanted| match self.others.remove(wanted) {
            Some(entry) => {
                kept.push((entry, wanted.1.clone()));
                false
            }
            None => !self.missing.contains(&wanted.1),
        });
        (kept, wanted)
    }

    /// Drops stored parts that are mostly about other commits; files that are still needed are read
    /// again.
    fn drop_stale_parts(&mut self, kept: &mut Vec<Kept>, wanted: &mut Vec<Wanted>) {
        let mut living = vec![0; self.index.parts.len()];
        kept.iter().for_each(|(entry, _)| living[entry.position.segment as usize] += 1);
        let is_stale = |(part, living): (&(Part, Vec<u32>), &usize)| {
            matches!(part.0, Part::Stored(_)) && living * 2 < part.1.len()
        };
        let stale: Vec<bool> = self.index.parts.iter().zip(&living).map(is_stale).collect();
        if !stale.contains(&true) {
            return;
        }
        let is_stale = |entry: &Entry| stale[entry.position.segment as usize];
        let again = kept.extract_if(.., |(entry, _)| is_stale(entry));
        wanted.extend(again.map(|(entry, id)| (entry.path, id)));
        self.others.retain(|_, entry| !is_stale(entry));
        for (part, _) in self.index.parts.iter_mut().zip(&stale).filter(|(_, stale)| **stale) {
            *part = (Part::GivenUp, Vec::new());
        }
    }

    fn read(&mut self, root: &Path, wanted: Vec<Wanted>) -> Result<Vec<Kept>, ContextError> {
        let found = match wanted.len() {
            0 => return Ok(Vec::new()),
            MANY.. => self.read_many(root, &wanted)?,
            _ => self.read_few(root, &wanted)?,
        };
        let read: HashSet<&str> = found.iter().map(|(_, id)| id.as_str()).collect();
        let missing = wanted.into_iter().filter(|(_, id)| !read.contains(id.as_str()));
        self.missing.extend(missing.map(|(_, id)| id));
        Ok(found)
    }

    fn read_few(&mut self, root: &Path, wanted: &[Wanted]) -> Result<Vec<Kept>, ContextError> {
        let (number, mut fresh) = self.take_fresh();
        let mut found = Vec::with_capacity(wanted.len());
        let objects = self.index.blobs().ok_or(ContextError::Worker)?.objects();
        let (options, mut reader) = (self.options, Reader::default());
        each_document(objects, wanted, &options, &mut reader, |at, document| {
            let (path, id) = &wanted[at];
            if let Some(mut entry) = fresh.push(path, document) {
                entry.position.segment = number;
                found.push((entry, id.clone()));
            }
        })
        .map_err(unreadable(root))?;
        let documents = vec![NONE; fresh.documents()];
        let part = if fresh.weight() < FRESH_WORDS {
            Part::Fresh(fresh)
        } else {
            let path = self.segments.next();
            Part::Stored(fresh.store(&path).map_err(unwritable(&path))?)
        };
        self.index.parts[number as usize] = (part, documents);
        Ok(found)
    }

    /// The part in memory, or a new one.
    fn take_fresh(&mut self) -> (u32, Fresh) {
        let parts = &mut self.index.parts;
        let at = parts.iter().position(|(part, _)| matches!(part, Part::Fresh(_)));
        let at = at.unwrap_or_else(|| free_place(parts));
        let number = u32::try_from(at).unwrap_or(NONE);
        match std::mem::replace(&mut parts[at], (Part::GivenUp, Vec::new())).0 {
            Part::Fresh(fresh) => (number, fresh),
            _ => (number, Fresh::default()),
        }
    }

    /// Reads into segments, with several threads.
    fn read_many(&mut self, root: &Path, wanted: &[Wanted]) -> Result<Vec<Kept>, ContextError> {
        let share = wanted.len().div_ceil(self.options.threads.max(1));
        let (options, segments) = (&self.options, &self.segments);
        let results: Vec<_> = std::thread::scope(|scope| {
            let write = |part| move || write_segments(root, part, options, segments);
            let workers: Vec<_> =
                wanted.chunks(share).map(|part| scope.spawn(write(part))).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or(Err(ContextError::Worker))
            };
            workers.into_iter().map(join).collect()
        });
        let mut found = Vec::with_capacity(wanted.len());
        for result in results {
            for (segment, documents) in result? {
                let place = free_place(&mut self.index.parts);
                self.index.parts[place] = (Part::Stored(segment), vec![NONE; documents.len()]);
                let number = u32::try_from(place).unwrap_or(NONE);
                found.extend(documents.into_iter().map(|(mut entry, id)| {
                    entry.position.segment = number;
                    (entry, id)
                }));
            }
        }
        Ok(found)
    }

    fn move_history(&mut self, root: &Path, commit: &str) {
        if !self.options.history || self.index.history.head == commit {
            return;
        }
        let listed = self.ancestry.newest(commit, MAX_COMMITS);
        let listed = listed.or_else(|| history::list(root, commit).ok());
        let known = std::mem::take(&mut self.index.history);
        let moved = listed.map(|ids| History::at(root, commit.to_owned(), &ids, known));
        self.index.history = moved.unwrap_or_default();
    }
}

/// The tree of a commit's folder: `None` without the commit, `Some(None)` without the folder.
fn tree_of(
    objects: &mut Objects,
    commit: &str,
    folder: &str,
) -> Result<Option<Option<String>>, GitError> {
    let Some(whole) = objects.tree(&format!("{commit}^{{tree}}"))? else { return Ok(None) };
    if folder.is_empty() {
        return Ok(Some(Some(whole)));
    }
    Ok(Some(objects.tree(&format!("{commit}:{folder}"))?))
}

/// An unused part number.
fn free_place(parts: &mut Vec<(Part, Vec<u32>)>) -> usize {
    let free = parts.iter().position(|(part, _)| matches!(part, Part::GivenUp));
    free.unwrap_or_else(|| {
        parts.push((Part::GivenUp, Vec::new()));
        parts.len() - 1
    })
}

/// Reads files and calls back with each existing one as the index sees it.
fn each_document(
    objects: &mut Objects,
    wanted: &[Wanted],
    options: &Options,
    reader: &mut Reader,
    mut each: impl FnMut(usize, &Document),
) -> Result<(), GitError> {
    let ids: Vec<&str> = wanted.iter().map(|(_, id)| id.as_str()).collect();
    let limit = |at: usize| build::limit(&wanted[at].0, options);
    objects.each(&ids, limit, |at, size, text| {
        let Some(size) = size else { return };
        let path = &wanted[at].0;
        let content = if size > limit(at) {
            Content::Large
        } else {
            build::judge(text, Language::of_path(path))
        };
        each(at, &build::document(reader, path, content, text));
    })
}

/// What one thread reads, written as it comes.
fn write_segments(
    root: &Path,
    wanted: &[Wanted],
    options: &Options,
    segments: &Segments,
) -> Result<Vec<(Segment, Vec<Kept>)>, ContextError> {
    let mut objects = Objects::open(root).map_err(unreadable(root))?;
    let (mut reader, mut builder) = (Reader::default(), Builder::default());
    let (mut written, mut ids) = (Vec::new(), Vec::new());
    for (number, stride) in wanted.chunks(STRIDE).enumerate() {
        each_document(&mut objects, stride, options, &mut reader, |at, document| {
            builder.push(&stride[at].0, Stamp::default(), document);
            ids.push(stride[at].1.clone());
        })
        .map_err(unreadable(root))?;
        let last = (number + 1) * STRIDE >= wanted.len();
        if (last || builder.weight() >= WORDS_PER_SEGMENT) && !builder.is_empty() {
            let path = segments.next();
            let (segment, entries) = part::store(builder, &path).map_err(unwritable(&path))?;
            builder = Builder::default();
            written.push((segment, entries.into_iter().zip(std::mem::take(&mut ids)).collect()));
        }
    }
    Ok(written)
}

fn unreadable(root: &Path) -> impl FnOnce(GitError) -> ContextError {
    let path = root.to_owned();
    move |source| ContextError::Commits { path, source }
}

fn unwritable(path: &Path) -> impl FnOnce(SegmentError) -> ContextError {
    let path = path.to_owned();
    move |error| match error {
        SegmentError::Io(source) => ContextError::Store { path, source },
        SegmentError::Damaged => ContextError::Damaged { reason: error.to_string() },
    }
}
