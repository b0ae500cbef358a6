//! The index of one repository: built or brought up to date, then read.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::build::{self, Plan};
use super::document::{Definition, FIELDS, Posting};
use super::history::History;
use super::kind::Kind;
use super::scan::{self, Found};
use super::segment::{Entry, Segment, SegmentError};
use super::store::{Manifest, SegmentName, Store};
use super::term::Term;
use super::{BuildReport, ContextError, Options};

/// No document of the index: the segment's document is dead.
const NONE: u32 = u32::MAX;

/// The index of one repository, opened for reading.
///
/// Files are numbered in the order of their paths, so nothing that is computed from an index
/// depends on how it came about.
#[derive(Debug)]
pub struct Index {
    root: PathBuf,
    segments: Vec<(Segment, Vec<u32>)>,
    files: Vec<Entry>,
    home: Vec<u32>,
    history: History,
    average: [f64; FIELDS],
}

impl Index {
    /// Opens the index of `repository` in `cache`, after building it or bringing it up to date.
    ///
    /// Blocks, waits for another builder of the same index, and writes only below `cache`, which must
    /// not lie inside the repository.
    pub fn open_or_build(
        repository: &Path,
        cache: &Path,
        options: &Options,
    ) -> Result<(Self, BuildReport), ContextError> {
        let unreadable = |source| ContextError::Repository { path: repository.to_owned(), source };
        let root = repository.canonicalize().map_err(unreadable)?;
        if !root.is_dir() {
            return Err(unreadable(std::io::ErrorKind::NotADirectory.into()));
        }
        std::fs::create_dir_all(cache)
            .map_err(|source| ContextError::Store { path: cache.to_owned(), source })?;
        let cache = cache
            .canonicalize()
            .map_err(|source| ContextError::Store { path: cache.to_owned(), source })?;
        let store = Store::open(&cache, &root)?;
        let (lock, now) = store.lock()?;
        let mut report = BuildReport::default();
        let history = std::thread::scope(|scope| {
            let history = scope.spawn(|| {
                if options.history {
                    refresh_history(&root, &store)
                } else {
                    Ok(History::default())
                }
            });
            let (manifest, opened) = update(&root, &store, now, options, &mut report)?;
            let history = history.join().unwrap_or(Err(ContextError::Worker))?;
            Ok::<_, ContextError>((history, manifest, opened))
        });
        let (history, manifest, opened) = history?;
        drop(lock);
        report.commits = history.commits.len();
        let index = Self::read(root, &store, &manifest, opened, history)
            .map_err(|error| ContextError::Damaged { reason: error.to_string() })?;
        index.files.iter().for_each(|entry| report.skipped.count(entry.content));
        Ok((index, report))
    }

    fn read(
        root: PathBuf,
        store: &Store,
        manifest: &Manifest,
        mut already: Opened,
        history: History,
    ) -> Result<Self, SegmentError> {
        let mut opened = Vec::new();
        let mut all = Vec::new();
        for (number, name) in manifest.segments.iter().enumerate() {
            let (segment, entries) = match already.remove(&name.file) {
                Some(open) => open,
                None => Segment::open(&store.path(&name.file))?,
            };
            let count = entries.len();
            let dead: HashSet<u32> = name.dead.iter().copied().collect();
            all.extend(
                entries
                    .into_iter()
                    .zip(0u32..)
                    .filter(|(_, local)| !dead.contains(local))
                    .map(|(entry, local)| (entry, number, local)),
            );
            opened.push((segment, vec![NONE; count]));
        }
        all.sort_unstable_by(|a, b| a.0.path.cmp(&b.0.path));
        let mut files = Vec::with_capacity(all.len());
        let mut home = Vec::with_capacity(all.len());
        for ((entry, segment, local), global) in all.into_iter().zip(0u32..) {
            opened[segment].1[local as usize] = global;
            files.push(entry);
            home.push(u32::try_from(segment).unwrap_or(NONE));
        }
        let average = average_lengths(&files);
        Ok(Self { root, segments: opened, files, home, history, average })
    }

    /// The repository's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file, in the order of paths; its place is its number.
    pub fn files(&self) -> &[Entry] {
        &self.files
    }

    /// The number of a path.
    pub fn find(&self, path: &str) -> Option<u32> {
        self.files
            .binary_search_by(|entry| entry.path.as_str().cmp(path))
            .ok()
            .and_then(|at| u32::try_from(at).ok())
    }

    /// The repository's past.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Mean words per field over the product's code.
    pub(super) fn average(&self) -> &[f64; FIELDS] {
        &self.average
    }

    /// Gives each posting of a term with its file's number, in no particular order.
    pub(super) fn postings(
        &self,
        term: Term,
        mut each: impl FnMut(u32, &Posting),
    ) -> Result<(), ContextError> {
        for (segment, globals) in &self.segments {
            let result = segment.postings(term, |local, posting| {
                if let Some(global) = globals.get(local as usize).filter(|global| **global != NONE)
                {
                    each(*global, posting);
                }
            });
            result.map_err(|error| ContextError::Damaged { reason: error.to_string() })?;
        }
        Ok(())
    }

    /// What a file defines, in its order.
    pub fn definitions(&self, file: u32) -> Result<Vec<Definition>, ContextError> {
        let (Some(entry), Some(home)) =
            (self.files.get(file as usize), self.home.get(file as usize))
        else {
            return Ok(Vec::new());
        };
        let Some((segment, _)) = self.segments.get(*home as usize) else { return Ok(Vec::new()) };
        segment
            .definitions(entry)
            .map_err(|error| ContextError::Damaged { reason: error.to_string() })
    }
}

fn average_lengths(files: &[Entry]) -> [f64; FIELDS] {
    let mut sums = [0u64; FIELDS];
    let mut count = 0u64;
    for entry in files.iter().filter(|entry| entry.kind == Kind::Source) {
        count += 1;
        for (sum, length) in sums.iter_mut().zip(entry.lengths) {
            *sum += u64::from(length);
        }
    }
    sums.map(|sum| (sum as f64 / count.max(1) as f64).max(1.0))
}

fn refresh_history(root: &Path, store: &Store) -> Result<History, ContextError> {
    let known = store.history();
    let known_head = known.as_ref().map(|history| history.head.clone());
    let history = History::read(root, known);
    if known_head.as_ref() != Some(&history.head) {
        store.publish_history(&history)?;
    }
    Ok(history)
}

/// Brings the segments up to date and gives the manifest that names them.
fn update(
    root: &Path,
    store: &Store,
    now: i64,
    options: &Options,
    report: &mut BuildReport,
) -> Result<(Manifest, Opened), ContextError> {
    let (files, skipped) = scan::scan(root, options.threads, options.most_files);
    report.files = files.len();
    report.skipped = skipped;
    let present = store.manifest();
    let opened = present.as_ref().map(|manifest| open_all(store, manifest));
    let (mut manifest, mut opened) = match (present, opened) {
        (Some(manifest), Some(Ok(opened))) => (manifest, opened),
        (Some(_), _) => {
            report.rebuilt = Some("the old one was damaged");
            (store.empty_manifest(), Opened::new())
        }
        (None, _) => (store.empty_manifest(), Opened::new()),
    };
    let known = living(&manifest, &opened);
    let mut todo = build::plan(&files, &known, manifest.looked_at);
    if let Some(reason) =
        build::is_worn(&todo, manifest.segments.len()).filter(|_| !manifest.segments.is_empty())
    {
        report.rebuilt = Some(reason);
        manifest.segments.clear();
        todo = Plan { read: files.iter().collect::<Vec<&Found>>(), dead: Vec::new(), kept: 0 };
    }
    report.kept = todo.kept;
    report.read = todo.read.len();
    report.gone = todo.dead.iter().map(Vec::len).sum();
    if report.read > 0 || report.gone > 0 || manifest.generation == 0 {
        manifest.generation += 1;
        let new = build::build(root, store, &todo.read, manifest.generation, options)?;
        retire(&mut manifest.segments, &todo.dead, &known);
        manifest.segments.extend(new);
        manifest.looked_at = now;
        store.publish(&manifest)?;
    }
    opened.retain(|file, _| manifest.segments.iter().any(|segment| segment.file == *file));
    Ok((manifest, opened))
}

/// Segments that are open already, by file name, so that none is opened twice.
type Opened = HashMap<String, (Segment, Vec<Entry>)>;

fn open_all(store: &Store, manifest: &Manifest) -> Result<Opened, SegmentError> {
    let names = manifest.segments.iter().map(|name| name.file.clone());
    names.map(|file| Ok((file.clone(), Segment::open(&store.path(&file))?))).collect()
}

/// The living documents of every segment.
fn living<'a>(manifest: &Manifest, opened: &'a Opened) -> Vec<Vec<build::Known<'a>>> {
    let of_segment = |name: &SegmentName| {
        let dead: HashSet<u32> = name.dead.iter().copied().collect();
        let entries = opened.get(&name.file).map_or(&[][..], |(_, entries)| entries.as_slice());
        let living = entries.iter().zip(0u32..).filter(|(_, number)| !dead.contains(number));
        living.map(|(entry, number)| (number, entry.path.as_str(), entry.stamp)).collect()
    };
    manifest.segments.iter().map(of_segment).collect()
}

/// Marks documents dead, and drops segments in which nothing lives.
fn retire(segments: &mut Vec<SegmentName>, dead: &[Vec<u32>], known: &[Vec<build::Known<'_>>]) {
    let mut number = 0;
    segments.retain_mut(|segment| {
        let newly = dead.get(number).map_or(&[][..], Vec::as_slice);
        let living = known.get(number).map_or(0, Vec::len);
        number += 1;
        segment.dead.extend_from_slice(newly);
        segment.dead.sort_unstable();
        newly.len() < living
    });
}
