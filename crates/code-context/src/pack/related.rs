//! Further leads from the best files: where the names they use are defined, their tests, and
//! commits about the same subject.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::ContextError;
use crate::index::open::Index;
use crate::index::scan::folder_of;
use crate::pack::shown::Shown;
use crate::parts::Part;
use crate::rank::links::bare_name;
use crate::rank::order::RankedFile;
use crate::rank::query::Query;
use crate::text::bytes::cut;
use crate::text::document::Field;
use crate::text::kind::Kind;
use crate::text::term::{self, Space, Term};

/// Files whose leads are shown.
const MAX_BEST: usize = 5;
const MAX_TESTS: usize = 6;
const MAX_COMMITS: usize = 5;
/// Files whose used names are followed, names that are looked up, and names that are listed.
const FOLLOWED: usize = 3;
const MAX_NAMES: usize = 80;
const MAX_USED: usize = 8;
/// A name that more files define is omitted.
const MAX_DEFINERS: usize = 2;

/// All leads in one part as text; `ranked` and `shown` are of this part.
pub(crate) fn lines(
    part: &Part<'_>,
    query: &Query,
    ranked: &[RankedFile],
    shown: &[&Shown],
) -> Result<String, ContextError> {
    let index = part.index;
    let mut out = String::new();
    let tests = tests(index, ranked).iter().map(|path| part.full(path)).collect();
    for (heading, lines) in [
        ("Used there, defined elsewhere", used(part, ranked, shown)?),
        ("Tests", tests),
        ("Commits about this", commits(index, query, ranked)),
    ] {
        if !lines.is_empty() {
            out.push_str(&format!("\n{heading}:\n"));
            lines.iter().for_each(|line| out.push_str(&format!("- {line}\n")));
        }
    }
    Ok(out)
}

/// One step along calls and imports: names in the best parts that few files define.
fn used(
    part: &Part<'_>,
    ranked: &[RankedFile],
    shown: &[&Shown],
) -> Result<Vec<String>, ContextError> {
    let index = part.index;
    let known: HashSet<&str> =
        ranked.iter().take(MAX_BEST).map(|file| file.path.as_str()).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for file in shown.iter().take(FOLLOWED).filter(|file| known.contains(file.path())) {
        for (_, word) in term::identifiers(file.best_text().as_bytes()) {
            if let Ok(word) = std::str::from_utf8(word)
                && word.len() > 3
                && term::is_compound(word.as_bytes())
            {
                *counts.entry(word.to_owned()).or_default() += 1;
            }
        }
    }
    let mut names: Vec<(usize, String)> = counts.into_iter().map(|(name, n)| (n, name)).collect();
    names.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut by_file: Vec<(u32, Vec<String>)> = Vec::new();
    for (_, name) in names.into_iter().take(MAX_NAMES) {
        let mut definers = Vec::new();
        let term = term::hash(Space::Symbol, name.to_ascii_lowercase().as_bytes());
        index.postings(term, |file, posting| {
            if posting.counts[Field::Definition as usize] > 0 {
                definers.push(file);
            }
        })?;
        definers.retain(|file| index.files()[*file as usize].kind == Kind::Source);
        if definers.is_empty() || definers.len() > MAX_DEFINERS {
            continue;
        }
        definers.sort_unstable();
        for file in definers {
            if known.contains(index.files()[file as usize].path.as_str()) {
                continue;
            }
            match by_file.iter_mut().find(|(own, _)| *own == file) {
                Some((_, names)) if names.len() < 3 => names.push(name.clone()),
                Some(_) => {}
                None => by_file.push((file, vec![name.clone()])),
            }
        }
    }
    by_file.truncate(MAX_USED);
    let line = |(file, names): &(u32, Vec<String>)| {
        format!("{}: {}", part.full(&index.files()[*file as usize].path), names.join(", "))
    };
    Ok(by_file.iter().map(line).collect())
}

/// The tests of the best files: first those with the same name, nearest first, then those that
/// changed with them.
pub(crate) fn tests(index: &Index, ranked: &[RankedFile]) -> Vec<String> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in index.files() {
        if entry.kind == Kind::Test && entry.language.is_code() {
            by_name.entry(bare_name(&entry.path)).or_default().push(&entry.path);
        }
    }
    let mut all: Vec<String> = Vec::new();
    for file in ranked.iter().take(MAX_BEST) {
        let name = bare_name(&file.path);
        let mut tests = by_name.get(&name).filter(|_| name.len() > 2).cloned().unwrap_or_default();
        tests.sort_by_key(|test| (std::cmp::Reverse(shared_folders(test, &file.path)), *test));
        all.extend(tests.iter().take(2).map(|test| (*test).to_owned()));
    }
    all.extend(changed_with(index, ranked));
    let mut seen = BTreeSet::new();
    all.retain(|test| seen.insert(test.clone()));
    all.truncate(MAX_TESTS);
    all
}

/// Number of folders that two paths share, from the top and from the bottom.
fn shared_folders(a: &str, b: &str) -> usize {
    let (a, b) = (folder_of(a), folder_of(b));
    let top = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b).count();
    let bottom = a.rsplit('/').zip(b.rsplit('/')).take_while(|(a, b)| a == b).count();
    top + bottom
}

/// The best files' indices in the history.
fn best_in_history<'a>(index: &'a Index, ranked: &[RankedFile]) -> BTreeMap<u32, &'a str> {
    let best: Vec<&str> = ranked.iter().take(MAX_BEST).map(|file| file.path.as_str()).collect();
    (0u32..)
        .zip(&index.history().paths)
        .filter(|(_, path)| best.contains(&path.as_str()))
        .map(|(number, path)| (number, path.as_str()))
        .collect()
}

/// Tests that changed in the same commits as the best files, most often first.
fn changed_with(index: &Index, ranked: &[RankedFile]) -> Vec<String> {
    let history = index.history();
    let best = best_in_history(index, ranked);
    let mut counts: BTreeMap<u32, f64> = BTreeMap::new();
    for commit in history.commits.iter().filter(|c| c.files.iter().any(|f| best.contains_key(f))) {
        for file in commit.files.iter().filter(|file| !best.contains_key(file)) {
            *counts.entry(*file).or_default() += 1.0 / commit.files.len() as f64;
        }
    }
    let is_test = |path: &&String| {
        let entry = index.find(path).map(|file| &index.files()[file as usize]);
        entry.is_some_and(|entry| entry.kind == Kind::Test && entry.language.is_code())
    };
    let mut tests: Vec<(f64, &String)> = counts
        .iter()
        .filter_map(|(file, count)| Some((*count, history.paths.get(*file as usize)?)))
        .filter(|(_, path)| is_test(path))
        .collect();
    tests.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    tests.into_iter().map(|(_, path)| path.clone()).collect()
}

/// The commits about the item's words; those that changed the best files come first.
fn commits(index: &Index, query: &Query, ranked: &[RankedFile]) -> Vec<String> {
    let history = index.history();
    let best = best_in_history(index, ranked);
    let weights: HashMap<Term, f64> =
        query.words.iter().chain(&query.identifiers).map(|word| (word.term, word.weight)).collect();
    let mut holders: HashMap<Term, f64> = HashMap::new();
    for term in history.commits.iter().flat_map(|commit| &commit.terms) {
        if weights.contains_key(term) {
            *holders.entry(*term).or_default() += 1.0;
        }
    }
    let total = history.commits.len() as f64;
    let mut scored: Vec<(f64, usize)> = Vec::new();
    for (number, commit) in history.commits.iter().enumerate() {
        let words = commit
            .terms
            .iter()
            .filter_map(|term| Some(weights.get(term)? * (1.0 + total / holders.get(term)?).ln()));
        let words: f64 = words.sum::<f64>() / (commit.terms.len() as f64 + 10.0).sqrt();
        let touches = commit.files.iter().filter(|file| best.contains_key(file)).count();
        if touches > 0 && words > 0.0 {
            scored.push((words * (1.0 + (touches as f64).sqrt()), number));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let line = |(_, number): &(f64, usize)| {
        let commit = &history.commits[*number];
        let touched = commit.files.iter().filter_map(|file| best.get(file));
        let touched: Vec<&str> =
            touched.map(|path| path.rsplit('/').next().unwrap_or(path)).collect();
        let subject = cut(&commit.subject, 100);
        format!("{} {subject} ({})", day(commit.time), touched.join(" "))
    };
    scored.iter().take(MAX_COMMITS).map(line).collect()
}

fn day(time: u64) -> String {
    let time = i64::try_from(time).ok().and_then(|time| jiff::Timestamp::from_second(time).ok());
    time.map(|time| time.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}
