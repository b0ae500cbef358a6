//! Files that the item names explicitly: a path, a file name, a stack frame, a module, a rule or a
//! type.

use std::collections::{BTreeMap, HashMap};

use crate::index::open::Index;
use crate::rank::query::Query;
use crate::rank::signals::Signals;
use crate::text::language::Language;
use crate::text::term;

/// Weight of the end or the beginning of a file's name, relative to the whole name.
const PART: f64 = 0.5;

/// Adds the signals of mentions.
pub(crate) fn add(index: &Index, query: &Query, all: &mut [Signals]) {
    mentioned(index, query, all);
    crate::rank::named::add(index, query, all);
    named(index, query, all);
}

/// Files whose path or file name occurs in the item. A path shared by many files says little.
fn mentioned(index: &Index, query: &Query, all: &mut [Signals]) {
    let mut wanted: HashMap<&str, Vec<u32>> = HashMap::new();
    for path in &query.paths {
        wanted.entry(file_name(path)).or_default();
    }
    let mut folded = String::new();
    for (entry, number) in index.files().iter().zip(0u32..) {
        folded.clear();
        folded.push_str(file_name(&entry.path));
        folded.make_ascii_lowercase();
        if let Some(files) = wanted.get_mut(folded.as_str()) {
            files.push(number);
        }
    }
    for path in &query.paths {
        let candidates = &wanted[file_name(path)];
        let agree = |file: &u32| agreement(&index.files()[*file as usize].path, path);
        let most = candidates.iter().map(agree).max().unwrap_or(0);
        let matched: Vec<u32> =
            candidates.iter().copied().filter(|file| agree(file) == most).collect();
        let worth = if most == 1 { 1.0 } else { 2.0 };
        for file in &matched {
            all[*file as usize].mention += worth / matched.len() as f64;
        }
    }
    for signals in all {
        signals.mention = signals.mention.min(4.0);
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Number of path parts that agree, from the end.
fn agreement(own: &str, asked: &str) -> usize {
    let equal = |(a, b): &(&str, &str)| a.eq_ignore_ascii_case(b);
    own.rsplit('/').zip(asked.rsplit('/')).take_while(equal).count()
}

/// Files whose own name occurs in the item in any spelling. A name that many files have says
/// little.
fn named(index: &Index, query: &Query, all: &mut [Signals]) {
    let mut hits: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for (file, entry) in index.files().iter().enumerate() {
        if entry.language.is_code() {
            let mut hit = |name: &str, share: f64| {
                if let Some((name, _)) = query.names.get_key_value(name) {
                    hits.entry(name).or_default().push((file, share));
                }
            };
            let unit = unit_name(&entry.path);
            each_name(unit, &mut hit);
            if entry.language == Language::CSharp {
                hit(&term::squeeze(&counterpart(unit)), PART);
            }
        }
    }
    for (name, files) in hits {
        let bearers: f64 = files.iter().map(|(_, share)| share).sum();
        for (file, share) in files {
            all[file].named += query.names[name] * share / bearers.max(1.0);
        }
    }
}

/// In C#, `ICart` is the interface of `Cart`, and often both change together.
fn counterpart(name: &str) -> String {
    let implementation = name.strip_prefix('I').filter(|rest| rest.starts_with(is_upper));
    implementation.map_or_else(|| format!("I{name}"), str::to_owned)
}

fn is_upper(c: char) -> bool {
    c.is_ascii_uppercase()
}

/// Calls back with a squeezed name, and its ends and beginnings of at least two parts:
/// `HandleUtilityClass` handles what the item calls `UtilityClass`.
fn each_name(name: &str, mut each: impl FnMut(&str, f64)) {
    each(&term::squeeze(name), 1.0);
    let mut parts = Vec::new();
    for (_, word) in term::identifiers(name.as_bytes()) {
        term::parts(word, |part| parts.push(String::from_utf8_lossy(part).into_owned()));
    }
    for cut in 1..parts.len().saturating_sub(1) {
        each(&term::squeeze(&parts[cut..].concat()), PART);
        each(&term::squeeze(&parts[..parts.len() - cut].concat()), PART);
    }
}

/// The name of a file's unit: a package's main file has the folder's name.
fn unit_name(path: &str) -> &str {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    if !matches!(stem, "__init__" | "mod" | "index" | "lib" | "main" | "init") {
        return stem;
    }
    parts.find(|part| !matches!(*part, "src" | "lib" | "source" | "main")).unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_stands_for_its_folder_bears_its_name() {
        assert_eq!(unit_name("packages/cart-core/src/index.ts"), "cart-core");
        assert_eq!(unit_name("shop/cart/__init__.py"), "cart");
        assert_eq!(unit_name("src/cart.rs"), "cart");
        assert_eq!(unit_name("src/main.rs"), "main");
    }

    #[test]
    fn ends_and_beginnings_of_a_name_count_half() {
        let mut names = Vec::new();
        each_name("HandleUtilityClass", |name, share| names.push((name.to_owned(), share)));
        let expected = [("handleutilityclas", 1.0), ("utilityclas", PART), ("handleutility", PART)];
        assert_eq!(names, expected.map(|(name, share)| (name.to_owned(), share)));
    }

    #[test]
    fn an_interface_and_its_implementation_are_named_together() {
        assert_eq!(counterpart("ICart"), "Cart");
        assert_eq!(counterpart("Cart"), "ICart");
        assert_eq!(counterpart("Invoice"), "IInvoice");
    }

    #[test]
    fn paths_agree_from_their_ends() {
        assert_eq!(agreement("src/Shop/Cart.cs", "x/shop/cart.cs"), 2);
        assert_eq!(agreement("src/Shop/Cart.cs", "cart.cs"), 1);
        assert_eq!(agreement("src/Shop/Cart.cs", "other.cs"), 0);
    }
}
