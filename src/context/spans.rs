//! Which lines of a file are worth showing for a query. Pure.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::document::Definition;
use super::term::{self, Space, Term};

const SPAN: usize = 14;
const MOST_SPANS: usize = 3;

/// What each line is worth: the query's terms in it, each once.
pub(super) fn line_scores(lines: &[&str], rarity: &HashMap<Term, f64>) -> Vec<f64> {
    let score = |line: &&str| {
        let mut seen = BTreeSet::new();
        for (_, word) in term::identifiers(&line.as_bytes()[..line.len().min(400)]) {
            term::terms_of(word, |term| {
                seen.insert(term);
            });
            seen.insert(term::hash(Space::Symbol, &word.to_ascii_lowercase()));
        }
        seen.iter().filter_map(|term| rarity.get(term)).sum()
    };
    lines.iter().map(score).collect()
}

/// The definitions to show: all if they are few, else the ones with the most to do with the query.
pub(super) fn worthy_definitions(
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

/// The best spans, in the file's order, none touching another; each starts at its definition if near.
pub(super) fn best(
    lines: &[&str],
    scores: &[f64],
    definitions: &[Definition],
) -> Vec<Range<usize>> {
    let mut left = scores.to_vec();
    let mut chosen: Vec<Range<usize>> = Vec::new();
    while chosen.len() < MOST_SPANS {
        let Some((at, worth)) = (0..left.len().saturating_sub(SPAN / 2))
            .map(|at| (at, left[at..(at + SPAN).min(left.len())].iter().sum::<f64>()))
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        else {
            break;
        };
        if worth <= 0.0 {
            break;
        }
        let near = definitions
            .iter()
            .map(|definition| definition.line as usize - 1)
            .rfind(|line| *line <= at && at - line <= SPAN / 2);
        let start = near.unwrap_or(at);
        let end = (start + SPAN).min(lines.len());
        left[start..end].fill(0.0);
        if chosen.iter().all(|span| end <= span.start || start >= span.end) {
            chosen.push(start..end);
        } else {
            left[at..(at + SPAN).min(lines.len())].fill(0.0);
        }
    }
    chosen.sort_by_key(|span| span.start);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_around_the_words_is_chosen_and_starts_at_its_definition() {
        let mut text = vec!["filler"; 60];
        text[30] = "fn basket_total() {";
        text[33] = "    warehouse discount";
        let rarity = HashMap::from([
            (term::hash(Space::Word, term::stem(&mut b"warehouse".to_vec())), 3.0),
            (term::hash(Space::Word, b"discount"), 3.0),
        ]);
        let scores = line_scores(&text, &rarity);
        let spans = best(&text, &scores, &[Definition { line: 31, name: "basket_total".into() }]);
        assert_eq!(spans.len(), 1);
        assert!(spans[0].contains(&33), "{spans:?}");
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
