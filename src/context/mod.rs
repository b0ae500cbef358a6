//! The right files before the first token: a ranked, compact picture of the code base.
//!
//! The way of the data: `scan` and `rescan` find the files, `document` reads each one into words by
//! field and definitions, `segment`, `catalog` and `store` keep them on disk outside the repository,
//! `history` adds what git remembers. [`Query`] says what an item is about, [`signals()`] what speaks
//! for each file, [`rank()`] weighs that, [`pack()`] writes it down inside a budget of tokens.
//!
//! # Signals
//! Few, each with a plain reason: the item's words anywhere in the file and close together in one
//! place, in its name and its folders; its path mentioned outright (stack frames and links count),
//! or the name it bears, however that is written (`source maps`, `sourceMap`, `source-map.ts`);
//! commits about the same words; a definition whose name is made of them; the language of the
//! product; files the best ones use; its tests. Tests, examples, documents, settings, generated and
//! vendored files stand back unless the title asks for them. Names and mentions are measured against
//! what one rare word would weigh, so that weak evidence stays weak even where it is the best.
//!
//! How often the right file is found, and what each group of signals is worth: `benches/README.md`.
//!
//! Doubling or halving any one weight, the saturation, the length penalty or the share of the title
//! moves the hits by a point or so, which is less than the noise of 300 texts. Tried and left out,
//! because they did not help on repositories held out: files that changed together, files that use
//! the best ones, the folder's other files, twins with another extension, how often a file changes,
//! its size, the title's words counted apart, exact names of definitions apart from the places they
//! mark, how much of a file's name the item covers, scripts and build files as a kind of their own,
//! and a second look into the best files for windows of eight lines and for three words in a row.
//!
//! # What was weighed
//! - **An index by hand, not tantivy.** The ranking needs counts by field and places inside the file
//!   for a few hundred words at once, and exact figures over living files only; a posting of a hash,
//!   six counts and a mask of 64 blocks of lines is that and no more (times beside tantivy:
//!   `benches/README.md`).
//! - **Folders, not only files, are remembered.** A folder whose time has not moved has the names it
//!   had, so a second look lists only folders that changed and asks for the time of each known file.
//!   A list of what git tracks would be no quicker and leaves out what is new.
//! - **Sums, not waiting for the disk.** Everything is checked as it is read, so damage of any kind,
//!   a crash of the machine included, ends in an index that is built anew, not in a wrong answer.
//! - **Line patterns, not tree-sitter.** Twelve grammars would be most of the build time and of the
//!   binary; patterns survive broken code and cannot be made to recurse. What they miss is still
//!   found as an identifier.
//! - **Reading at a place, not mapping.** A mapped file that is cut short ends the process, and
//!   mapping is `unsafe`; a query reads a few hundred small pieces.
//! - **No embedded model.** Nothing to download, nothing to explain away.

mod build;
mod bytes;
mod catalog;
mod definition;
mod document;
mod git;
mod history;
mod home;
mod index;
mod kind;
mod language;
mod links;
mod literal;
mod mention;
mod noise;
mod outline;
mod overview;
mod pack;
mod past;
mod pieces;
mod places;
mod plan;
mod purpose;
mod query;
mod rank;
mod related;
mod rescan;
mod scan;
mod segment;
mod shown;
mod signals;
mod spans;
mod store;
mod subject;
mod term;

use std::path::PathBuf;

pub use catalog::Entry;
pub use document::{Content, Definition, Document, FIELDS, Field, Posting, Reader};
pub use history::{Commit, History};
pub use index::Index;
pub use kind::Kind;
pub use language::Language;
pub use overview::overview;
pub use pack::{Packed, pack};
pub use query::{Query, Weighted};
pub use rank::{RankedFile, rank, scored};
pub use scan::{Found, Skipped, Stamp};
pub use signals::{SIGNALS, Signals, signals};
pub use store::remove_unused;
pub use subject::{Subject, TextKind};

/// How an index is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Threads that read and tokenise.
    pub threads: usize,
    /// Larger files of code are known by path only.
    pub largest_file: u64,
    /// Files beyond this many, in the order of paths, are left out.
    pub most_files: usize,
    /// Read the history too?
    pub history: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 2, largest_file: 1 << 20, most_files: 300_000, history: true }
    }
}

/// What building or updating an index did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BuildReport {
    /// Files found.
    pub files: usize,
    /// Files read because they were new or changed.
    pub read: usize,
    /// Files known from before.
    pub kept: usize,
    /// Known files that are gone or changed.
    pub gone: usize,
    /// Commits known.
    pub commits: usize,
    /// What was set aside.
    pub skipped: Skipped,
    /// Why everything was read anew, if it was.
    pub rebuilt: Option<&'static str>,
}

/// Why there is no context.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The code base cannot be read.
    #[error("cannot read the code base at {}: {source}", path.display())]
    Repository {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The index cannot be written.
    #[error("cannot write the index at {}: {source}", path.display())]
    Store {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The index would end up in what it indexes.
    #[error("the index folder {} is inside the code base; choose one outside", cache.display())]
    CacheInsideRepository {
        /// As given.
        cache: PathBuf,
    },
    /// The index is damaged; [`Index::rebuild`] makes it anew.
    #[error("the index is damaged ({reason})")]
    Damaged {
        /// What was wrong.
        reason: String,
    },
    /// A thread ended unexpectedly.
    #[error("a thread of the indexer panicked")]
    Worker,
}
