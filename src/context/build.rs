//! Brings an index up to date: reads what is new or changed, in parallel, and leaves the rest.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::document::{Content, Reader};
use super::language::Language;
use super::scan::{Found, Stamp};
use super::segment::Builder;
use super::store::{SegmentName, Store};
use super::{BuildReport, ContextError, Options};

/// Words one thread holds before it writes a segment: about 64 MiB.
const WORDS_PER_SEGMENT: usize = 2_000_000;
/// Text that is not code is read up to this size; longer ones are data.
const LARGEST_PROSE: u64 = 64 << 10;
const LONGEST_LINE: usize = 5_000;

/// Reads `files` into new segments named after `generation`.
pub(super) fn build(
    root: &Path,
    store: &Store,
    files: &[&Found],
    generation: u64,
    options: &Options,
) -> Result<Vec<SegmentName>, ContextError> {
    let next = AtomicUsize::new(0);
    let number = AtomicUsize::new(0);
    let threads = options.threads.clamp(1, files.len().div_ceil(16).max(1));
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    Worker::new(root, store, generation, options, &number).run(files, &next)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or(Err(ContextError::Worker)))
            .collect::<Vec<_>>()
    });
    let mut segments = Vec::new();
    for part in parts {
        segments.extend(part?);
    }
    segments.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(segments)
}

struct Worker<'a> {
    root: &'a Path,
    store: &'a Store,
    generation: u64,
    options: &'a Options,
    number: &'a AtomicUsize,
    reader: Reader,
    builder: Builder,
    buffer: Vec<u8>,
    segments: Vec<SegmentName>,
}

impl<'a> Worker<'a> {
    fn new(
        root: &'a Path,
        store: &'a Store,
        generation: u64,
        options: &'a Options,
        number: &'a AtomicUsize,
    ) -> Self {
        Self {
            root,
            store,
            generation,
            options,
            number,
            reader: Reader::default(),
            builder: Builder::default(),
            buffer: Vec::new(),
            segments: Vec::new(),
        }
    }

    fn run(
        mut self,
        files: &[&Found],
        next: &AtomicUsize,
    ) -> Result<Vec<SegmentName>, ContextError> {
        /// Files taken at once, so that neighbours share a thread.
        const STRIDE: usize = 16;
        loop {
            let start = next.fetch_add(STRIDE, Ordering::Relaxed);
            let Some(batch) = files
                .get(start..(start + STRIDE).min(files.len()))
                .filter(|batch| !batch.is_empty())
            else {
                break;
            };
            for file in batch {
                self.take(file);
            }
            if self.builder.weight() >= WORDS_PER_SEGMENT {
                self.flush()?;
            }
        }
        self.flush()?;
        Ok(self.segments)
    }

    fn take(&mut self, file: &Found) {
        let language = Language::of_path(&file.path);
        let limit = if language.is_code() { self.options.largest_file } else { LARGEST_PROSE };
        let mut stamp = file.stamp;
        let mut content = if stamp.size > limit { Content::Large } else { Content::Read };
        if content == Content::Read {
            match read(&self.root.join(&file.path), limit, &mut self.buffer) {
                Ok(after) => {
                    content = judge(&self.buffer, language);
                    // Changed while it was read: it may be half of each, so it is read again next time.
                    if after != file.stamp {
                        stamp = Stamp::default();
                    }
                }
                Err(_) => content = Content::Unreadable,
            }
        }
        let document = match content {
            Content::Read => self.reader.read(&file.path, &self.buffer),
            aside => self.reader.read_path_only(&file.path, aside),
        };
        self.builder.push(&file.path, stamp, &document);
    }

    fn flush(&mut self) -> Result<(), ContextError> {
        if self.builder.is_empty() {
            return Ok(());
        }
        let file = format!(
            "segment-{:06}-{:03}",
            self.generation,
            self.number.fetch_add(1, Ordering::Relaxed)
        );
        let path = self.store.path(&file);
        self.builder.write(&path).map_err(|source| ContextError::Store { path, source })?;
        self.segments.push(SegmentName { file, dead: Vec::new() });
        Ok(())
    }
}

/// Is this a text that somebody wrote?
fn judge(text: &[u8], language: Language) -> Content {
    if text[..text.len().min(8192)].contains(&0) {
        return Content::Binary;
    }
    let long = || text.split(|byte| *byte == b'\n').any(|line| line.len() > LONGEST_LINE);
    if language.is_code() && text.len() > LONGEST_LINE * 2 && long() {
        Content::Minified
    } else {
        Content::Read
    }
}

/// Reads a file that is no longer than `limit`; the answer is its stamp after reading.
fn read(path: &Path, limit: u64, buffer: &mut Vec<u8>) -> std::io::Result<Stamp> {
    let mut file = File::options().read(true).custom_flags_nofollow().open(path)?;
    buffer.clear();
    file.by_ref().take(limit).read_to_end(buffer)?;
    Ok(Stamp::of(&file.metadata()?))
}

/// The text of a file as it is now, if it can be shown.
pub(super) fn read_text(path: &Path) -> Option<String> {
    let mut buffer = Vec::new();
    read(path, super::Options::default().largest_file, &mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer).into_owned())
}

/// Opening without following a link or waiting for a pipe that took the file's place.
trait NoFollow {
    fn custom_flags_nofollow(&mut self) -> &mut Self;
}

impl NoFollow for std::fs::OpenOptions {
    fn custom_flags_nofollow(&mut self) -> &mut Self {
        use nix::fcntl::OFlag;
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            self,
            (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits(),
        )
    }
}

/// A document of a segment: its number, its path, and what it was like.
pub(super) type Known<'a> = (u32, &'a str, Stamp);

/// What has to be done to bring a known index up to date.
pub(super) struct Plan<'a> {
    /// New, changed, or not to be trusted.
    pub read: Vec<&'a Found>,
    /// Known documents that are no longer true, by segment.
    pub dead: Vec<Vec<u32>>,
    /// How many known documents stay.
    pub kept: usize,
}

/// Compares what is there, in the order of paths, with what is known.
pub(super) fn plan<'a>(files: &'a [Found], known: &[Vec<Known<'_>>], looked_at: i64) -> Plan<'a> {
    let mut kept = vec![false; files.len()];
    let mut dead = vec![Vec::new(); known.len()];
    for (segment, documents) in known.iter().enumerate() {
        for (number, path, stamp) in documents {
            let place = files.binary_search_by(|file| file.path.as_str().cmp(path));
            let same = |at: &usize| files[*at].stamp == *stamp && !stamp.is_fresh_at(looked_at);
            match place.ok().filter(same) {
                Some(at) if !kept[at] => kept[at] = true,
                _ => dead[segment].push(*number),
            }
        }
    }
    let read = files.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(file, _)| file).collect();
    Plan { read, dead, kept: kept.iter().filter(|kept| **kept).count() }
}

/// Is it better to start anew than to add to what is there?
pub(super) fn is_worn(plan: &Plan<'_>, segments: usize) -> Option<&'static str> {
    let dead: usize = plan.dead.iter().map(Vec::len).sum();
    if plan.kept == 0 {
        return Some("nothing to keep");
    }
    if dead + plan.read.len() > plan.kept {
        return Some("most files changed");
    }
    (segments > MOST_SEGMENTS).then_some("too many small parts")
}

/// A query looks into every segment, so there must not be many.
pub(super) const MOST_SEGMENTS: usize = 24;

/// What a build did, for people.
impl BuildReport {
    /// One line.
    pub fn summary(&self) -> String {
        format!(
            "{} files ({} read, {} kept, {} gone), {} commits",
            self.files, self.read, self.kept, self.gone, self.commits
        )
    }
}
