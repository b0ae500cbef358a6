//! Files that contain something rare verbatim: a quoted message, a qualified name, a flag. The
//! index tells which files have all its words in one block; those few are read to verify.

use std::collections::HashMap;

use crate::ContextError;
use crate::index::open::Index;
use crate::rank::messages;
use crate::rank::query::Query;
use crate::rank::signals::Signals;
use crate::text::kind::Kind;
use crate::text::term::{self, Space, Term};

/// A literal in more files of the product says little about each.
const MAX_HOLDERS: usize = 6;
/// With more candidate files, reading them is not worth it.
const MAX_CANDIDATES: usize = 40;
/// Files read per query.
const MAX_READ: usize = 120;
/// Words of a literal that are looked up.
const MAX_WORDS: usize = 4;

/// Adds the signals of literals: one for the only file that contains one, less for each of several.
/// A message in a catalogue counts for the code that uses its key.
pub(crate) fn add(index: &Index, query: &Query, all: &mut [Signals]) -> Result<(), ContextError> {
    let mut reader = Literals {
        index,
        postings: Postings { index, known: HashMap::new() },
        texts: HashMap::new(),
    };
    for literal in &query.literals {
        let holders = reader.holders(literal)?;
        add_signal(index, &holders, all);
        for catalogue in holders {
            if let Some(key) = reader.key_of(catalogue, literal) {
                let mut users = reader.holders(&key)?;
                users.retain(|file| !messages::is_catalogue(&index.files()[*file as usize].path));
                add_signal(index, &users, all);
                credit_key_users(index, catalogue, &users, all);
            }
        }
    }
    Ok(())
}

/// Code that uses the key of a message is scored as if it contained the message.
fn credit_key_users(index: &Index, catalogue: u32, users: &[u32], all: &mut [Signals]) {
    let users = users.iter().filter(|file| index.files()[**file as usize].kind == Kind::Source);
    let users: Vec<usize> = users.map(|file| *file as usize).collect();
    if users.len() > MAX_HOLDERS {
        return;
    }
    let Signals { content, focus, .. } = all[catalogue as usize];
    let share = (users.len() as f64).sqrt();
    for file in users {
        all[file].content = all[file].content.max(content / share);
        all[file].focus = all[file].focus.max(focus / share);
    }
}

/// Adds the signal to the files that contain a literal, if they are few.
fn add_signal(index: &Index, holders: &[u32], all: &mut [Signals]) {
    let is_source = |file: &&u32| index.files()[**file as usize].kind == Kind::Source;
    let sources = holders.iter().filter(is_source).count();
    if (1..=MAX_HOLDERS).contains(&sources) {
        for file in holders {
            all[*file as usize].literal += 1.0 / sources as f64;
        }
    }
}

/// Reads each file once.
struct Literals<'a> {
    index: &'a Index,
    postings: Postings<'a>,
    texts: HashMap<u32, Option<String>>,
}

impl Literals<'_> {
    /// The files that contain a literal; empty if there are too many candidates.
    fn holders(&mut self, literal: &str) -> Result<Vec<u32>, ContextError> {
        let candidates = self.postings.with_all(literal)?;
        if candidates.len() > MAX_CANDIDATES {
            return Ok(Vec::new());
        }
        let mut holders = Vec::new();
        for file in candidates {
            if !self.texts.contains_key(&file) && self.texts.len() >= MAX_READ {
                return Ok(Vec::new());
            }
            let path = &self.index.files()[file as usize].path;
            let text = self.texts.entry(file).or_insert_with(|| self.index.text(path));
            if text.as_deref().is_some_and(|text| text.contains(literal)) {
                holders.push(file);
            }
        }
        Ok(holders)
    }

    /// The key of a message, if its file is a catalogue.
    fn key_of(&self, file: u32, message: &str) -> Option<String> {
        let path = &self.index.files()[file as usize].path;
        let text = self.texts.get(&file)?.as_deref()?;
        messages::key_of(path, text, message).map(str::to_owned)
    }
}

/// The files of a term, each with its blocks; read once.
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
                    terms.push(term::hash(Space::Word, term::stem(part)));
                }
            });
        }
        terms.sort_unstable();
        terms.dedup();
        for term in &terms {
            self.load(*term)?;
        }
        terms.sort_by_key(|term| (self.known[term].len(), *term));
        terms.truncate(MAX_WORDS);
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
