//! A part of an index: a segment on disk, or documents in memory.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::path::Path;

use crate::index::catalog::{Entry, SegmentPosition};
use crate::index::scan::Stamp;
use crate::index::segment::{Builder, Segment, SegmentError};
use crate::text::document::{Definition, Document, IdentityHasher, Posting};
use crate::text::term::Term;

#[derive(Debug)]
pub(crate) enum Part {
    Stored(Segment),
    Fresh(Fresh),
    /// Its number is free.
    GivenUp,
}

impl Part {
    /// Calls back for each posting of a term with the number of its document.
    pub(crate) fn postings(
        &self,
        term: Term,
        each: impl FnMut(u32, &Posting),
    ) -> Result<(), SegmentError> {
        match self {
            Self::Stored(segment) => segment.postings(term, each),
            Self::Fresh(fresh) => {
                fresh.postings(term, each);
                Ok(())
            }
            Self::GivenUp => Ok(()),
        }
    }

    /// The definitions of a document.
    pub(crate) fn definitions(
        &self,
        position: &SegmentPosition,
    ) -> Result<Vec<Definition>, SegmentError> {
        match self {
            Self::Stored(segment) => segment.definitions(position),
            Self::Fresh(fresh) => fresh.builder.definitions(position),
            Self::GivenUp => Ok(Vec::new()),
        }
    }
}

/// Documents of a segment that is not written yet. They can be queried like those of a written one.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    builder: Builder,
    places: HashMap<Term, Vec<u32>, BuildHasherDefault<IdentityHasher>>,
}

impl Fresh {
    /// Number of words, which determines its memory.
    pub(crate) fn weight(&self) -> usize {
        self.builder.weight()
    }

    pub(crate) fn documents(&self) -> usize {
        self.builder.documents()
    }

    /// Adds a document; the returned entry does not have the part's number yet.
    pub(crate) fn push(&mut self, path: &str, document: &Document) -> Option<Entry> {
        let first = u32::try_from(self.builder.weight()).ok()?;
        self.builder.push(path, Stamp::default(), document);
        for (posting, at) in document.postings.iter().zip(first..) {
            self.places.entry(posting.term).or_default().push(at);
        }
        self.builder.last().cloned()
    }

    fn postings(&self, term: Term, mut each: impl FnMut(u32, &Posting)) {
        let places = self.places.get(&term).into_iter().flatten();
        for (document, posting) in places.filter_map(|at| self.builder.posting(*at as usize)) {
            each(document, &posting);
        }
    }

    /// Writes the segment; its documents keep their positions.
    pub(crate) fn store(self, path: &Path) -> Result<Segment, SegmentError> {
        store(self.builder, path).map(|(segment, _)| segment)
    }
}

/// Writes a segment for this process alone: its name is removed at once, its space on drop.
pub(crate) fn store(
    mut builder: Builder,
    path: &Path,
) -> Result<(Segment, Vec<Entry>), SegmentError> {
    let written = builder.write(path)?;
    let segment = Segment::open(path, written.sum)?;
    std::fs::remove_file(path)?;
    Ok((segment, written.entries))
}
