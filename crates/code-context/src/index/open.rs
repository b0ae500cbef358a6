//! The index of one repository: built or updated, then read.

use std::path::{Path, PathBuf};

use crate::git::history::History;
use crate::index::build;
use crate::index::catalog::{Catalog, Entry};
use crate::index::plan;
use crate::index::scan;
use crate::index::segment::{Segment, SegmentError};
use crate::index::store::IndexStore;
use crate::text::document::{Definition, FIELDS, Posting};
use crate::text::kind::Kind;
use crate::text::term::Term;
use crate::{BuildReport, ContextError, Options};

/// Marks a dead document of a segment.
const NONE: u32 = u32::MAX;

/// The index of one repository, opened for reading.
///
/// Files are numbered in the order of their paths, so results do not depend on how the index was
/// built.
#[derive(Debug)]
pub struct Index {
    root: PathBuf,
    /// Each with the file numbers of its documents.
    segments: Vec<(Segment, Vec<u32>)>,
    files: Vec<Entry>,
    history: History,
    average: [f64; FIELDS],
}

impl Index {
    /// Opens the index of `repository` in `cache`, after building or updating it.
    ///
    /// Blocks, waits for another builder of the same index, and writes only below `cache`, which
    /// must not be inside the repository.
    pub fn open_or_build(
        repository: &Path,
        cache: &Path,
        options: &Options,
    ) -> Result<(Self, BuildReport), ContextError> {
        Self::open(repository, cache, options, None)
    }

    /// Rebuilds the index and opens it: the remedy for [`ContextError::Damaged`].
    pub fn rebuild(
        repository: &Path,
        cache: &Path,
        options: &Options,
    ) -> Result<(Self, BuildReport), ContextError> {
        Self::open(repository, cache, options, Some(DAMAGED))
    }

    /// Opens the index and queries it. If it is damaged, it is rebuilt and queried again; the
    /// report says so.
    pub fn ask<T>(
        repository: &Path,
        cache: &Path,
        options: &Options,
        question: impl Fn(&Self) -> Result<T, ContextError>,
    ) -> Result<(T, BuildReport), ContextError> {
        let (index, report) = Self::open_or_build(repository, cache, options)?;
        match question(&index) {
            Err(ContextError::Damaged { .. }) => {
                let (index, report) = Self::rebuild(repository, cache, options)?;
                Ok((question(&index)?, report))
            }
            answer => Ok((answer?, report)),
        }
    }

    fn open(
        repository: &Path,
        cache: &Path,
        options: &Options,
        given_up: Option<&'static str>,
    ) -> Result<(Self, BuildReport), ContextError> {
        let unreadable = |source| ContextError::Repository { path: repository.to_owned(), source };
        let root = repository.canonicalize().map_err(unreadable)?;
        if !root.is_dir() {
            return Err(unreadable(std::io::ErrorKind::NotADirectory.into()));
        }
        let unwritable = |source| ContextError::Store { path: cache.to_owned(), source };
        crate::private_files::create_folder(cache).map_err(unwritable)?;
        let store = IndexStore::open(&cache.canonicalize().map_err(unwritable)?, &root)?;
        let (_lock, now) = store.lock()?;
        let mut report = BuildReport { rebuilt: given_up, ..BuildReport::default() };
        let (updated, history) = std::thread::scope(|scope| {
            let history = scope.spawn(|| {
                if options.history {
                    refresh_history(&root, &store)
                } else {
                    Ok(History::default())
                }
            });
            let updated = update(&root, &store, now, options, &mut report);
            (updated, history.join().unwrap_or(Err(ContextError::Worker)))
        });
        let ((catalog, segments), history) = (updated?, history?);
        report.commits = history.commits.len();
        let index = Self::of(root, catalog, segments, history);
        index.files.iter().for_each(|entry| report.skipped.count(entry.content));
        Ok((index, report))
    }

    fn of(root: PathBuf, catalog: Catalog, opened: Vec<Segment>, history: History) -> Self {
        let counts = catalog.segments.iter().map(|segment| vec![NONE; segment.documents as usize]);
        let mut segments: Vec<(Segment, Vec<u32>)> = opened.into_iter().zip(counts).collect();
        for (entry, global) in catalog.files.iter().zip(0u32..) {
            if let Some(place) = segments
                .get_mut(entry.position.segment as usize)
                .and_then(|(_, globals)| globals.get_mut(entry.position.local as usize))
            {
                *place = global;
            }
        }
        let average = average_lengths(&catalog.files);
        Self { root, segments, files: catalog.files, history, average }
    }

    /// The text of a file, if it can be shown.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.beginning(path, Options::default().largest_file)
    }

    /// The first bytes of a text, if it can be shown.
    pub(crate) fn beginning(&self, path: &str, most: u64) -> Option<String> {
        build::read_head(&self.root.join(path), most)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every file, ordered by path; its position is its number.
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

    /// The files directly in a folder, ordered by path; the root is empty.
    pub(crate) fn inside(&self, folder: &str) -> impl Iterator<Item = &Entry> {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let first = self.files.partition_point(|entry| entry.path.as_str() < start.as_str());
        self.files[first..]
            .iter()
            .map_while(move |entry| {
                let name = entry.path.strip_prefix(start.as_str())?;
                Some((entry, name))
            })
            .filter(|(_, name)| !name.contains('/'))
            .map(|(entry, _)| entry)
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// Mean number of words per field over the product's code.
    pub(crate) fn average(&self) -> &[f64; FIELDS] {
        &self.average
    }

    /// Calls back for each posting of a term with its file's number, in no particular order.
    pub(crate) fn postings(
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

    /// The definitions of a file, in its order.
    pub fn definitions(&self, file: u32) -> Result<Vec<Definition>, ContextError> {
        let Some(entry) = self.files.get(file as usize) else { return Ok(Vec::new()) };
        let Some((segment, _)) = self.segments.get(entry.position.segment as usize) else {
            return Ok(Vec::new());
        };
        segment
            .definitions(&entry.position)
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

fn refresh_history(root: &Path, store: &IndexStore) -> Result<History, ContextError> {
    let known = store.history();
    let known_head = known.as_ref().map(|history| history.head.clone());
    let history = History::read(root, known);
    if known_head.as_ref() != Some(&history.head) {
        store.publish_history(&history)?;
    }
    Ok(history)
}

/// Updates the segments and returns the catalogue that names them, with all of them open.
fn update(
    root: &Path,
    store: &IndexStore,
    now: i64,
    options: &Options,
    report: &mut BuildReport,
) -> Result<(Catalog, Vec<Segment>), ContextError> {
    let (mut catalog, opened) = known(store, options, report);
    let scanned = scan::scan(root, options.threads, options.most_files);
    report.skipped = scanned.skipped;
    let todo = plan::plan(&mut catalog, scanned.files);
    report.files = todo.kept.len() + todo.read.len();
    (report.kept, report.read, report.gone) = (todo.kept.len(), todo.read.len(), todo.gone);
    let changed = report.read > 0 || report.gone > 0;
    catalog.files = todo.kept;
    if !changed && catalog.generation > 0 {
        return Ok((catalog, opened));
    }
    let stays = |name: &str| todo.segments.iter().any(|segment| segment.file == name);
    let names = std::mem::take(&mut catalog.segments).into_iter();
    let mut segments: Vec<Segment> = names
        .zip(opened)
        .filter(|(name, _)| stays(&name.file))
        .map(|(_, segment)| segment)
        .collect();
    catalog.generation += 1;
    catalog.looked_at = now;
    catalog.segments = todo.segments;
    for (name, entries) in build::build(root, store, &todo.read, catalog.generation, options)? {
        let number = u32::try_from(segments.len()).unwrap_or(NONE);
        let open = Segment::open(&store.path(&name.file), name.sum);
        segments.push(open.map_err(|error| ContextError::Damaged { reason: error.to_string() })?);
        catalog.segments.push(name);
        catalog.files.extend(entries.into_iter().map(|mut entry| {
            entry.position.segment = number;
            entry
        }));
    }
    // A stable sort: it is fast with ordered runs.
    catalog.files.sort_by(|a, b| a.path.cmp(&b.path));
    store.publish(&catalog)?;
    Ok((catalog, segments))
}

const DAMAGED: &str = "the old one was damaged";

/// The known catalogue with its segments open; empty if it cannot be used.
fn known(
    store: &IndexStore,
    options: &Options,
    report: &mut BuildReport,
) -> (Catalog, Vec<Segment>) {
    let empty = Catalog::empty(store.root(), options);
    if report.rebuilt.is_some() {
        return (empty, Vec::new());
    }
    let open = |catalog: &Catalog| -> Result<Vec<Segment>, SegmentError> {
        let names = catalog.segments.iter();
        names.map(|name| Segment::open(&store.path(&name.file), name.sum)).collect()
    };
    let reason = match store.catalog() {
        Ok(None) => return (empty, Vec::new()),
        Ok(Some(catalog)) if !catalog.is_like(&empty) => {
            "it was built by a different version of \
                                                          the indexer"
        }
        Ok(Some(catalog)) => match open(&catalog) {
            Ok(segments) => return (catalog, segments),
            Err(_) => DAMAGED,
        },
        Err(_) => DAMAGED,
    };
    report.rebuilt = Some(reason);
    (empty, Vec::new())
}
