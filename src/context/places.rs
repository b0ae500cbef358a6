//! Files that the item names outright: a path, a file's name, a stack frame, a module or a type.

use std::collections::HashMap;

use super::index::Index;
use super::query::Query;
use super::signals::Signals;

/// Adds what mentions say to the signals.
pub(super) fn add(index: &Index, query: &Query, all: &mut [Signals]) {
    let names = Names::of(index);
    for path in &query.paths {
        let (matched, parts) = names.by_path(path);
        let worth = if parts == 1 { 1.0 } else { 2.0 };
        for file in &matched {
            all[*file as usize].mention += worth / matched.len() as f64;
        }
    }
    for dotted in &query.dotted {
        let matched = names.by_module(dotted);
        for file in &matched {
            all[*file as usize].dotted += 1.0 / matched.len() as f64;
        }
    }
    for signals in all {
        signals.mention = signals.mention.min(4.0);
        signals.dotted = signals.dotted.min(3.0);
    }
}

/// Files by their names.
struct Names {
    folded: Vec<String>,
    by_name: HashMap<String, Vec<u32>>,
    by_stem: HashMap<String, Vec<u32>>,
}

impl Names {
    fn of(index: &Index) -> Self {
        let mut names =
            Self { folded: Vec::new(), by_name: HashMap::new(), by_stem: HashMap::new() };
        for (entry, number) in index.files().iter().zip(0u32..) {
            let folded = entry.path.to_lowercase();
            let name = folded.rsplit('/').next().unwrap_or(&folded).to_owned();
            if entry.language.is_code() {
                names
                    .by_stem
                    .entry(module_of(&folded).rsplit('/').next().unwrap_or_default().to_owned())
                    .or_default()
                    .push(number);
            }
            names.by_name.entry(name).or_default().push(number);
            names.folded.push(folded);
        }
        names
    }

    /// The files whose path ends most like `path`, and in how many parts they agree.
    fn by_path(&self, path: &str) -> (Vec<u32>, usize) {
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some(candidates) = self.by_name.get(name) else { return (Vec::new(), 0) };
        let agree = |file: &u32| {
            let mine = self.folded[*file as usize].rsplit('/');
            mine.zip(path.rsplit('/')).take_while(|(a, b)| a == b).count()
        };
        let most = candidates.iter().map(agree).max().unwrap_or(0);
        (candidates.iter().copied().filter(|file| agree(file) == most).collect(), most)
    }

    /// The files that a dotted name points to: `shop.cart.total` may be `shop/cart.py`.
    fn by_module(&self, parts: &[String]) -> Vec<u32> {
        for length in (1..=parts.len()).rev() {
            let tail = parts[length.saturating_sub(2)..length].join("/");
            let Some(candidates) = self.by_stem.get(&parts[length - 1]) else { continue };
            let matched: Vec<u32> = candidates
                .iter()
                .copied()
                .filter(|file| module_of(&self.folded[*file as usize]).ends_with(&tail))
                .collect();
            if !matched.is_empty() && (length >= 2 || matched.len() == 1) {
                return matched;
            }
        }
        Vec::new()
    }
}

/// A path as a module: without its extension, and a package's own file as its folder.
fn module_of(path: &str) -> &str {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    for own in ["/__init__", "/mod", "/index"] {
        if let Some(folder) = stem.strip_suffix(own) {
            return folder;
        }
    }
    stem
}
