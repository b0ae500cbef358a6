//! Units in several files: a view with the code behind it (`Cart.razor` and `Cart.razor.cs`,
//! `cart.component.html` and `cart.component.ts`), and the files that declare one partial type.
//! Evidence for one of them counts for the others too, but less.

use crate::ContextError;
use crate::index::open::Index;
use crate::index::scan::folder_of;
use crate::rank::query::Query;
use crate::rank::signals::Signals;
use crate::rank::weights::Weights;
use crate::text::document::Field;
use crate::text::kind::Kind;
use crate::text::language::Language;
use crate::text::term::{self, Space};

/// Files whose other parts are searched for.
const BEST: usize = 10;
/// Types of one file that are looked up, and files that may declare one of them.
const MAX_TYPES: usize = 3;
const MAX_PARTS: usize = 12;

/// Weight of a part of a type: it is in the same language, so it has its own evidence.
const TYPE: f64 = 0.5;

const MARKUP: [&str; 5] = [".razor", ".cshtml", ".xaml", ".axaml", ".html"];
const BEHIND: [&str; 6] = [".cs", ".vb", ".ts", ".js", ".css", ".scss"];

/// Adds the lead of a best file over its other parts.
pub(crate) fn add(
    index: &Index,
    query: &Query,
    weights: &Weights,
    all: &mut [Signals],
) -> Result<(), ContextError> {
    let order = crate::rank::order::order(index, query, weights, all);
    let mut scores = vec![0.0; order.len()];
    order.iter().for_each(|(score, file)| scores[*file] = *score);
    let is_source = |file: usize| index.files()[file].kind == Kind::Source;
    for (score, file) in order.iter().filter(|(_, file)| is_source(*file)).take(BEST) {
        let mut add = |part: usize, share: f64| {
            let ahead = (score - scores[part]) * share;
            if is_source(part) {
                all[part].together = all[part].together.max(ahead);
            }
        };
        parts_of_view(index, *file).into_iter().for_each(|part| add(part, 1.0));
        parts_of_types(index, *file)?.into_iter().for_each(|part| add(part, TYPE));
    }
    Ok(())
}

/// The other files of the view that a file belongs to, if any.
fn parts_of_view(index: &Index, file: usize) -> Vec<usize> {
    let path = &index.files()[file].path;
    let same = |other: &&str| view_of(other) == view_of(path);
    let inside = index.inside(folder_of(path)).map(|entry| entry.path.as_str());
    let parts: Vec<&str> = inside.filter(same).collect();
    let is_markup = |path: &&str| MARKUP.iter().any(|end| path.ends_with(end));
    if !parts.iter().any(is_markup) {
        return Vec::new();
    }
    let numbers = parts.iter().filter_map(|part| index.find(part));
    numbers.map(|number| number as usize).filter(|part| *part != file).collect()
}

/// The path of a view without the endings in which its files differ.
fn view_of(path: &str) -> &str {
    let without = |path, ends: &[&str]| ends.iter().find_map(|end| str::strip_suffix(path, end));
    let markup = without(path, &BEHIND).unwrap_or(path);
    without(markup, &MARKUP).unwrap_or(markup)
}

/// The other files that declare a partial type of this one.
fn parts_of_types(index: &Index, file: usize) -> Result<Vec<usize>, ContextError> {
    let read = |file: usize| index.text(&index.files()[file].path);
    let is_sharp = |file: usize| index.files()[file].language == Language::CSharp;
    let Some(text) = Some(file).filter(|file| is_sharp(*file)).and_then(read) else {
        return Ok(Vec::new());
    };
    let mut parts = Vec::new();
    for name in partial_types(&text).take(MAX_TYPES) {
        let mut others = Vec::new();
        let term = term::hash(Space::Symbol, name.to_ascii_lowercase().as_bytes());
        index.postings(term, |other, posting| {
            if posting.counts[Field::Definition as usize] > 0 {
                others.push(other as usize);
            }
        })?;
        others.retain(|other| *other != file && is_sharp(*other));
        if others.len() < MAX_PARTS {
            let declares = |text: String| partial_types(&text).any(|other| other == name);
            parts.extend(others.into_iter().filter(|other| read(*other).is_some_and(declares)));
        }
    }
    Ok(parts)
}

/// The names of partial types that a C# text declares.
fn partial_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (_, declared) = line.split_once("partial ")?;
        let mut words = declared.split_whitespace();
        let kind = words
            .next()
            .filter(|kind| matches!(*kind, "class" | "struct" | "interface" | "record"))?;
        let mut name = words.next()?;
        if kind == "record" && matches!(name, "class" | "struct") {
            name = words.next()?;
        }
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        Some(&name[..end]).filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_view_share_its_name() {
        for path in ["a/Cart.razor", "a/Cart.razor.cs", "a/Cart.razor.css", "a/Cart.cs"] {
            assert_eq!(view_of(path), "a/Cart");
        }
        assert_eq!(view_of("a/cart.component.html"), view_of("a/cart.component.ts"));
        assert_ne!(view_of("a/cart.service.ts"), view_of("a/cart.component.html"));
    }

    #[test]
    fn partial_types_are_named_by_their_declaration() {
        let text = "public sealed partial class Cart<T> : Base\ninternal partial record struct Line(int A)\n\
                    // a partial class\npartial void OnChanged();\nclass Whole { }\n";
        assert_eq!(partial_types(text).collect::<Vec<_>>(), ["Cart", "Line"]);
    }
}
