//! One immutable file of the index: the inverted words of some documents, and their definitions.
//!
//! Layout, little-endian: a header, a fan-out over the highest bits of a term, a table of terms
//! sorted by hash, the postings, the definitions. A query reads only the postings of its own words,
//! by position; nothing is mapped, so a damaged or truncated file can cause an error but never a
//! fault.
//!
//! Everything is checked when it is read: the catalogue has the checksums of header and fan-out and
//! of the definitions, the fan-out those of its parts of the table, the table those of its
//! postings.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

pub(crate) use crate::index::catalog::Entry;
use crate::index::catalog::SegmentPosition;
use crate::index::scan::Stamp;
use crate::text::bytes::{
    Bytes, Malformed, checksum, put_eight, put_four, put_number, put_text, short_checksum,
};
use crate::text::document::{Definition, Document, FIELDS, Posting};
use crate::text::term::Term;

const MAGIC: &[u8; 8] = b"hbctx\0s2";
const HEADER: usize = 8 + 8 * 3;
const FAN_BITS: u32 = 12;
const FAN: usize = 1 << FAN_BITS;
const FAN_BYTES: usize = FAN * 8;
const TABLE_ENTRY: u64 = 16;

/// A segment could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("part of it has changed on disk")]
    Damaged,
}

impl From<Malformed> for SegmentError {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

#[derive(Debug, Clone, Copy)]
struct TermRecord {
    term: Term,
    blocks: u64,
    document: u32,
    counts: [u8; FIELDS],
}

/// Collects documents for one segment.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    entries: Vec<Entry>,
    records: Vec<TermRecord>,
    outlines: Vec<u8>,
}

pub(crate) struct Written {
    /// Checksum of its header.
    pub sum: u64,
    /// Number of words of its documents.
    pub words: u64,
    /// Its documents, which do not have the segment's number yet.
    pub entries: Vec<Entry>,
}

impl Builder {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of words, which determines its memory.
    pub(crate) fn weight(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn push(&mut self, path: &str, stamp: Stamp, document: &Document) {
        let start = self.outlines.len();
        let mut last = 0;
        put_number(&mut self.outlines, document.definitions.len() as u64);
        for definition in &document.definitions {
            put_number(&mut self.outlines, u64::from(definition.line.saturating_sub(last)));
            put_text(&mut self.outlines, &definition.name);
            last = definition.line;
        }
        let outline = &self.outlines[start..];
        let local = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let position = SegmentPosition {
            segment: 0,
            local,
            outline: start as u64,
            outline_length: u32::try_from(outline.len()).unwrap_or(u32::MAX),
            outline_sum: short_checksum(outline),
        };
        self.entries.push(Entry {
            path: path.to_owned(),
            stamp,
            kind: document.kind,
            language: document.language,
            content: document.content,
            lines: document.lines,
            block_lines: document.block_lines,
            lengths: document.lengths,
            position,
        });
        self.records.extend(document.postings.iter().map(|posting| TermRecord {
            term: posting.term,
            blocks: posting.blocks,
            document: local,
            counts: posting.counts,
        }));
    }

    /// Writes the segment and clears the builder.
    pub(crate) fn write(&mut self, path: &Path) -> std::io::Result<Written> {
        self.records.sort_unstable_by_key(|record| (record.term, record.document));
        let (table, postings) = self.invert()?;
        let mut head = MAGIC.to_vec();
        for size in [table.len(), postings.len(), self.outlines.len()] {
            put_eight(&mut head, size as u64);
        }
        head.extend_from_slice(&fan_of(&table)?);
        // A reader may still have a file of this name open, from a dropped index.
        if let Err(error) = std::fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = crate::private_files::options().write(true).create_new(true).open(path)?;
        for part in [&head, &table, &postings, &self.outlines] {
            file.write_all(part)?;
        }
        let words = self.records.len() as u64;
        self.records.clear();
        self.outlines.clear();
        Ok(Written { sum: checksum(&head), words, entries: std::mem::take(&mut self.entries) })
    }

    fn invert(&self) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
        let mut table = Vec::new();
        let mut postings = Vec::with_capacity(self.records.len() * 4);
        for group in self.records.chunk_by(|a, b| a.term == b.term) {
            let start = postings.len();
            let mut last = 0;
            for record in group {
                put_posting(&mut postings, record, record.document - last);
                last = record.document;
            }
            put_eight(&mut table, group[0].term);
            put_four(&mut table, u32::try_from(start).map_err(std::io::Error::other)?);
            put_four(&mut table, short_checksum(&postings[start..]));
        }
        Ok((table, postings))
    }
}

/// Start of each bucket in the table, and the checksum of its part.
fn fan_of(table: &[u8]) -> std::io::Result<Vec<u8>> {
    let entries = table.as_chunks::<16>().0;
    let term = |entry: &[u8; 16]| {
        entry.iter().take(8).rev().fold(0, |term, byte| term << 8 | u64::from(*byte))
    };
    let mut fan = Vec::with_capacity(FAN_BYTES);
    let mut start = 0;
    for number in 0..FAN {
        let inside = entries[start..].partition_point(|entry| bucket(term(entry)) <= number);
        put_four(&mut fan, u32::try_from(start).map_err(std::io::Error::other)?);
        put_four(&mut fan, short_checksum(entries[start..start + inside].as_flattened()));
        start += inside;
    }
    Ok(fan)
}

fn bucket(term: Term) -> usize {
    usize::try_from(term >> (64 - FAN_BITS)).unwrap_or(0)
}

const ONE_BLOCK: u8 = 0x40;
const NO_BLOCK: u8 = 0x80;

fn put_posting(out: &mut Vec<u8>, record: &TermRecord, step: u32) {
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
pub(crate) struct Segment {
    file: File,
    /// Start of each bucket in the table, and the checksum of its part.
    fan: Vec<(u32, u32)>,
    terms: u32,
    postings_at: u64,
    postings_length: u64,
    outlines_at: u64,
    outlines_length: u64,
}

impl Segment {
    /// Opens the segment whose header has this checksum.
    pub(crate) fn open(path: &Path, sum: u64) -> Result<Self, SegmentError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let head = read(&file, 0, (HEADER + FAN_BYTES) as u64, length)?;
        if checksum(&head) != sum || &head[..8] != MAGIC {
            return Err(SegmentError::Damaged);
        }
        let mut bytes = Bytes(&head[8..]);
        let (table, postings_length, outlines_length) =
            (bytes.fixed()?, bytes.fixed()?, bytes.fixed()?);
        let mut fan = Vec::with_capacity(FAN);
        while !bytes.is_empty() {
            fan.push((bytes.four()?, bytes.four()?));
        }
        let postings_at = (head.len() as u64).saturating_add(table);
        let outlines_at = postings_at.saturating_add(postings_length);
        if outlines_at.saturating_add(outlines_length) != length {
            return Err(SegmentError::Damaged);
        }
        let terms = u32::try_from(table / TABLE_ENTRY).map_err(|_| SegmentError::Damaged)?;
        Ok(Self { file, fan, terms, postings_at, postings_length, outlines_at, outlines_length })
    }

    /// Calls back for each posting of a term with the number of its document.
    pub(crate) fn postings(
        &self,
        term: Term,
        mut each: impl FnMut(u32, &Posting),
    ) -> Result<(), SegmentError> {
        let Some(place) = self.find(term)? else { return Ok(()) };
        let length = place.end.saturating_sub(place.start);
        let bytes = read(&self.file, self.postings_at + place.start, length, self.outlines_at)?;
        if short_checksum(&bytes) != place.sum {
            return Err(SegmentError::Damaged);
        }
        let mut bytes = Bytes(&bytes);
        let mut document = 0u32;
        while !bytes.is_empty() {
            document = document.checked_add(bytes.small()?).ok_or(SegmentError::Damaged)?;
            each(document, &get_posting(&mut bytes, term)?);
        }
        Ok(())
    }

    /// Position of a term's postings.
    fn find(&self, term: Term) -> Result<Option<PostingsPlace>, SegmentError> {
        let bucket = bucket(term);
        let (first, sum) = self.fan.get(bucket).copied().unwrap_or((self.terms, 0));
        let last = self.fan.get(bucket + 1).map_or(self.terms, |next| next.0);
        if first >= last {
            return Ok(None);
        }
        // One more entry tells where the last one's postings end.
        let read_to = (last + 1).min(self.terms);
        let table = read(
            &self.file,
            (HEADER + FAN_BYTES) as u64 + u64::from(first) * TABLE_ENTRY,
            u64::from(read_to.saturating_sub(first)) * TABLE_ENTRY,
            self.postings_at,
        )?;
        let entries = table.as_chunks::<16>().0;
        let inside = usize::try_from(last - first).unwrap_or(0).min(entries.len());
        if short_checksum(entries[..inside].as_flattened()) != sum {
            return Err(SegmentError::Damaged);
        }
        let entry = |at: usize| -> Result<(Term, u64, u32), Malformed> {
            let mut bytes = Bytes(&entries[at]);
            Ok((bytes.fixed()?, u64::from(bytes.four()?), bytes.four()?))
        };
        let at = entries[..inside]
            .partition_point(|entry| Bytes(entry).fixed().is_ok_and(|mine| mine < term));
        if at >= inside || entry(at)?.0 != term {
            return Ok(None);
        }
        let (_, start, sum) = entry(at)?;
        let end = if at + 1 < entries.len() { entry(at + 1)?.1 } else { self.postings_length };
        Ok(Some(PostingsPlace { start, end, sum }))
    }

    /// The definitions of a document.
    pub(crate) fn definitions(
        &self,
        position: &SegmentPosition,
    ) -> Result<Vec<Definition>, SegmentError> {
        let bytes = read(
            &self.file,
            self.outlines_at.saturating_add(position.outline),
            u64::from(position.outline_length),
            self.outlines_at.saturating_add(self.outlines_length),
        )?;
        if short_checksum(&bytes) != position.outline_sum {
            return Err(SegmentError::Damaged);
        }
        definitions_in(&bytes)
    }
}

fn definitions_in(bytes: &[u8]) -> Result<Vec<Definition>, SegmentError> {
    let mut bytes = Bytes(bytes);
    let count = bytes.small()?;
    let mut line = 0u32;
    let mut all = Vec::new();
    for _ in 0..count {
        line = line.saturating_add(bytes.small()?);
        all.push(Definition { line, name: bytes.text()?.to_owned() });
    }
    Ok(all)
}

/// Position of a term's postings, and their checksum.
struct PostingsPlace {
    start: u64,
    end: u64,
    sum: u32,
}

fn read(file: &File, at: u64, length: u64, limit: u64) -> Result<Vec<u8>, SegmentError> {
    if at.saturating_add(length) > limit {
        return Err(SegmentError::Damaged);
    }
    let mut buffer = vec![0; usize::try_from(length).map_err(|_| SegmentError::Damaged)?];
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::document::Reader;
    use crate::text::term;

    fn sample(path: &Path) -> (Written, Vec<Document>) {
        let mut builder = Builder::default();
        let mut reader = Reader::default();
        let name = |n: usize| format!("src/file{n}.rs");
        let text = |n: usize| format!("fn total_{n}() {{ shared(); }}\n").repeat(40);
        let documents: Vec<_> =
            (0..50).map(|n| reader.read(&name(n), text(n).as_bytes())).collect();
        for (n, document) in documents.iter().enumerate() {
            builder.push(&name(n), Stamp { changed: -5, size: 7, inode: 9 }, document);
        }
        let written = builder.write(path).unwrap();
        assert!(builder.is_empty());
        (written, documents)
    }

    fn collect(segment: &Segment, term: Term) -> Result<Vec<(u32, Posting)>, SegmentError> {
        let mut all = Vec::new();
        segment.postings(term, |document, posting| all.push((document, *posting)))?;
        Ok(all)
    }

    #[test]
    fn every_posting_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (written, documents) = sample(&path);
        let segment = Segment::open(&path, written.sum).unwrap();
        assert_eq!(written.entries.len(), documents.len());
        for (number, document) in documents.iter().enumerate() {
            let position = &written.entries[number].position;
            assert_eq!(segment.definitions(position).unwrap(), document.definitions);
            for posting in &document.postings {
                let all = collect(&segment, posting.term).unwrap();
                assert!(all.contains(&(position.local, *posting)));
            }
        }
        assert_eq!(collect(&segment, 12345).unwrap(), []);
    }

    /// Random positions would hardly ever hit the table and the fan-out, so every part of a small
    /// segment is tried.
    #[test]
    fn a_damaged_segment_gives_the_same_answer_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (written, documents) = sample(&path);
        let good = std::fs::read(&path).unwrap();
        let segment = Segment::open(&path, written.sum).unwrap();
        let terms = [term::hash(term::Space::Word, b"shar"), documents[7].postings[0].term, 99];
        let position = &written.entries[7].position;
        let right: Vec<_> = terms.iter().map(|term| collect(&segment, *term).unwrap()).collect();
        for cut in [0, 10, HEADER, good.len() / 2, good.len() - 1] {
            std::fs::write(&path, &good[..cut]).unwrap();
            assert!(Segment::open(&path, written.sum).is_err(), "cut at {cut}");
        }
        std::fs::write(&path, &good).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let notice = |at: usize| {
            let Ok(segment) = Segment::open(&path, written.sum) else { return 1 };
            let mut noticed = 0;
            for (term, right) in terms.iter().zip(&right) {
                match collect(&segment, *term) {
                    Ok(answer) => assert_eq!(&answer, right, "byte {at}"),
                    Err(_) => noticed += 1,
                }
            }
            match segment.definitions(position) {
                Ok(answer) => assert_eq!(answer, documents[7].definitions, "byte {at}"),
                Err(_) => noticed += 1,
            }
            noticed
        };
        let mut noticed = 0;
        for at in (0..good.len()).step_by(7) {
            file.write_all_at(&[good[at] ^ 1 << (at % 8)], at as u64).unwrap();
            noticed += notice(at);
            file.write_all_at(&good[at..=at], at as u64).unwrap();
        }
        assert!(noticed > 50, "{noticed}");
    }
}
