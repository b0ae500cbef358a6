//! The catalogue of the index: its segments, and every live file with what is known without reading
//! its words. One small file, read completely when an index is opened and replaced when it changes.

use serde::{Deserialize, Serialize};

use crate::Options;
use crate::index::scan::Stamp;
use crate::text::bytes::{Malformed, seal, unseal};
use crate::text::document::Content;
use crate::text::kind::Kind;
use crate::text::language::Language;

/// Ends with the version. Increase it whenever documents, terms or files change their form; an
/// index of another version is rebuilt.
const MAGIC: &[u8; 8] = b"hbctx\0c6";

/// What is known of one file without reading its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub lengths: [u32; crate::text::document::FIELDS],
    /// Where its words and definitions are.
    pub(crate) position: SegmentPosition,
}

/// Where a file's words and definitions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentName {
    pub file: String,
    /// Checksum of its header.
    pub sum: u64,
    /// Number of documents written to it, live or not.
    pub documents: u32,
    /// Number of words of its documents.
    pub words: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
        seal(MAGIC, self)
    }

    pub(crate) fn from_bytes(file: &[u8]) -> Result<Self, Malformed> {
        let catalog: Self = unseal(MAGIC, file)?;
        let plain = |segment: &SegmentName| !segment.file.contains(['/', '\\']);
        let homes = |entry: &Entry| {
            let segment = catalog.segments.get(entry.position.segment as usize);
            segment.is_some_and(|segment| entry.position.local < segment.documents)
        };
        let sound = catalog.segments.iter().all(plain) && catalog.files.iter().all(homes);
        if sound { Ok(catalog) } else { Err(Malformed) }
    }
}
