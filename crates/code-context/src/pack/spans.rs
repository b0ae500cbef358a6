//! Scores the lines of a file for a query. Pure.

use std::collections::{BTreeSet, HashMap};

use crate::text::document::Definition;
use crate::text::language::Language;
use crate::text::term::{self, Space, Term};

/// Lines after a definition that count for it if the next one is far.
const SPAN: usize = 14;
/// Weight of a comment relative to code.
const COMMENT: f64 = 0.5;

/// A line as the query sees it: its distinct terms with their weights.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Vec<(Term, f64)>);

impl Line {
    /// The score of the line alone.
    pub(crate) fn score(&self) -> f64 {
        self.0.iter().map(|(_, worth)| worth).sum()
    }
}

/// Weighs every line; import lines have no weight.
pub(crate) fn weigh(lines: &[&str], language: Language, rarity: &HashMap<Term, f64>) -> Vec<Line> {
    let mut in_comment = false;
    let weigh = |line: &&str| {
        let text = line.trim_start();
        if let Some((open, close)) = language.block_comment() {
            let has = |mark: &[u8]| text.as_bytes().windows(mark.len()).any(|part| part == mark);
            in_comment = (in_comment || text.as_bytes().starts_with(open)) && !has(close);
        }
        let mark = language.line_comment();
        let comment = in_comment
            || text.starts_with('*')
            || !mark.is_empty() && text.as_bytes().starts_with(mark);
        if language.is_code() && brings_in(text) {
            return Line::default();
        }
        let mut seen = BTreeSet::new();
        for (_, word) in term::identifiers(&line.as_bytes()[..line.len().min(400)]) {
            term::terms_of(word, |term| {
                seen.insert(term);
            });
            seen.insert(term::hash(Space::Symbol, &word.to_ascii_lowercase()));
        }
        let factor = if comment { COMMENT } else { 1.0 };
        let worth = |term| rarity.get(&term).map(|worth| (term, worth * factor));
        Line(seen.into_iter().filter_map(worth).collect())
    };
    lines.iter().map(weigh).collect()
}

/// Whether the line only imports names.
fn brings_in(line: &str) -> bool {
    ["import ", "from ", "using ", "use ", "#include", "package ", "namespace ", "require ", "mod "]
        .iter()
        .any(|start| line.starts_with(start))
        && !line.contains('(')
}

/// The definitions to show: all if they are few, else the most relevant ones.
pub(crate) fn worthy_definitions(
    definitions: &[Definition],
    scores: &[f64],
    most: usize,
) -> Vec<Definition> {
    if definitions.len() <= most {
        return definitions.to_vec();
    }
    let mut weighed: Vec<(f64, usize)> = definitions
        .iter()
        .enumerate()
        .map(|(at, definition)| {
            let start = definition.line as usize - 1;
            let end = definitions
                .get(at + 1)
                .map_or(start + SPAN, |next| next.line as usize - 1)
                .min(scores.len());
            let own = scores.get(start).copied().unwrap_or(0.0);
            let body: f64 = scores
                .get(start..end.max(start))
                .unwrap_or_default()
                .iter()
                .copied()
                .fold(0.0, f64::max);
            (own * 2.0 + body, at)
        })
        .collect();
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    weighed.truncate(most);
    weighed.sort_by_key(|(_, at)| *at);
    weighed.into_iter().map(|(_, at)| definitions[at].clone()).collect()
}

/// The score of a window: each term once at its best, a little for more of it.
pub(crate) fn worth(window: &[Line]) -> f64 {
    let mut best: Vec<(Term, f64)> =
        window.iter().flat_map(|line| line.0.iter().copied()).collect();
    let all: f64 = best.iter().map(|(_, worth)| worth).sum();
    best.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    best.dedup_by_key(|(term, _)| *term);
    let once: f64 = best.iter().map(|(_, worth)| worth).sum();
    once + all * 0.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_worth_more_than_comments_and_imports_nothing() {
        let rarity = HashMap::from([(term::hash(Space::Word, b"discount"), 3.0)]);
        let text = ["use discount::x;", "// discount", "/* a", " discount", " */", "discount();"];
        let scores: Vec<f64> =
            weigh(&text, Language::Rust, &rarity).iter().map(Line::score).collect();
        assert_eq!(scores, [0.0, 1.5, 0.0, 1.5, 0.0, 3.0]);
    }

    #[test]
    fn few_definitions_are_all_shown_and_many_are_chosen_from() {
        let all: Vec<_> =
            (1..=50).map(|line| Definition { line, name: format!("d{line}") }).collect();
        let mut scores = vec![0.0; 50];
        scores[40] = 5.0;
        assert_eq!(worthy_definitions(&all[..10], &scores, 12).len(), 10);
        let chosen = worthy_definitions(&all, &scores, 12);
        assert_eq!(chosen.len(), 12);
        assert!(chosen.iter().any(|definition| definition.name == "d41"));
    }
}
