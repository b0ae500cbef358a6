//! One file as the index sees it: its words by field, their positions, and its definitions. Pure:
//! text in, document out.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::text::definition::{MAX_PER_FILE, defined_name};
use crate::text::kind::Kind;
use crate::text::language::Language;
use crate::text::lexer::Lexer;
use crate::text::term::{self, Space, Term};

/// Where in a file a word was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Field {
    Name = 0,
    /// The folders above it.
    Folder = 1,
    /// Names it defines.
    Definition = 2,
    Identifier = 3,
    /// Comments and documentation strings.
    Comment = 4,
    /// String literals, and all text that is not code.
    Text = 5,
}

pub const FIELDS: usize = 6;

/// A file is divided into at most this many blocks of lines, one bit each in a posting.
pub const BLOCKS: usize = 64;
const SMALLEST_BLOCK: usize = 24;

/// One word of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    pub term: Term,
    /// How often it occurs in each field.
    pub counts: [u8; FIELDS],
    /// Bit mask of the blocks of lines.
    pub blocks: u64,
}

/// A name that a file defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// From 1.
    pub line: u32,
    /// As written.
    pub name: String,
}

/// How much of a file was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Content {
    /// All of it.
    Read,
    /// Only its path: larger than the limit.
    Large,
    /// Only its path: not text.
    Binary,
    /// Only its path: lines that are not written by hand.
    Minified,
    /// Only its path: the system refused access.
    Unreadable,
}

/// One file as the index sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub kind: Kind,
    pub language: Language,
    pub content: Content,
    pub lines: u32,
    /// Lines per block.
    pub block_lines: u32,
    /// Words per field.
    pub lengths: [u32; FIELDS],
    /// In no particular order.
    pub postings: Vec<Posting>,
    /// In the file's order.
    pub definitions: Vec<Definition>,
}

/// A hasher for terms, which are already hashes.
#[derive(Default, Clone, Copy)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = term::raw_hash(self.0, bytes);
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type TermMap<V> = HashMap<u64, V, BuildHasherDefault<IdentityHasher>>;

#[derive(Default, Clone, Copy)]
struct SeenTerm {
    counts: [u16; FIELDS],
    blocks: u64,
}

impl SeenTerm {
    fn add(&mut self, other: &Self) {
        for (mine, more) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(more);
        }
        self.blocks |= other.blocks;
    }
}

/// Reads files into documents; keeps its tables between files.
#[derive(Default)]
pub struct Reader {
    identifiers: TermMap<(usize, usize, SeenTerm)>,
    terms: TermMap<SeenTerm>,
}

impl Reader {
    /// The document of a file of which only the path is indexed.
    pub fn read_path_only(&mut self, path: &str, content: Content) -> Document {
        let mut document = self.read(path, b"");
        document.content = content;
        if content == Content::Minified && document.kind == Kind::Source {
            document.kind = Kind::Generated;
        }
        document
    }

    /// The document of a file.
    pub fn read(&mut self, path: &str, text: &[u8]) -> Document {
        empty(&mut self.identifiers, text.len());
        empty(&mut self.terms, text.len());
        let language = Language::of(path, text);
        let total_lines = text.split(|byte| *byte == b'\n').count();
        let block_lines = total_lines.div_ceil(BLOCKS).max(SMALLEST_BLOCK);
        let mut kind = Kind::of_path(path, language.is_code());
        if matches!(kind, Kind::Source) && says_generated(text) {
            kind = Kind::Generated;
        }
        let mut lengths = [0; FIELDS];
        let mut definitions = Vec::new();
        let mut lexer = Lexer::new(language);
        let mut offset = 0;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let block = 1u64 << (index / block_lines).min(BLOCKS - 1);
            if lexer.is_in_code()
                && definitions.len() < MAX_PER_FILE
                && let Some(range) = defined_name(language, line)
            {
                self.define(&line[range.clone()], block, &mut lengths);
                let name = String::from_utf8_lossy(&line[range]).into_owned();
                definitions
                    .push(Definition { line: u32::try_from(index + 1).unwrap_or(u32::MAX), name });
            }
            let mut each = |field: Field, at: usize, word: &[u8]| {
                lengths[field as usize] += 1;
                let first = || (offset + at, word.len(), SeenTerm::default());
                let entry =
                    self.identifiers.entry(term::hash_in_memory(word)).or_insert_with(first);
                entry.2.counts[field as usize] = entry.2.counts[field as usize].saturating_add(1);
                entry.2.blocks |= block;
            };
            lexer.read(line, &mut each);
            offset += line.len() + 1;
        }
        self.add_path(path, &mut lengths);
        self.fold(text);
        let postings = self
            .terms
            .iter()
            .map(|(term, seen)| Posting {
                term: *term,
                counts: seen.counts.map(|count| u8::try_from(count).unwrap_or(u8::MAX)),
                blocks: seen.blocks,
            })
            .collect();
        let lines = u32::try_from(total_lines).unwrap_or(u32::MAX);
        Document {
            kind,
            language,
            content: Content::Read,
            lines,
            block_lines: u32::try_from(block_lines).unwrap_or(u32::MAX),
            lengths,
            postings,
            definitions,
        }
    }

    fn define(&mut self, name: &[u8], block: u64, lengths: &mut [u32; FIELDS]) {
        let mut seen = SeenTerm { blocks: block, ..SeenTerm::default() };
        seen.counts[Field::Definition as usize] = 1;
        lengths[Field::Definition as usize] += 1;
        let terms = &mut self.terms;
        term::terms_of(name, |term| terms.entry(term).or_default().add(&seen));
        terms.entry(term::hash(Space::Symbol, &name.to_ascii_lowercase())).or_default().add(&seen);
    }

    fn add_path(&mut self, path: &str, lengths: &mut [u32; FIELDS]) {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name
            .split_once('.')
            .map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
        for (field, text) in [(Field::Name, stem), (Field::Folder, folders)] {
            let mut seen = SeenTerm::default();
            seen.counts[field as usize] = 1;
            for (_, word) in term::identifiers(text.as_bytes()) {
                lengths[field as usize] += 1;
                let terms = &mut self.terms;
                term::terms_of(word, |term| terms.entry(term).or_default().add(&seen));
            }
        }
    }

    /// Turns the identifiers of the file, each counted once, into terms.
    fn fold(&mut self, text: &[u8]) {
        for (start, length, seen) in self.identifiers.values() {
            let terms = &mut self.terms;
            term::terms_of(&text[*start..start + length], |term| {
                terms.entry(term).or_default().add(seen);
            });
        }
    }
}

/// Clears a table for a text of that many bytes. After a long file, clearing and iterating the
/// large table would cost more than all the words of a short one.
fn empty<V>(table: &mut TermMap<V>, bytes: usize) {
    const USUAL: usize = 512;
    let wanted = (bytes / 16).max(USUAL);
    if table.capacity() > 4 * wanted {
        *table = TermMap::with_capacity_and_hasher(wanted, BuildHasherDefault::default());
    } else {
        table.clear();
    }
}

/// Whether the head of the file states that it was generated.
fn says_generated(text: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&text[..text.len().min(600)]).to_ascii_lowercase();
    ["@generated", "do not edit", "<auto-generated", "autogenerated", "automatically generated"]
        .iter()
        .any(|mark| head.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(document: &Document, space: Space, word: &str) -> [u8; FIELDS] {
        let bytes = word.as_bytes();
        let term = term::hash(space, if space == Space::Word { term::stem(bytes) } else { bytes });
        document
            .postings
            .iter()
            .find(|posting| posting.term == term)
            .map(|posting| posting.counts)
            .unwrap_or_default()
    }

    #[test]
    fn words_are_kept_by_field() {
        let text = b"// basket comment\nclass CartService {\n  /* long\n basket */ int total(int x) { log(\"checkout // failed\"); }\n}\n";
        let document = Reader::default().read("src/shop/CartService.java", text);
        assert_eq!(counts(&document, Space::Word, "basket"), [0, 0, 0, 0, 2, 0]);
        assert_eq!(counts(&document, Space::Word, "checkout"), [0, 0, 0, 0, 0, 1]);
        assert_eq!(counts(&document, Space::Word, "failed"), [0, 0, 0, 0, 0, 1]);
        assert_eq!(counts(&document, Space::Word, "cart"), [1, 0, 1, 1, 0, 0]);
        assert_eq!(counts(&document, Space::Symbol, "cartservice"), [0, 0, 1, 0, 0, 0]);
        assert_eq!(counts(&document, Space::Whole, "cartservice"), [1, 0, 1, 1, 0, 0]);
        assert_eq!(counts(&document, Space::Word, "shop"), [0, 1, 0, 0, 0, 0]);
        let names: Vec<_> = document
            .definitions
            .iter()
            .map(|definition| (definition.line, definition.name.as_str()))
            .collect();
        assert_eq!(names, [(2, "CartService")]);
    }

    #[test]
    fn documentation_strings_are_comments() {
        let document = Reader::default().read(
            "a.py",
            b"def f():\n    \"\"\"Total of\n    the basket.\"\"\"\n    return basket # why\n",
        );
        assert_eq!(counts(&document, Space::Word, "basket"), [0, 0, 0, 1, 1, 0]);
        assert_eq!(counts(&document, Space::Word, "why"), [0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn blocks_tell_where_a_word_stands() {
        let text = format!("{}needle\n", "x y\n".repeat(24 * 3));
        let document = Reader::default().read("a.rs", text.as_bytes());
        let term = term::hash(Space::Word, b"needl");
        let posting = document.postings.iter().find(|posting| posting.term == term).unwrap();
        assert_eq!(posting.blocks, 1 << 3);
    }

    #[test]
    fn a_generated_head_is_believed() {
        assert_eq!(
            Reader::default().read("src/a.go", b"// Code generated by x. DO NOT EDIT.\n").kind,
            Kind::Generated
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400), extension in "(rs|py|js|cs|md|rb|html)") {
            let document = Reader::default().read(&format!("a.{extension}"), &text);
            assert!(document.definitions.len() <= MAX_PER_FILE);
        }
    }
}
