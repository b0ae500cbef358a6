//! The ranked files as a short list for a reader who decides which of them is right, and what the
//! reader chose.

use std::collections::HashMap;

use crate::ContextError;
use crate::index::open::Index;
use crate::pack::spans;
use crate::pack::write::{chances, rarity};
use crate::parts::{self, Part};
use crate::rank::order::RankedFile;
use crate::rank::query::Query;

/// Definitions named per file, the longest of their names, and the longest path.
const MAX_NAMES: usize = 5;
const MAX_REASONS: usize = 2;
const MAX_NAME_LEN: usize = 40;
const MAX_PATH_LEN: usize = 160;
/// Only the beginning of a longer file is judged.
const MAX_LINES: usize = 4000;
/// From this likelihood on the first file is taken without asking. Measured with the words of triage on
/// 112 issues of 13 repositories: 41 of them reach it, and in 39 of those the first file was right.
const CONFIDENT: f64 = 0.9;

/// A file to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Relative to the repository's root; without line breaks.
    pub path: String,
    /// In one line: its length, what it defines for these words, why it was found.
    pub about: String,
}

/// A file that a reader chose, with the functions of it that matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chosen {
    pub path: String,
    pub functions: Vec<String>,
}

/// Whether the first file is so likely that nobody needs to be asked.
pub fn is_confident(ranked: &[RankedFile]) -> bool {
    chances(ranked).first().is_some_and(|first| *first >= CONFIDENT)
}

/// The ranked files, each in one line.
pub fn choices(
    index: &Index,
    query: &Query,
    ranked: &[RankedFile],
) -> Result<Vec<Choice>, ContextError> {
    choices_of(&[Part::only(index)], query, ranked)
}

/// The same for several code bases.
pub fn choices_of(
    parts: &[Part<'_>],
    query: &Query,
    ranked: &[RankedFile],
) -> Result<Vec<Choice>, ContextError> {
    let mut rarities = HashMap::new();
    for part in parts {
        rarities.insert(part.name, rarity(part.index, query)?);
    }
    let mut choices = Vec::new();
    for file in ranked {
        let Some((part, path)) = parts::find(parts, &file.path) else { continue };
        let (index, rarity) = (part.index, &rarities[part.name]);
        let Some(number) = index.find(path) else { continue };
        if file.path.len() > MAX_PATH_LEN || file.path.contains(char::is_control) {
            continue;
        }
        let entry = &index.files()[number as usize];
        let text = index.text(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().take(MAX_LINES).collect();
        let weighed = spans::weigh(&lines, entry.language, rarity);
        let scores: Vec<f64> = weighed.iter().map(spans::Line::score).collect();
        let definitions = index.definitions(number)?;
        let names = spans::worthy_definitions(&definitions, &scores, MAX_NAMES);
        let names: Vec<&str> = names
            .iter()
            .map(|one| one.name.as_str())
            .filter(|name| name.len() <= MAX_NAME_LEN)
            .collect();
        let why = file.short_reasons(MAX_REASONS);
        let parts = [format!("{} lines", entry.lines), names.join(" "), why.join(" ")];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let about = parts.join("; ");
        choices.push(Choice { path: file.path.clone(), about });
    }
    Ok(choices)
}

/// The ranking with the chosen files first, in their order; the others keep theirs. Scores stay
/// with their files. A file that is not in the ranking changes nothing.
pub fn reorder(ranked: Vec<RankedFile>, chosen: &[Chosen]) -> Vec<RankedFile> {
    let place = |file: &RankedFile| {
        chosen.iter().position(|chosen| chosen.path == file.path).unwrap_or(usize::MAX)
    };
    let mut ranked = ranked;
    // Stable: files with the same place keep their order.
    ranked.sort_by_key(place);
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(paths: &[&str]) -> Vec<RankedFile> {
        let file =
            |path: &&str| RankedFile { path: (*path).to_owned(), score: 1.0, reasons: Vec::new() };
        paths.iter().map(file).collect()
    }

    #[test]
    fn chosen_files_come_first_and_unknown_ones_change_nothing() {
        let chosen = ["c", "x", "a"].map(|path| Chosen { path: path.into(), ..Chosen::default() });
        let paths = |ranked: Vec<RankedFile>| -> Vec<String> {
            ranked.into_iter().map(|file| file.path).collect()
        };
        assert_eq!(paths(reorder(ranked(&["a", "b", "c", "d"]), &chosen)), ["c", "a", "b", "d"]);
        assert_eq!(paths(reorder(ranked(&["a", "b"]), &[])), ["a", "b"]);
    }

    #[test]
    fn a_file_far_ahead_is_certain_and_one_among_equals_is_not() {
        let mut files = ranked(&["a", "b", "c"]);
        assert!(!is_confident(&files));
        files[0].score = 5.0;
        assert!(is_confident(&files));
        assert!(!is_confident(&[]));
    }
}
