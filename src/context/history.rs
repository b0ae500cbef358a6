//! What the repository's past says: which files changed for which words, and which changed together.

use std::path::Path;
use std::time::Duration;

use super::bytes::{Malformed, put_number, put_text, seal, unseal};
use super::git::{self, Bounds};
use super::term::{self, Term};

const MAGIC: &[u8; 8] = b"hbctx\0h2";
/// Commits looked back.
pub(super) const MOST_COMMITS: usize = 3000;
/// A commit that touches more says nothing about any of them.
const MOST_FILES: usize = 30;
const MOST_MESSAGE: usize = 1500;
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), output: 64 << 20 };

/// One change of the past, newest first in [`History::commits`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Seconds since the epoch.
    pub time: u64,
    /// The first line of its message.
    pub subject: String,
    /// The words of its message.
    pub terms: Vec<Term>,
    /// Numbers into [`History::paths`].
    pub files: Vec<u32>,
}

/// The past of a repository, as far back as is worth looking.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The commit it was read at; empty without git.
    pub head: String,
    /// Newest first.
    pub commits: Vec<Commit>,
    /// Every path that a commit names.
    pub paths: Vec<String>,
}

impl History {
    /// The history of a repository, taking over what an earlier look already knows.
    pub(super) fn read(repository: &Path, known: Option<Self>) -> Self {
        let Some(head) = head(repository) else { return Self::default() };
        let Some(known) = known.filter(|known| !known.head.is_empty()) else {
            return Self::log(repository, &head, None);
        };
        if known.head == head {
            return known;
        }
        let limit = Bounds { time: Duration::from_secs(10), output: 1 };
        if git::output(repository, &["merge-base", "--is-ancestor", &known.head, &head], limit)
            .is_err()
        {
            return Self::log(repository, &head, None);
        }
        let newer = Self::log(repository, &head, Some(&known.head));
        newer.followed_by(&known)
    }

    fn log(repository: &Path, head: &str, since: Option<&str>) -> Self {
        let count = format!("--max-count={MOST_COMMITS}");
        let range = since.map_or_else(|| head.to_owned(), |since| format!("{since}..{head}"));
        let mut arguments = vec![
            "log",
            "-z",
            &count,
            "--no-merges",
            "--no-renames",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-mailmap",
            "--no-show-signature",
        ];
        arguments.extend(["--name-only", "--relative", "--format=%x01%ct%x02%s%x02%b%x02", &range]);
        // Without an answer nothing is remembered, so that the next look asks again.
        git::output(repository, &arguments, BOUNDS)
            .map_or_else(|_| Self::default(), |output| parse(&output, head))
    }

    fn followed_by(mut self, older: &Self) -> Self {
        let mut numbers = Numbers::of(std::mem::take(&mut self.paths));
        for commit in older.commits.iter().take(MOST_COMMITS.saturating_sub(self.commits.len())) {
            let files = commit
                .files
                .iter()
                .filter_map(|file| older.paths.get(*file as usize))
                .map(|path| numbers.of_path(path))
                .collect();
            self.commits.push(Commit { files, ..commit.clone() });
        }
        self.paths = numbers.paths;
        self
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_text(&mut out, &self.head);
        put_number(&mut out, self.paths.len() as u64);
        self.paths.iter().for_each(|path| put_text(&mut out, path));
        put_number(&mut out, self.commits.len() as u64);
        for commit in &self.commits {
            put_number(&mut out, commit.time);
            put_text(&mut out, &commit.subject);
            put_number(&mut out, commit.terms.len() as u64);
            commit.terms.iter().for_each(|term| out.extend_from_slice(&term.to_le_bytes()));
            put_number(&mut out, commit.files.len() as u64);
            commit.files.iter().for_each(|file| put_number(&mut out, u64::from(*file)));
        }
        seal(MAGIC, &out)
    }

    pub(super) fn from_bytes(file: &[u8]) -> Result<Self, Malformed> {
        let mut bytes = unseal(MAGIC, file)?;
        let mut history = Self { head: bytes.text()?.to_owned(), ..Self::default() };
        for _ in 0..bytes.number()? {
            history.paths.push(bytes.text()?.to_owned());
        }
        for _ in 0..bytes.number()? {
            let (time, subject) = (bytes.number()?, bytes.text()?.to_owned());
            let terms = (0..bytes.number()?).map(|_| bytes.fixed()).collect::<Result<_, _>>()?;
            let files = (0..bytes.number()?).map(|_| bytes.small()).collect::<Result<_, _>>()?;
            history.commits.push(Commit { time, subject, terms, files });
        }
        Ok(history)
    }
}

/// Which commit is checked out, if this is a repository at all.
fn head(repository: &Path) -> Option<String> {
    // Asking git would start a process to learn what the folders already say.
    if !repository.ancestors().any(|folder| folder.join(".git").exists()) {
        return None;
    }
    let bounds = Bounds { time: Duration::from_secs(10), output: 4096 };
    let output =
        git::output(repository, &["rev-parse", "--verify", "--quiet", "HEAD"], bounds).ok()?;
    let text = String::from_utf8(output).ok()?.trim().to_owned();
    (text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(text)
}

/// Gives every path one number.
struct Numbers {
    paths: Vec<String>,
    known: std::collections::HashMap<String, u32>,
}

impl Numbers {
    fn of(paths: Vec<String>) -> Self {
        let known = paths.iter().zip(0..).map(|(path, number)| (path.clone(), number)).collect();
        Self { paths, known }
    }

    fn of_path(&mut self, path: &str) -> u32 {
        if let Some(number) = self.known.get(path) {
            return *number;
        }
        let number = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        self.paths.push(path.to_owned());
        self.known.insert(path.to_owned(), number);
        number
    }
}

fn parse(output: &[u8], head: &str) -> History {
    let mut numbers = Numbers::of(Vec::new());
    let mut commits = Vec::new();
    for record in output.split(|byte| *byte == 1).skip(1) {
        let mut parts = record.splitn(4, |byte| *byte == 2);
        let (Some(time), Some(subject), Some(body), Some(files)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let time = std::str::from_utf8(time).ok().and_then(|time| time.parse().ok()).unwrap_or(0);
        let names: Vec<_> = files
            .split(|byte| *byte == 0)
            .map(<[u8]>::trim_ascii)
            .filter(|name| !name.is_empty())
            .filter_map(|name| std::str::from_utf8(name).ok())
            .collect();
        if names.is_empty() || names.len() > MOST_FILES {
            continue;
        }
        let files = names.iter().map(|name| numbers.of_path(name)).collect();
        let mut terms = Vec::new();
        for text in [subject, &body[..body.len().min(MOST_MESSAGE)]] {
            for (_, word) in term::identifiers(text) {
                term::terms_of(word, |term| terms.push(term));
            }
        }
        terms.sort_unstable();
        terms.dedup();
        let subject = String::from_utf8_lossy(&subject[..subject.len().min(120)]).into_owned();
        commits.push(Commit { time, subject, terms, files });
    }
    History { head: head.to_owned(), commits, paths: numbers.paths }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> History {
        parse(b"\x0150\x02Fix the basket\x02Totals were wrong.\x02\0\nsrc/a.rs\0src/b.rs\0\x0140\x02First\x02\x02\0\nsrc/a.rs\0", "h")
    }

    #[test]
    fn the_log_is_read_as_git_writes_it() {
        let history = sample();
        assert_eq!(history.paths, ["src/a.rs", "src/b.rs"]);
        assert_eq!(history.commits[0].files, [0, 1]);
        assert_eq!(history.commits[1].files, [0]);
        assert_eq!(history.commits[0].subject, "Fix the basket");
        assert!(
            history.commits[0]
                .terms
                .contains(&term::hash(term::Space::Word, term::stem(&mut b"totals".to_vec())))
        );
    }

    #[test]
    fn history_survives_storage_and_damage_is_seen() {
        let history = sample();
        let mut bytes = history.to_bytes();
        assert_eq!(History::from_bytes(&bytes), Ok(history));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(History::from_bytes(&bytes), Err(Malformed));
    }

    #[test]
    fn newer_commits_go_before_the_known_ones() {
        let newer = parse(b"\x0160\x02New\x02\x02\0\nsrc/b.rs\0src/c.rs\0", "n");
        let all = newer.followed_by(&sample());
        assert_eq!(all.head, "n");
        assert_eq!(all.commits.len(), 3);
        let names: Vec<Vec<&str>> = all
            .commits
            .iter()
            .map(|commit| {
                commit.files.iter().map(|file| all.paths[*file as usize].as_str()).collect()
            })
            .collect();
        assert_eq!(
            names,
            [vec!["src/b.rs", "src/c.rs"], vec!["src/a.rs", "src/b.rs"], vec!["src/a.rs"]]
        );
    }
}
