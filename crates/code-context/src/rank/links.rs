//! Files that the best files lead to: files they use, and the code under test of a matching test.
//!
//! A file counts as using another if it names it: in most languages a file has the name of its
//! type, module or header. Files that use the best ones, files that changed in the same commits and
//! files that differ only by extension were tried too and did not help.

use std::collections::{HashMap, HashSet};

use crate::ContextError;
use crate::index::open::Index;
use crate::index::scan::folder_of;
use crate::rank::signals::Signals;
use crate::text::document::Field;
use crate::text::kind::Kind;
use crate::text::language::Language;
use crate::text::term::{self, Space, Term};

/// Files from which links are followed.
const SOURCES: usize = 10;
/// The best files whose folders count.
const NEIGHBOURS: usize = 5;
/// The best files that are checked for re-exports.
const BARRELS: usize = 60;
/// Files to which links are followed.
const TARGETS: usize = 400;

/// Adds the signals of links; `order` has the files by their score so far, best first.
pub(crate) fn add(
    index: &Index,
    order: &[(f64, usize)],
    all: &mut [Signals],
) -> Result<(), ContextError> {
    let sources: Vec<(usize, f64)> = order
        .iter()
        .filter(|(_, file)| index.files()[*file].kind == Kind::Source)
        .take(SOURCES)
        .enumerate()
        .map(|(place, (_, file))| (*file, 1.0 / (place as f64 + 1.0)))
        .collect();
    let targets: Vec<usize> = order
        .iter()
        .map(|(_, file)| *file)
        .filter(|file| index.files()[*file].kind == Kind::Source)
        .take(TARGETS)
        .collect();
    used(index, &sources, &targets, all)?;
    tested(index, order, all);
    in_same_folder(index, &sources, all);
    declares(index, order, all);
    Ok(())
}

/// The name of the type or module in a file; a package's main file has the folder's name.
fn stem(path: &str) -> &str {
    let name = name_of(path);
    let stem = name.split('.').next().unwrap_or(name);
    if matches!(stem, "__init__" | "mod" | "index" | "lib" | "main") {
        let folder = path.rsplit('/').nth(1).unwrap_or(stem);
        return folder;
    }
    stem
}

/// The term by which other files would name this one.
fn name_term(path: &str) -> Option<Term> {
    let stem = stem(path).as_bytes();
    if stem.len() < 3 {
        return None;
    }
    let folded = stem.to_ascii_lowercase();
    if term::is_compound(stem) {
        return Some(term::hash(Space::Whole, &folded));
    }
    Some(term::hash(Space::Word, term::stem(&folded)))
}

/// Files that the best files name, and so use.
fn used(
    index: &Index,
    sources: &[(usize, f64)],
    targets: &[usize],
    all: &mut [Signals],
) -> Result<(), ContextError> {
    let worth: HashMap<usize, f64> = sources.iter().copied().collect();
    let total = index.files().len() as f64;
    for target in targets {
        let Some(term) = name_term(&index.files()[*target].path) else { continue };
        let mut holders = 0.0;
        let mut named_by = Vec::new();
        index.postings(term, |file, posting| {
            if posting.counts[Field::Identifier as usize] > 0 {
                holders += 1.0;
                let other = file as usize != *target && worth.contains_key(&(file as usize));
                named_by.extend(other.then_some(file as usize));
            }
        })?;
        // Ordered by file: the order of postings depends on how the index was built, and a sum of
        // floats depends on its order.
        named_by.sort_unstable();
        let sum: f64 = named_by.iter().map(|file| worth[file]).sum();
        all[*target].used += sum * (1.0 + total / f64::max(holders, 1.0)).ln();
    }
    Ok(())
}

/// The code whose tests contain the query's words.
fn tested(index: &Index, order: &[(f64, usize)], all: &mut [Signals]) {
    let mut tests: HashMap<String, f64> = HashMap::new();
    for (file, entry) in index.files().iter().enumerate() {
        if entry.kind == Kind::Test && entry.language.is_code() {
            let value = tests.entry(bare_name(&entry.path)).or_default();
            *value = value.max(all[file].content + all[file].focus);
        }
    }
    for (_, file) in order {
        if index.files()[*file].kind == Kind::Source {
            let name = bare_name(&index.files()[*file].path);
            if name.len() > 2
                && let Some(value) = tests.get(&name)
            {
                all[*file].tested = *value;
            }
        }
    }
}

/// A file's name in lower case, without folders, extension and test words.
pub(crate) fn bare_name(path: &str) -> String {
    let name = stem(path);
    let mut words = Vec::new();
    for (_, word) in term::identifiers(name.as_bytes()) {
        term::parts(word, |part| {
            if !matches!(part, b"test" | b"tests" | b"spec" | b"specs") {
                words.push(String::from_utf8_lossy(part).into_owned());
            }
        });
    }
    words.concat()
}

/// Files in the folders of the best ones; a large folder says little about each.
fn in_same_folder(index: &Index, sources: &[(usize, f64)], all: &mut [Signals]) {
    let mut folders: HashMap<&str, f64> = HashMap::new();
    for (file, worth) in sources.iter().take(NEIGHBOURS) {
        *folders.entry(folder_of(&index.files()[*file].path)).or_default() += worth;
    }
    let mut sizes: HashMap<&str, f64> = HashMap::new();
    for entry in index.files() {
        if entry.kind == Kind::Source {
            *sizes.entry(folder_of(&entry.path)).or_default() += 1.0;
        }
    }
    for (signals, entry) in all.iter_mut().zip(index.files()) {
        let folder = folder_of(&entry.path);
        if let Some(worth) = folders.get(folder) {
            signals.same_folder = worth / sizes.get(folder).copied().unwrap_or(1.0).sqrt();
        }
    }
}

/// Type declarations next to the described code, interfaces next to their implementation, and files
/// that only re-export.
fn declares(index: &Index, order: &[(f64, usize)], all: &mut [Signals]) {
    let sharp = index.files().iter().filter(|entry| entry.language == Language::CSharp);
    let sharp: HashSet<&str> = sharp.map(|entry| name_of(&entry.path)).collect();
    for (signals, entry) in all.iter_mut().zip(index.files()) {
        let implemented = implementation(&entry.path).is_some_and(|name| sharp.contains(name));
        signals.declares = f64::from(u8::from(implemented || is_declaration(&entry.path)));
    }
    for (_, file) in order.iter().take(BARRELS) {
        let entry = &index.files()[*file];
        if name_of(&entry.path).starts_with("index.") && entry.language == Language::Script {
            let text = index.text(&entry.path);
            if text.is_some_and(|text| is_barrel(&text)) {
                all[*file].declares = 1.0;
            }
        }
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The implementation of an interface file: `Cart.cs` for `ICart.cs`.
fn implementation(path: &str) -> Option<&str> {
    let name = name_of(path).strip_prefix('I')?;
    (name.ends_with(".cs") && name.starts_with(|c: char| c.is_ascii_uppercase())).then_some(name)
}

fn is_declaration(path: &str) -> bool {
    [".d.ts", ".d.mts", ".d.cts", ".pyi"].iter().any(|end| path.ends_with(end))
}

/// Whether a module only imports and re-exports.
fn is_barrel(text: &str) -> bool {
    let text = without_comments(text);
    let mut statements = text.split(';').flat_map(|part| part.split("\n\n")).map(str::trim);
    let mut exports = 0;
    let only_passes_on = statements.by_ref().filter(|statement| !statement.is_empty()).all(|own| {
        own.lines().filter(|line| !line.trim().is_empty()).all(|line| {
            let line = line.trim();
            let begins = |word: &str| line.starts_with(word);
            exports += usize::from(begins("export"));
            let names = |c: char| c.is_alphanumeric() || "_$,*{} \t".contains(c);
            begins("export *")
                || begins("export {")
                || begins("export type {")
                || begins("import ")
                || begins("'use ")
                || begins("\"use ")
                || (begins("export default ") && line["export default ".len()..].chars().all(names))
                || begins("} from")
                || line.chars().all(names)
        })
    });
    exports > 0 && only_passes_on
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    let text =
        parts.fold(first, |kept, part| kept + part.split_once("*/").map_or("", |(_, rest)| rest));
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrel_only_passes_on_what_others_hold() {
        for barrel in [
            "// all of it\nexport * from './cart';\nexport { Total } from './total';\n",
            "/* MIT */\nimport Cart from './Cart'\nexport default Cart\nexport * from './cart'\n",
            "export {\n  Cart,\n  Total as Sum,\n} from './cart';\nexport type { T } from './t';\n",
        ] {
            assert!(is_barrel(barrel), "{barrel}");
        }
        for module in [
            "export * from './cart';\nexport function total() { return 1; }\n",
            "export const total = 1;\n",
            "import './styles';\n",
            "export default class Cart {\n  total() {}\n}\n",
            "",
        ] {
            assert!(!is_barrel(module), "{module}");
        }
    }
}
