//! Updates an index: reads new and changed files in parallel, and keeps the rest.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::index::catalog::{Entry, SegmentName};
use crate::index::scan::{Found, Stamp};
use crate::index::segment::Builder;
use crate::index::store::IndexStore;
use crate::text::document::{Content, Document, Reader};
use crate::text::language::Language;
use crate::{BuildReport, ContextError, Options};

/// Words per thread before a segment is written: about 64 MiB.
const WORDS_PER_SEGMENT: usize = 2_000_000;
/// Text other than code is read up to this size; longer ones are data.
const MAX_PROSE: u64 = 64 << 10;
const MAX_LINE_LEN: usize = 5_000;

/// A segment with its documents, which do not have its number yet.
pub(crate) type Built = (SegmentName, Vec<Entry>);

/// Reads `files` into new segments named after `generation`.
pub(crate) fn build(
    root: &Path,
    store: &IndexStore,
    files: &[Found],
    generation: u64,
    options: &Options,
) -> Result<Vec<Built>, ContextError> {
    let next = AtomicUsize::new(0);
    let number = AtomicUsize::new(0);
    let threads = options.threads.clamp(1, files.len().div_ceil(16).max(1));
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    IndexWorker::new(root, store, generation, options, &number).run(files, &next)
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
    segments.sort_by(|a, b| a.0.file.cmp(&b.0.file));
    Ok(segments)
}

struct IndexWorker<'a> {
    root: &'a Path,
    store: &'a IndexStore,
    generation: u64,
    options: &'a Options,
    number: &'a AtomicUsize,
    reader: Reader,
    builder: Builder,
    buffer: Vec<u8>,
    segments: Vec<Built>,
}

impl<'a> IndexWorker<'a> {
    fn new(
        root: &'a Path,
        store: &'a IndexStore,
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

    fn run(mut self, files: &[Found], next: &AtomicUsize) -> Result<Vec<Built>, ContextError> {
        /// Files per step, so that neighbours share a thread.
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
        let limit = limit(&file.path, self.options);
        let mut stamp = file.stamp;
        let mut content = if stamp.size > limit { Content::Large } else { Content::Read };
        if content == Content::Read {
            match read(&self.root.join(&file.path), limit, &mut self.buffer) {
                Ok(after) => {
                    content = judge(&self.buffer, Language::of_path(&file.path));
                    // Changed while it was read, so it may be inconsistent: it is read again next
                    // time.
                    if after != file.stamp {
                        stamp = Stamp::default();
                    }
                }
                Err(_) => content = Content::Unreadable,
            }
        }
        let document = document(&mut self.reader, &file.path, content, &self.buffer);
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
        let written =
            self.builder.write(&path).map_err(|source| ContextError::Store { path, source })?;
        let documents = u32::try_from(written.entries.len()).unwrap_or(u32::MAX);
        let name = SegmentName { file, sum: written.sum, documents, words: written.words };
        self.segments.push((name, written.entries));
        Ok(())
    }
}

/// How many bytes of a file are read; only the path of a longer one is indexed.
fn limit(path: &str, options: &Options) -> u64 {
    if Language::of_path(path).is_code() { options.largest_file } else { MAX_PROSE }
}

/// A file as the index sees it.
fn document(reader: &mut Reader, path: &str, content: Content, text: &[u8]) -> Document {
    match content {
        Content::Read => reader.read(path, text),
        aside => reader.read_path_only(path, aside),
    }
}

/// Whether this is text written by a person.
fn judge(text: &[u8], language: Language) -> Content {
    if text[..text.len().min(8192)].contains(&0) {
        return Content::Binary;
    }
    let long = || text.split(|byte| *byte == b'\n').any(|line| line.len() > MAX_LINE_LEN);
    if language.is_code() && text.len() > MAX_LINE_LEN * 2 && long() {
        Content::Minified
    } else {
        Content::Read
    }
}

/// Reads a file of at most `limit` bytes; returns its stamp after reading.
fn read(path: &Path, limit: u64, buffer: &mut Vec<u8>) -> std::io::Result<Stamp> {
    let mut file = File::options().read(true).custom_flags_nofollow().open(path)?;
    buffer.clear();
    file.by_ref().take(limit).read_to_end(buffer)?;
    Ok(Stamp::of(&file.metadata()?))
}

/// The first bytes of a file's current text, if it can be shown.
pub(crate) fn read_head(path: &Path, most: u64) -> Option<String> {
    let mut buffer = Vec::new();
    read(path, most, &mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer).into_owned())
}

/// Opens a file without following a link or waiting for a pipe that replaced it.
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

impl BuildReport {
    /// One line about the build, for messages.
    pub fn summary(&self) -> String {
        format!(
            "{} files ({} read, {} kept, {} gone), {} commits",
            self.files, self.read, self.kept, self.gone, self.commits
        )
    }
}
