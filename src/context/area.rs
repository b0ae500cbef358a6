//! The surroundings of the ranked files: a map of their folders, their tests, and what changed there
//! lately.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::bytes::cut;
use super::index::Index;
use super::kind::Kind;
use super::links::bare_name;
use super::purpose::purpose;
use super::rank::RankedFile;
use super::scan::folder_of;

/// Files whose surroundings are shown.
const MOST_BEST: usize = 5;
/// Files whose folders are on the map.
const MOST_MAPPED: usize = 12;
const MOST_FOLDERS: usize = 6;
const MOST_NAMES: usize = 12;
const MOST_TESTS: usize = 6;
const MOST_COMMITS: usize = 6;

/// The folders of the best files, each with what it is for and what else is in it.
pub(super) fn map(index: &Index, ranked: &[RankedFile]) -> Vec<String> {
    let named: HashSet<&str> = ranked.iter().map(|file| file.path.as_str()).collect();
    let mut folders: Vec<&str> = Vec::new();
    for file in ranked.iter().take(MOST_MAPPED) {
        let folder = folder_of(&file.path);
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let line = |folder: &&str| {
        let others: Vec<&str> = index
            .inside(folder)
            .filter(|entry| entry.kind == Kind::Source && !named.contains(entry.path.as_str()))
            .map(|entry| entry.path.rsplit('/').next().unwrap_or(&entry.path))
            .collect();
        let mut line = if folder.is_empty() { "./".to_owned() } else { format!("{folder}/") };
        if let Some(purpose) = purpose(index, folder).filter(|_| !folder.is_empty()) {
            line.push_str(&format!(": {purpose}"));
        }
        if !others.is_empty() {
            let more = others.len().saturating_sub(MOST_NAMES);
            let shown = others[..others.len().min(MOST_NAMES)].join(" ");
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            line.push_str(&format!(" (also {shown}{rest})"));
        }
        line
    };
    let lines = folders.iter().take(MOST_FOLDERS).map(line);
    lines.filter(|line| !line.ends_with('/')).collect()
}

/// The tests of the best files: such as bear their names, the nearest first.
pub(super) fn tests(index: &Index, ranked: &[RankedFile]) -> Vec<String> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in index.files() {
        if entry.kind == Kind::Test && entry.language.is_code() {
            by_name.entry(bare_name(&entry.path)).or_default().push(&entry.path);
        }
    }
    let mut all: Vec<String> = Vec::new();
    for file in ranked.iter().take(MOST_BEST) {
        let name = bare_name(&file.path);
        let mut tests = by_name.get(&name).filter(|_| name.len() > 2).cloned().unwrap_or_default();
        tests.sort_by_key(|test| (std::cmp::Reverse(shared_folders(test, &file.path)), *test));
        all.extend(tests.iter().take(2).map(|test| (*test).to_owned()));
    }
    let mut seen = BTreeSet::new();
    all.retain(|test| seen.insert(test.clone()));
    all.truncate(MOST_TESTS);
    all
}

/// In how many folders two paths agree, from the top and from the bottom.
fn shared_folders(a: &str, b: &str) -> usize {
    let (a, b) = (folder_of(a), folder_of(b));
    let top = a.split('/').zip(b.split('/')).take_while(|(a, b)| a == b).count();
    let bottom = a.rsplit('/').zip(b.rsplit('/')).take_while(|(a, b)| a == b).count();
    top + bottom
}

/// The latest commits that touched the best files, with the ones they touched.
pub(super) fn commits(index: &Index, ranked: &[RankedFile]) -> Vec<String> {
    let history = index.history();
    let best: Vec<&str> = ranked.iter().take(MOST_BEST).map(|file| file.path.as_str()).collect();
    let names: BTreeMap<u32, &str> = (0u32..)
        .zip(&history.paths)
        .filter(|(_, path)| best.contains(&path.as_str()))
        .map(|(number, path)| (number, path.rsplit('/').next().unwrap_or(path)))
        .collect();
    let mut lines = Vec::new();
    for commit in &history.commits {
        let touched: Vec<&str> =
            commit.files.iter().filter_map(|file| names.get(file).copied()).collect();
        if !touched.is_empty() {
            let subject = cut(&commit.subject, 100);
            lines.push(format!("{} {subject} ({})", day(commit.time), touched.join(" ")));
        }
        if lines.len() == MOST_COMMITS {
            break;
        }
    }
    lines
}

fn day(time: u64) -> String {
    let time = i64::try_from(time).ok().and_then(|time| jiff::Timestamp::from_second(time).ok());
    time.map(|time| time.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}
