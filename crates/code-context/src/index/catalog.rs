//! The catalogue of the index: its segments, and every live file with what is known without reading
//! its words. One small file, read completely when an index is opened and replaced when it changes.

use crate::Options;
use crate::index::scan::{Stamp, folder_of};
use crate::text::bytes::{
    Bytes, Malformed, put_eight, put_four, put_number, put_text, seal, unseal,
};
use crate::text::document::{Content, FIELDS};
use crate::text::kind::Kind;
use crate::text::language::Language;

/// Ends with the version. Increase it whenever documents, terms or files change their form; an
/// index of another version is rebuilt.
const MAGIC: &[u8; 8] = b"hbctx\0c5";

/// What is known of one file without reading its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the repository's root.
    pub path: String,
    /// As of the last read.
    pub stamp: Stamp,
    pub kind: Kind,
    pub language: Language,
    /// How much of it was read.
    pub content: Content,
    pub lines: u32,
    /// Lines per block.
    pub block_lines: u32,
    /// Words per field.
    pub lengths: [u32; FIELDS],
    /// Where its words and definitions are.
    pub(crate) position: SegmentPosition,
}

/// Where a file's words and definitions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentPosition {
    pub segment: u32,
    /// Number of the document in the segment.
    pub local: u32,
    /// Offset of its definitions.
    pub outline: u64,
    pub outline_length: u32,
    pub outline_sum: u32,
}

/// A segment of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentName {
    pub file: String,
    /// Checksum of its header.
    pub sum: u64,
    /// Number of documents written to it, live or not.
    pub documents: u32,
    /// Number of words of its documents.
    pub words: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Catalog {
    pub root: String,
    /// Options that decide what is read.
    pub largest_file: u64,
    pub most_files: u64,
    /// Number of builds, so that no two segments have the same name.
    pub generation: u64,
    /// The file system's time when the last build started its scan.
    pub looked_at: i64,
    pub segments: Vec<SegmentName>,
    /// Ordered by path.
    pub files: Vec<Entry>,
}

impl Catalog {
    pub(crate) fn empty(root: &str, options: &Options) -> Self {
        Self {
            root: root.to_owned(),
            largest_file: options.largest_file,
            most_files: options.most_files as u64,
            ..Self::default()
        }
    }

    /// Whether it was made for the same repository with the same options as `other`.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (&self.root, self.largest_file, self.most_files)
            == (&other.root, other.largest_file, other.most_files)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.files.len() * 80);
        put_text(&mut out, &self.root);
        for number in [self.largest_file, self.most_files, self.generation] {
            put_number(&mut out, number);
        }
        put_eight(&mut out, self.looked_at.cast_unsigned());
        put_number(&mut out, self.segments.len() as u64);
        for segment in &self.segments {
            put_text(&mut out, &segment.file);
            put_eight(&mut out, segment.sum);
            put_number(&mut out, u64::from(segment.documents));
            put_number(&mut out, segment.words);
        }
        put_number(&mut out, self.files.len() as u64);
        let mut folder = "";
        for entry in &self.files {
            put_entry(&mut out, entry, &mut folder);
        }
        seal(MAGIC, &out)
    }

    pub(crate) fn from_bytes(file: &[u8]) -> Result<Self, Malformed> {
        let mut bytes = unseal(MAGIC, file)?;
        let mut catalog = Self {
            root: bytes.text()?.to_owned(),
            largest_file: bytes.number()?,
            most_files: bytes.number()?,
            generation: bytes.number()?,
            looked_at: bytes.fixed()?.cast_signed(),
            ..Self::default()
        };
        for _ in 0..bytes.number()? {
            catalog.segments.push(SegmentName {
                file: bytes.text()?.to_owned(),
                sum: bytes.fixed()?,
                documents: bytes.small()?,
                words: bytes.number()?,
            });
        }
        let count = usize::try_from(bytes.number()?).map_err(|_| Malformed)?;
        catalog.files.reserve(count.min(file.len()));
        let mut folder = "";
        for _ in 0..count {
            catalog.files.push(get_entry(&mut bytes, &mut folder)?);
        }
        let plain = |segment: &SegmentName| !segment.file.contains(['/', '\\']);
        let homes = |entry: &Entry| {
            let segment = catalog.segments.get(entry.position.segment as usize);
            segment.is_some_and(|segment| entry.position.local < segment.documents)
        };
        let sound = catalog.segments.iter().all(plain) && catalog.files.iter().all(homes);
        if sound { Ok(catalog) } else { Err(Malformed) }
    }
}

fn put_stamp(out: &mut Vec<u8>, stamp: Stamp) {
    put_eight(out, stamp.changed.cast_unsigned());
    put_number(out, stamp.size);
    put_number(out, stamp.inode);
}

fn get_stamp(bytes: &mut Bytes<'_>) -> Result<Stamp, Malformed> {
    Ok(Stamp {
        changed: bytes.fixed()?.cast_signed(),
        size: bytes.number()?,
        inode: bytes.number()?,
    })
}

/// Most files are in the folder of the previous one, so a folder is written only when it changes.
fn put_entry<'a>(out: &mut Vec<u8>, entry: &'a Entry, folder: &mut &'a str) {
    let own = folder_of(&entry.path);
    let name = entry.path.rsplit('/').next().unwrap_or(&entry.path);
    put_number(out, u64::from(own != *folder));
    if own != *folder {
        put_text(out, own);
        *folder = own;
    }
    put_text(out, name);
    put_stamp(out, entry.stamp);
    out.extend_from_slice(&[entry.kind.code(), entry.language.code(), entry.content.code()]);
    put_number(out, u64::from(entry.lines));
    put_number(out, u64::from(entry.block_lines));
    entry.lengths.iter().for_each(|length| put_number(out, u64::from(*length)));
    let position = &entry.position;
    put_number(out, u64::from(position.segment));
    put_number(out, u64::from(position.local));
    put_number(out, position.outline);
    put_number(out, u64::from(position.outline_length));
    put_four(out, position.outline_sum);
}

fn get_entry<'a>(bytes: &mut Bytes<'a>, folder: &mut &'a str) -> Result<Entry, Malformed> {
    if bytes.number()? != 0 {
        *folder = bytes.text()?;
    }
    let name = bytes.text()?;
    let path = if folder.is_empty() { name.to_owned() } else { [*folder, "/", name].concat() };
    let stamp = get_stamp(bytes)?;
    let kind = Kind::from_code(bytes.byte()?);
    let language = Language::from_code(bytes.byte()?);
    let content = Content::from_code(bytes.byte()?);
    let (lines, block_lines) = (bytes.small()?, bytes.small()?.max(1));
    let mut lengths = [0; FIELDS];
    for length in &mut lengths {
        *length = bytes.small()?;
    }
    let position = SegmentPosition {
        segment: bytes.small()?,
        local: bytes.small()?,
        outline: bytes.number()?,
        outline_length: bytes.small()?,
        outline_sum: bytes.four()?,
    };
    Ok(Entry { path, stamp, kind, language, content, lines, block_lines, lengths, position })
}
