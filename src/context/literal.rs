//! Files that hold something rare word for word: a quoted message, a qualified name, a flag. The
//! index knows which files have all its words in one place; those few are read to be sure.

use std::collections::HashMap;

use super::ContextError;
use super::build::read_text;
use super::index::Index;
use super::kind::Kind;
use super::query::Query;
use super::signals::Signals;
use super::term::{self, Space, Term};

/// A literal that stands in more files of the product than this says little about each.
const MOST_HOLDERS: usize = 6;
/// Files with all words of a literal in one place; more of them are not worth reading.
const MOST_CANDIDATES: usize = 40;
/// Files read for one query.
const MOST_READ: usize = 120;
/// Words of a literal that are looked up.
const MOST_WORDS: usize = 4;

/// Adds what literals say to the signals: one for a file that alone holds one, less for each of many.
pub(super) fn add(index: &Index, query: &Query, all: &mut [Signals]) -> Result<(), ContextError> {
    let mut postings = Postings { index, known: HashMap::new() };
    let mut texts: HashMap<u32, Option<String>> = HashMap::new();
    for literal in &query.literals {
        let candidates = postings.with_all(literal)?;
        if candidates.is_empty() || candidates.len() > MOST_CANDIDATES {
            continue;
        }
        let mut holders = Vec::new();
        for file in candidates {
            if !texts.contains_key(&file) && texts.len() >= MOST_READ {
                return Ok(());
            }
            let path = || index.root().join(&index.files()[file as usize].path);
            let text = texts.entry(file).or_insert_with(|| read_text(&path()));
            if text.as_deref().is_some_and(|text| text.contains(literal.as_str())) {
                holders.push(file);
            }
        }
        let is_source = |file: &&u32| index.files()[**file as usize].kind == Kind::Source;
        let sources = holders.iter().filter(is_source).count();
        if (1..=MOST_HOLDERS).contains(&sources) {
            for file in holders {
                all[file as usize].literal += 1.0 / sources as f64;
            }
        }
    }
    Ok(())
}

/// The files of a term, each with the blocks it stands in; read once.
struct Postings<'a> {
    index: &'a Index,
    known: HashMap<Term, Vec<(u32, u64)>>,
}

impl Postings<'_> {
    /// The files that have all words of a literal in one block.
    fn with_all(&mut self, literal: &str) -> Result<Vec<u32>, ContextError> {
        let mut terms = Vec::new();
        for (_, word) in term::identifiers(literal.as_bytes()) {
            term::parts(word, |part| {
                if part.len() > 2 && !part[0].is_ascii_digit() {
                    terms.push(term::hash(Space::Word, term::stem(&mut part.to_vec())));
                }
            });
        }
        terms.sort_unstable();
        terms.dedup();
        for term in &terms {
            self.load(*term)?;
        }
        terms.sort_by_key(|term| (self.known[term].len(), *term));
        terms.truncate(MOST_WORDS);
        let Some((first, rest)) = terms.split_first() else { return Ok(Vec::new()) };
        let mut found = self.known[first].clone();
        for term in rest {
            let blocks: HashMap<u32, u64> = self.known[term].iter().copied().collect();
            found = found
                .into_iter()
                .filter_map(|(file, own)| Some((file, own & blocks.get(&file)?)))
                .filter(|(_, blocks)| *blocks != 0)
                .collect();
        }
        Ok(found.into_iter().map(|(file, _)| file).collect())
    }

    fn load(&mut self, term: Term) -> Result<(), ContextError> {
        if !self.known.contains_key(&term) {
            let mut files = Vec::new();
            self.index.postings(term, |file, posting| {
                if posting.blocks != 0 {
                    files.push((file, posting.blocks));
                }
            })?;
            files.sort_unstable();
            self.known.insert(term, files);
        }
        Ok(())
    }
}
