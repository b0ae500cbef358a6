//! One immutable file of the index: some documents and their inverted words.
//!
//! Layout, little-endian: a header, the documents, a table of terms sorted by hash with a fan-out
//! over its highest bits, the postings, the definitions. A query reads the documents once and then
//! only the postings of its own words, at their place; nothing is mapped, so a damaged or cut file
//! can give an error but never a fault.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::bytes::{Bytes, Malformed, put_number, put_text};
use super::document::{Content, Definition, Document, FIELDS, Posting};
use super::kind::Kind;
use super::language::Language;
use super::scan::Stamp;
use super::term::{self, Term};

const MAGIC: &[u8; 8] = b"hbctx\0s1";
const HEADER: usize = 8 + 8 * 8;
const FAN_BITS: u32 = 12;
const FAN: usize = 1 << FAN_BITS;

/// A segment could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("damaged")]
    Damaged,
}

impl From<Malformed> for SegmentError {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

/// What is known of one file without reading its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the repository's root.
    pub path: String,
    /// As it was when read.
    pub stamp: Stamp,
    /// The part it plays.
    pub kind: Kind,
    /// What it is written in.
    pub language: Language,
    /// How much of it was read.
    pub content: Content,
    /// Lines of text.
    pub lines: u32,
    /// Lines in one block.
    pub block_lines: u32,
    /// Words per field.
    pub lengths: [u32; FIELDS],
    /// Where its definitions stand in the segment.
    pub(super) outline: (u64, u32),
}

#[derive(Clone, Copy)]
struct Record {
    term: Term,
    blocks: u64,
    document: u32,
    counts: [u8; FIELDS],
}

/// Collects documents for one segment.
#[derive(Default)]
pub(super) struct Builder {
    documents: Vec<u8>,
    count: u32,
    records: Vec<Record>,
    outlines: Vec<u8>,
}

impl Builder {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many words it holds: what its memory grows with.
    pub(super) fn weight(&self) -> usize {
        self.records.len()
    }

    pub(super) fn push(&mut self, path: &str, stamp: Stamp, document: &Document) {
        let outline = self.outlines.len();
        let mut last = 0;
        put_number(&mut self.outlines, document.definitions.len() as u64);
        for definition in &document.definitions {
            put_number(&mut self.outlines, u64::from(definition.line.saturating_sub(last)));
            put_text(&mut self.outlines, &definition.name);
            last = definition.line;
        }
        let out = &mut self.documents;
        put_text(out, path);
        out.extend_from_slice(&stamp.changed.to_le_bytes());
        for number in
            [stamp.size, stamp.inode, u64::from(document.lines), u64::from(document.block_lines)]
        {
            put_number(out, number);
        }
        out.extend_from_slice(&[
            document.kind.code(),
            document.language.code(),
            document.content.code(),
        ]);
        for length in document.lengths {
            put_number(out, u64::from(length));
        }
        put_number(out, outline as u64);
        put_number(out, (self.outlines.len() - outline) as u64);
        let number = self.count;
        self.records.extend(document.postings.iter().map(|posting| Record {
            term: posting.term,
            blocks: posting.blocks,
            document: number,
            counts: posting.counts,
        }));
        self.count += 1;
    }

    /// Writes the segment, durably, and empties the builder.
    pub(super) fn write(&mut self, path: &Path) -> std::io::Result<()> {
        self.records.sort_unstable_by_key(|record| (record.term, record.document));
        let (table, fan, postings) = self.invert();
        let documents = std::mem::take(&mut self.documents);
        let outlines = std::mem::take(&mut self.outlines);
        let mut header = MAGIC.to_vec();
        let sum = term::mix(term::raw_hash(7, &documents));
        let sizes = [
            u64::from(self.count),
            documents.len() as u64,
            table.len() as u64,
            postings.len() as u64,
            outlines.len() as u64,
            sum,
        ];
        sizes.iter().for_each(|size| header.extend_from_slice(&size.to_le_bytes()));
        header.resize(HEADER, 0);
        // A reader may still have a file of this name open, from an index that was given up.
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = File::create_new(path)?;
        for part in [&header, &documents, &fan, &table, &postings, &outlines] {
            file.write_all(part)?;
        }
        file.sync_data()?;
        self.records.clear();
        self.count = 0;
        Ok(())
    }

    fn invert(&self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let mut table = Vec::new();
        let mut postings = Vec::with_capacity(self.records.len() * 4);
        let mut starts = vec![u32::MAX; FAN];
        let mut terms = 0u32;
        for group in self.records.chunk_by(|a, b| a.term == b.term) {
            let start = &mut starts[bucket(group[0].term)];
            *start = (*start).min(terms);
            terms += 1;
            table.extend_from_slice(&group[0].term.to_le_bytes());
            table.extend_from_slice(&(postings.len() as u64).to_le_bytes());
            let mut last = 0;
            for record in group {
                put_posting(&mut postings, record, record.document - last);
                last = record.document;
            }
        }
        // A bucket without terms starts where the next one does.
        let mut next = terms;
        for start in starts.iter_mut().rev() {
            next = (*start).min(next);
            *start = next;
        }
        (table, starts.iter().flat_map(|start| start.to_le_bytes()).collect(), postings)
    }
}

fn bucket(term: Term) -> usize {
    usize::try_from(term >> (64 - FAN_BITS)).unwrap_or(0)
}

const ONE_BLOCK: u8 = 0x40;
const NO_BLOCK: u8 = 0x80;

fn put_posting(out: &mut Vec<u8>, record: &Record, step: u32) {
    put_number(out, u64::from(step));
    let mut flags = record
        .counts
        .iter()
        .enumerate()
        .fold(0u8, |flags, (field, count)| flags | (u8::from(*count > 0) << field));
    match record.blocks.count_ones() {
        0 => flags |= NO_BLOCK,
        1 => flags |= ONE_BLOCK,
        _ => {}
    }
    out.push(flags);
    out.extend(record.counts.iter().filter(|count| **count > 0));
    match record.blocks.count_ones() {
        0 => {}
        1 => put_number(out, u64::from(record.blocks.trailing_zeros())),
        _ => put_number(out, record.blocks),
    }
}

fn get_posting(bytes: &mut Bytes<'_>, term: Term) -> Result<Posting, Malformed> {
    let flags = bytes.byte()?;
    let mut counts = [0; FIELDS];
    for (field, count) in counts.iter_mut().enumerate() {
        if flags & (1 << field) != 0 {
            *count = bytes.byte()?;
        }
    }
    let blocks = match flags & (ONE_BLOCK | NO_BLOCK) {
        0 => bytes.number()?,
        ONE_BLOCK => 1u64.checked_shl(bytes.small()?).ok_or(Malformed)?,
        _ => 0,
    };
    Ok(Posting { term, counts, blocks })
}

/// A segment opened for reading.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    fan: Vec<u32>,
    terms_at: u64,
    terms: u32,
    postings_at: u64,
    postings_length: u64,
    outlines_at: u64,
    outlines_length: u64,
}

impl Segment {
    /// Opens a segment and gives its documents.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Entry>), SegmentError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let head = read(&file, 0, HEADER as u64, length)?;
        if &head[..8] != MAGIC {
            return Err(SegmentError::Damaged);
        }
        let mut bytes = Bytes(&head[8..]);
        let mut next = || bytes.fixed();
        let (count, documents, table, postings_length, outlines_length, sum) =
            (next()?, next()?, next()?, next()?, next()?, next()?);
        let fan_at = (HEADER as u64).saturating_add(documents);
        let terms_at = fan_at.saturating_add((FAN * 4) as u64);
        let postings_at = terms_at.saturating_add(table);
        let outlines_at = postings_at.saturating_add(postings_length);
        if outlines_at.saturating_add(outlines_length) != length {
            return Err(SegmentError::Damaged);
        }
        let listed = read(&file, HEADER as u64, documents, length)?;
        if term::mix(term::raw_hash(7, &listed)) != sum {
            return Err(SegmentError::Damaged);
        }
        let entries = read_entries(&listed, count)?;
        let fan = read(&file, fan_at, (FAN * 4) as u64, length)?
            .chunks_exact(4)
            .map(|four| four.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte)))
            .collect();
        let terms = u32::try_from(table / 16).map_err(|_| SegmentError::Damaged)?;
        Ok((
            Self {
                file,
                fan,
                terms_at,
                terms,
                postings_at,
                postings_length,
                outlines_at,
                outlines_length,
            },
            entries,
        ))
    }

    /// Gives each posting of a term with the number of its document.
    pub(super) fn postings(
        &self,
        term: Term,
        mut each: impl FnMut(u32, &Posting),
    ) -> Result<(), SegmentError> {
        let Some((start, end)) = self.find(term)? else { return Ok(()) };
        let bytes = read(
            &self.file,
            self.postings_at + start,
            end.saturating_sub(start),
            self.outlines_at,
        )?;
        let mut bytes = Bytes(&bytes);
        let mut document = 0u32;
        while !bytes.is_empty() {
            document = document.checked_add(bytes.small()?).ok_or(SegmentError::Damaged)?;
            each(document, &get_posting(&mut bytes, term)?);
        }
        Ok(())
    }

    /// Where a term's postings begin and end.
    fn find(&self, term: Term) -> Result<Option<(u64, u64)>, SegmentError> {
        let bucket = bucket(term);
        let first = self.fan.get(bucket).copied().unwrap_or(self.terms);
        let last = self.fan.get(bucket + 1).copied().unwrap_or(self.terms);
        if first >= last || last > self.terms {
            return Ok(None);
        }
        // One entry more tells where the last one's postings end.
        let read_to = (last + 1).min(self.terms);
        let table = read(
            &self.file,
            self.terms_at + u64::from(first) * 16,
            u64::from(read_to - first) * 16,
            self.postings_at,
        )?;
        let mut entries = Vec::with_capacity(table.len() / 16);
        let mut bytes = Bytes(&table);
        while !bytes.is_empty() {
            entries.push((bytes.fixed()?, bytes.fixed()?));
        }
        let Ok(at) = entries.binary_search_by_key(&term, |entry| entry.0) else { return Ok(None) };
        let end = entries.get(at + 1).map_or(self.postings_length, |entry| entry.1);
        Ok(Some((entries[at].1, end)))
    }

    /// What a document defines.
    pub(super) fn definitions(&self, entry: &Entry) -> Result<Vec<Definition>, SegmentError> {
        let (at, length) = entry.outline;
        let bytes = read(
            &self.file,
            self.outlines_at + at,
            u64::from(length),
            self.outlines_at + self.outlines_length,
        )?;
        let mut bytes = Bytes(&bytes);
        let count = bytes.small()?;
        let mut line = 0u32;
        let mut all = Vec::new();
        for _ in 0..count {
            line = line.saturating_add(bytes.small()?);
            all.push(Definition { line, name: bytes.text()?.to_owned() });
        }
        Ok(all)
    }
}

fn read(file: &File, at: u64, length: u64, limit: u64) -> Result<Vec<u8>, SegmentError> {
    if at.saturating_add(length) > limit {
        return Err(SegmentError::Damaged);
    }
    let mut buffer = vec![0; usize::try_from(length).map_err(|_| SegmentError::Damaged)?];
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer)
}

fn read_entries(listed: &[u8], count: u64) -> Result<Vec<Entry>, Malformed> {
    let mut bytes = Bytes(listed);
    let mut entries = Vec::new();
    for _ in 0..count {
        let path = bytes.text()?.to_owned();
        let changed = bytes.fixed()?.cast_signed();
        let stamp = Stamp { changed, size: bytes.number()?, inode: bytes.number()? };
        let (lines, block_lines) = (bytes.small()?, bytes.small()?.max(1));
        let (kind, language, content) = (
            Kind::from_code(bytes.byte()?),
            Language::from_code(bytes.byte()?),
            Content::from_code(bytes.byte()?),
        );
        let mut lengths = [0; FIELDS];
        for length in &mut lengths {
            *length = bytes.small()?;
        }
        let outline = (bytes.number()?, bytes.small()?);
        entries.push(Entry {
            path,
            stamp,
            kind,
            language,
            content,
            lines,
            block_lines,
            lengths,
            outline,
        });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::document::Reader;
    use super::*;

    fn sample(path: &Path) -> (Builder, Vec<Document>) {
        let mut builder = Builder::default();
        let mut reader = Reader::default();
        let documents: Vec<_> = (0..50)
            .map(|n| {
                reader.read(
                    &format!("src/file{n}.rs"),
                    format!("fn total_{n}() {{ shared(); }}\n").repeat(40).as_bytes(),
                )
            })
            .collect();
        for (n, document) in documents.iter().enumerate() {
            builder.push(
                &format!("src/file{n}.rs"),
                Stamp { changed: -5, size: 7, inode: 9 },
                document,
            );
        }
        builder.write(path).unwrap();
        (builder, documents)
    }

    #[test]
    fn every_posting_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (builder, documents) = sample(&path);
        assert!(builder.is_empty());
        let (segment, entries) = Segment::open(&path).unwrap();
        assert_eq!(entries.len(), documents.len());
        for (number, document) in documents.iter().enumerate() {
            assert_eq!(segment.definitions(&entries[number]).unwrap(), document.definitions);
            assert_eq!(entries[number].stamp.changed, -5);
            for posting in &document.postings {
                let mut found = None;
                segment
                    .postings(posting.term, |at, posting| {
                        if at as usize == number {
                            found = Some(*posting);
                        }
                    })
                    .unwrap();
                assert_eq!(found.as_ref(), Some(posting));
            }
        }
        segment.postings(12345, |_, _| panic!("an unknown term has no postings")).unwrap();
    }

    #[test]
    fn a_damaged_segment_is_refused_or_survived() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        sample(&path);
        let good = std::fs::read(&path).unwrap();
        for cut in [0, 10, HEADER, good.len() / 2, good.len() - 1] {
            std::fs::write(&path, &good[..cut]).unwrap();
            assert!(Segment::open(&path).is_err(), "cut at {cut}");
        }
        for at in (0..good.len()).step_by(97) {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            std::fs::write(&path, &bad).unwrap();
            if let Ok((segment, entries)) = Segment::open(&path) {
                let _ignored_error =
                    segment.postings(term::hash(term::Space::Word, b"shar"), |_, _| {});
                let _ignored_error = segment.definitions(&entries[0]);
            }
        }
    }
}
