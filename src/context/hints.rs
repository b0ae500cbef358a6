//! What the history of the code says about an item before anybody looks at it: who changed the code
//! it points to lately, and whether a commit names it already.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{CleanItem, ItemKey};
use crate::suggest::Author;
use code_context::git::{self, Bounds};

/// Files of an item whose authors count, best first.
pub(super) const FILES: usize = 5;
/// The newest commits that are read.
const COMMITS: &str = "--max-count=4000";
const SINCE: &str = "--since=1.year";
/// Commits older than this count half, in seconds.
const HALF_LIFE: f64 = 90.0 * 24.0 * 3600.0;
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(15), output: 24 << 20 };

/// What the code says about one item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodeHint {
    /// Shares add up to 1.
    pub authors: Vec<Author>,
    /// A commit that names the item and is newer than it: short id and title.
    pub fixed_by: Option<String>,
}

impl CodeHint {
    /// Adds what another code base says.
    pub(super) fn add(&mut self, other: Self) {
        if self.authors.is_empty() {
            self.authors = other.authors;
        } else if !other.authors.is_empty() {
            self.authors.extend(other.authors);
            let all: f64 = self.authors.iter().map(|author| author.share).sum();
            self.authors.iter_mut().for_each(|author| author.share /= all);
        }
        self.fixed_by = self.fixed_by.take().or(other.fixed_by);
    }
}

/// The hints for items, by key.
pub type CodeHints = HashMap<ItemKey, CodeHint>;

struct HintedCommit {
    id: String,
    at: i64,
    title: String,
    author: usize,
}

/// The newest commits of a code base, by file.
#[derive(Default)]
pub(super) struct Lately {
    commits: Vec<HintedCommit>,
    people: Vec<(String, String)>,
    by_file: HashMap<String, Vec<usize>>,
}

impl Lately {
    /// Reads the history once, within limits; without one there is nothing to say.
    pub fn read(root: &Path) -> Self {
        // Without a repository there is nothing to ask git: a dry run of a plain folder starts nothing.
        if !root.ancestors().any(|folder| folder.join(".git").exists()) {
            return Self::default();
        }
        let arguments = [
            "log",
            "--no-merges",
            COMMITS,
            SINCE,
            "--relative",
            "--name-only",
            "--no-renames",
            "--format=%x01%H%x00%ct%x00%aN%x00%aE%x00%s",
        ];
        let Ok(bytes) = git::output(root, &arguments, BOUNDS) else { return Self::default() };
        let text = String::from_utf8_lossy(&bytes);
        let mut lately = Self::default();
        for record in text.split('\u{1}').skip(1) {
            lately.add(record);
        }
        lately
    }

    fn add(&mut self, record: &str) -> Option<()> {
        let mut lines = record.lines();
        let mut head = lines.next()?.split('\0');
        let (id, at) = (head.next()?, head.next()?.parse().ok()?);
        let person = (head.next()?.to_owned(), head.next()?.to_owned());
        let title = head.next().unwrap_or_default().to_owned();
        let author = self.people.iter().position(|known| *known == person).unwrap_or_else(|| {
            self.people.push(person);
            self.people.len() - 1
        });
        let number = self.commits.len();
        self.commits.push(HintedCommit { id: id.to_owned(), at, title, author });
        for file in lines.filter(|line| !line.is_empty()) {
            self.by_file.entry(file.to_owned()).or_default().push(number);
        }
        Some(())
    }

    /// `files` are the places that an item points to, best first.
    pub fn hint(&self, item: &CleanItem, files: &[String], now: Timestamp) -> CodeHint {
        CodeHint { authors: self.authors(files, now.as_second()), fixed_by: self.fix_of(item) }
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds, and a handful of files")]
    fn authors(&self, files: &[String], now: i64) -> Vec<Author> {
        let mut shares: HashMap<usize, f64> = HashMap::new();
        for (place, file) in files.iter().enumerate() {
            for number in self.by_file.get(file).into_iter().flatten() {
                let Some(commit) = self.commits.get(*number) else { continue };
                let age = (now - commit.at).max(0) as f64;
                let weight = 0.5_f64.powf(age / HALF_LIFE) / (place + 1) as f64;
                *shares.entry(commit.author).or_default() += weight;
            }
        }
        let total: f64 = shares.values().sum();
        let author = |(number, share): (usize, f64)| {
            let (name, mail) = self.people.get(number)?.clone();
            Some(Author { name, mail, share: share / total.max(f64::MIN_POSITIVE) })
        };
        let mut authors: Vec<Author> = shares.into_iter().filter_map(author).collect();
        authors.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.mail.cmp(&b.mail)));
        authors
    }

    fn fix_of(&self, item: &CleanItem) -> Option<String> {
        let created = item.facts.created_at?.as_second();
        let later = self.commits.iter().filter(|commit| commit.at > created);
        let mut naming = later
            .filter(|commit| names(&commit.title, item.facts.id.0, item.facts.handle.as_deref()));
        let commit = naming.next()?;
        Some(format!("{} {}", commit.id.get(..10)?, commit.title))
    }
}

/// Whether a commit's title says that it settles the item: by its key, as `AB#12`, or as `#12` after
/// a word such as "fixes".
fn names(title: &str, number: i64, handle: Option<&str>) -> bool {
    let title = title.to_lowercase();
    let has = |name: &str| {
        title.match_indices(name).any(|(at, _)| {
            let (before, after) =
                (title[..at].chars().next_back(), title[at + name.len()..].chars().next());
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
    };
    if let Some(handle) = handle {
        return has(&handle.to_lowercase());
    }
    let words =
        ["fix", "fixes", "fixed", "close", "closes", "closed", "resolve", "resolves", "resolved"];
    let says = title.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word));
    has(&format!("ab#{number}")) || (says && has(&format!("#{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_names_an_item_only_when_it_says_so() {
        assert!(names("Fix rounding (AB#12)", 12, None));
        assert!(names("fixes #12: rounding", 12, None));
        assert!(!names("fixes #123", 12, None) && !names("see #12", 12, None));
        assert!(names("SHOP-12 rounding", 12, Some("SHOP-12")));
        assert!(!names("SHOP-123 rounding", 12, Some("SHOP-12")));
        assert!(!names("fixes #12", 12, Some("SHOP-12")));
    }

    #[test]
    fn newer_changes_of_better_places_weigh_more() {
        let mut lately = Lately::default();
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let at = |days: i64| now.as_second() - days * 24 * 3600;
        lately.add(&format!("a\0{}\0Ann\0ann@x\0one\n\nsrc/a.rs\n", at(10)));
        lately.add(&format!("b\0{}\0Bob\0bob@x\0two\n\nsrc/a.rs\nsrc/b.rs\n", at(300)));
        let authors =
            lately.authors(&["src/a.rs".to_owned(), "src/b.rs".to_owned()], now.as_second());
        assert_eq!(authors[0].name, "Ann");
        assert!((authors.iter().map(|author| author.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(lately.authors(&["other".to_owned()], now.as_second()).is_empty());
    }
}
