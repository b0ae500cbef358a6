//! Which files have a name or several words at once: for checking what somebody says about the code.

use crate::index::open::Index;
use crate::text::term::{self, Space, Term};

/// Longer identifiers are not in the index.
const MAX_NAME_LEN: usize = 64;
/// Files that are read to tell a name from a word of prose; a word in more of them is common.
const FEW: usize = 8;

impl Index {
    /// Whether a name occurs in the code; `None` if the index cannot tell.
    pub fn knows(&self, name: &str) -> Option<bool> {
        if name.len() > MAX_NAME_LEN {
            return None;
        }
        let holders = self.holders(name);
        if holders.is_empty() || holders.len() > FEW || term::is_compound(name.as_bytes()) {
            return Some(!holders.is_empty());
        }
        // The index knows words by their stem: `totals` for `total`.
        let has = |number: &u32| {
            let text = self.files().get(*number as usize).and_then(|file| self.text(&file.path));
            let folded = name.to_ascii_lowercase();
            text.is_some_and(|text| {
                let words = term::identifiers(text.as_bytes());
                words.into_iter().any(|(_, word)| {
                    let mut found = false;
                    term::parts(word, |part| found |= part == folded.as_bytes());
                    found || word.eq_ignore_ascii_case(folded.as_bytes())
                })
            })
        };
        Some(holders.iter().any(has))
    }

    /// Paths of files that have all of these words, at most so many. The rarest come first: once few
    /// files are left, the other words are not asked for, since the caller reads these anyway.
    pub fn files_with(&self, words: &[&str], most: usize) -> Vec<String> {
        let words = words.iter().filter(|word| word.len() <= MAX_NAME_LEN);
        let mut common: Option<Vec<u32>> = None;
        for word in words {
            let holders = self.holders(word);
            let left = match common {
                None => holders,
                Some(before) => {
                    before.into_iter().filter(|file| holders.binary_search(file).is_ok()).collect()
                }
            };
            let are_few = left.len() < most.min(FEW);
            common = Some(left);
            if are_few {
                break;
            }
        }
        let numbers = common.unwrap_or_default().into_iter().take(most);
        numbers.filter_map(|number| Some(self.files().get(number as usize)?.path.clone())).collect()
    }

    /// Numbers of the files that have a word.
    fn holders(&self, word: &str) -> Vec<u32> {
        let mut files = Vec::new();
        // A damaged index answers nothing; it is rebuilt when the next context is built.
        drop(self.postings(term_of(word), |file, _| files.push(file)));
        // One segment has them in order, and most indexes have one.
        if !files.is_sorted() {
            files.sort_unstable();
        }
        files.dedup();
        files
    }
}

fn term_of(word: &str) -> Term {
    let folded = word.to_ascii_lowercase();
    match term::is_compound(word.as_bytes()) {
        true => term::hash(Space::Whole, folded.as_bytes()),
        false => {
            let bare = folded.trim_matches('_').as_bytes();
            term::hash(Space::Word, term::stem(bare))
        }
    }
}
