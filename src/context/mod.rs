//! The right files before the first token: a ranked, compact picture of the code base.

mod build;
mod bytes;
mod definition;
mod document;
mod git;
mod history;
mod index;
mod kind;
mod language;
mod links;
mod mention;
mod overview;
mod pack;
mod past;
mod places;
mod query;
mod rank;
mod scan;
mod segment;
mod signals;
mod spans;
mod store;
mod term;

use std::path::PathBuf;

pub use document::{Content, Definition, Document, FIELDS, Field, Posting, Reader};
pub use history::{Commit, History};
pub use index::Index;
pub use kind::Kind;
pub use language::Language;
pub use overview::overview;
pub use pack::{Packed, estimate_tokens, pack};
pub use query::{Query, Weighted};
pub use rank::{RankedFile, rank};
pub use scan::{Found, Skipped, Stamp};
pub use segment::Entry;
pub use signals::{SIGNALS, Signals, signals};

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
    #[error("the index folder {} lies inside the code base; choose one outside", cache.display())]
    CacheInsideRepository {
        /// As given.
        cache: PathBuf,
    },
    /// The index was damaged while it was in use; opening it again rebuilds it.
    #[error("the index is damaged ({reason})")]
    Damaged {
        /// What was wrong.
        reason: String,
    },
    /// A thread ended unexpectedly.
    #[error("a thread of the indexer ended unexpectedly")]
    Worker,
}
