//! The context of a prompt: parts of the ranked files, with a share per file by its likelihood, and
//! further leads; within a token budget. Deterministic.

use std::collections::BTreeMap;
use std::collections::HashMap;

use crate::index::open::Index;
use crate::pack::choices::Chosen;
use crate::pack::related;
use crate::pack::shown::Shown;
use crate::parts::{self, Part};
use crate::rank::named;
use crate::rank::order::RankedFile;
use crate::rank::query::Query;
use crate::text::term::Term;
use crate::{ContextError, estimate_tokens};

/// Files of which code is shown when a reader chose among them: fewer, and more of each.
const MAX_CHOSEN: usize = 4;
/// How much likelier a chosen file is than the next one.
const CHOSEN_ODDS: f64 = 4.0;
/// Files of which code is shown, and files that then get an outline; the others are only named.
const MAX_SHOWN: usize = 8;
/// Names listed with their length.
const MAX_MEASURED: usize = 12;
/// How much more likely a file is than one whose score is lower by one; fitted together with the
/// weights of the ranking.
const STEEPNESS: f64 = 3.0;
/// Below this likelihood of the best file the reader is warned.
const WEAK: f64 = 0.12;
/// Exponent of the likelihood for the budget: a file that is half as likely gets more than half.
const SOFTENED: f64 = 0.75;
/// Divisor of the budget for further leads.
const RELATED_SHARE: usize = 6;

/// Divisor of the budget for changes of commits that the item names.
const NAMED_SHARE: usize = 4;

/// A context for a prompt.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Packed {
    pub text: String,
    /// The ranked files it shows, best first.
    pub files: Vec<String>,
    /// Estimated.
    pub tokens: usize,
}

/// The shown line numbers of each file in a packed text, from 1: to evaluate a context.
pub fn shown_lines(text: &str) -> BTreeMap<String, Vec<usize>> {
    let mut lines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let (mut file, mut next) = (String::new(), 0);
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("## ") {
            file = path.split(" [").next().unwrap_or(path).to_owned();
        } else if line.is_empty() {
            next = 0;
        } else if let Some(span) = line.strip_prefix("lines ") {
            next = span.split('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        } else if line.starts_with('|') && next > 0 {
            lines.entry(file.clone()).or_default().push(next);
            next += 1;
        }
    }
    lines
}

/// A text that never exceeds its budget.
struct PackedPage {
    text: String,
    budget: usize,
}

impl PackedPage {
    /// Adds a text if it fits completely.
    fn add(&mut self, piece: &str) -> bool {
        let fits = (self.text.len() + piece.len()).div_ceil(4) <= self.budget;
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    fn left(&self) -> usize {
        (self.budget * 4).saturating_sub(self.text.len())
    }
}

/// Packs the ranked files into at most `token_budget` tokens.
pub fn pack(
    index: &Index,
    query: &Query,
    ranked: &[RankedFile],
    token_budget: usize,
) -> Result<Packed, ContextError> {
    pack_chosen(index, query, ranked, &[], token_budget)
}

/// The same for files in the order of a reader who chose the first ones: fewer of them are shown,
/// the chosen functions complete.
pub fn pack_chosen(
    index: &Index,
    query: &Query,
    ranked: &[RankedFile],
    chosen: &[Chosen],
    token_budget: usize,
) -> Result<Packed, ContextError> {
    pack_all(&[Part::only(index)], query, ranked, chosen, token_budget)
}

/// The same for several code bases, within one budget.
pub fn pack_all(
    parts: &[Part<'_>],
    query: &Query,
    ranked: &[RankedFile],
    chosen: &[Chosen],
    token_budget: usize,
) -> Result<Packed, ContextError> {
    let mut page = PackedPage { text: String::new(), budget: token_budget };
    let chances = if chosen.is_empty() { chances(ranked) } else { by_place(ranked.len()) };
    let most = if chosen.is_empty() { MAX_SHOWN } else { MAX_CHOSEN };
    if chances.first().is_some_and(|best| *best < WEAK) {
        page.add("Weak match: no file stands out. Check before you rely on these places.\n");
    }
    let files = names(parts, ranked, &mut page);
    let mut rarities = HashMap::new();
    for part in parts {
        rarities.insert(part.name, rarity(part.index, query)?);
    }
    // With the name of their part.
    let mut shown: Vec<(&str, Shown)> = Vec::new();
    for file in ranked.iter().take(most) {
        let Some((part, path)) = parts::find(parts, &file.path) else { continue };
        let functions = chosen.iter().find(|chosen| chosen.path == file.path);
        let functions = functions.map(|chosen| chosen.functions.as_slice()).unwrap_or_default();
        let one = Shown::of(part, query, path, &rarities[part.name], functions)?;
        shown.extend(one.map(|one| (part.name, one)));
    }
    let room = page.left() / NAMED_SHARE;
    let (mut named, mut leads) = (String::new(), String::new());
    for part in parts {
        let own = |file: &RankedFile| {
            Some(RankedFile { path: part.own(&file.path)?.to_owned(), ..file.clone() })
        };
        let ranked: Vec<RankedFile> = ranked.iter().filter_map(own).collect();
        named.push_str(&named::changes(part, query, &ranked, room.saturating_sub(named.len())));
        let own = shown.iter().filter(|(name, _)| *name == part.name).map(|(_, one)| one);
        leads.push_str(&related::lines(part, query, &ranked, &own.collect::<Vec<_>>())?);
    }
    page.add(&named);
    let reserved = leads.len().min(page.left() / RELATED_SHARE);
    let shares: Vec<f64> = chances.iter().map(|chance| chance.powf(SOFTENED)).collect();
    for (place, (_, file)) in shown.iter().enumerate() {
        let rest: f64 = shares.iter().take(shown.len()).skip(place).sum();
        let room = page.left().saturating_sub(reserved) as f64;
        let share = shares.get(place).copied().unwrap_or(0.0) / rest.max(f64::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
        page.add(&file.in_room((room * share) as usize));
    }
    for line in leads.split_inclusive('\n') {
        if !page.add(line) {
            break;
        }
    }
    let tokens = usize::try_from(estimate_tokens(&page.text)).unwrap_or(usize::MAX);
    Ok(Packed { text: page.text, files, tokens })
}

/// How likely each ranked file is the right one, by its score among the others.
pub(crate) fn chances(ranked: &[RankedFile]) -> Vec<f64> {
    let best = ranked.first().map_or(0.0, |file| file.score);
    let odds: Vec<f64> =
        ranked.iter().map(|file| (STEEPNESS * (file.score - best)).exp()).collect();
    let all: f64 = odds.iter().sum();
    odds.into_iter().map(|odds| odds / all.max(f64::MIN_POSITIVE)).collect()
}

/// How likely each file is by its place alone.
fn by_place(files: usize) -> Vec<f64> {
    let odds = std::iter::successors(Some(1.0), |odds| Some(odds / CHOSEN_ODDS));
    let odds: Vec<f64> = odds.take(files).collect();
    let all: f64 = odds.iter().sum();
    odds.into_iter().map(|odds| odds / all).collect()
}

/// The names of all ranked files: cheap, and a lower one is often right.
fn names(parts: &[Part<'_>], ranked: &[RankedFile], page: &mut PackedPage) -> Vec<String> {
    let mut files = Vec::new();
    page.add("Files most likely to matter, best first [lines]:\n");
    for (place, file) in ranked.iter().enumerate() {
        let Some((part, path)) = parts::find(parts, &file.path) else { continue };
        let Some(number) = part.index.find(path) else { continue };
        let lines = part.index.files()[number as usize].lines;
        let lines = if place < MAX_MEASURED { format!(" [{lines}]") } else { String::new() };
        if page.add(&format!("- {}{lines}\n", file.path)) {
            files.push(file.path.clone());
        }
    }
    files
}

/// The weight of each query term in a line: heavy and rare ones more.
pub(crate) fn rarity(index: &Index, query: &Query) -> Result<HashMap<Term, f64>, ContextError> {
    let total = index.files().len() as f64;
    let mut rarity = HashMap::new();
    for word in query.words.iter().chain(&query.identifiers).chain(&query.symbols) {
        let mut holders = 0.0;
        index.postings(word.term, |_, _| holders += 1.0)?;
        if holders > 0.0 {
            rarity.insert(word.term, word.weight * (1.0 + total / holders).ln());
        }
    }
    Ok(rarity)
}
