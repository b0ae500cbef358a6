//! The commits that name items.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use super::names::Names;
use super::{BacktestError, change};
use crate::context::GitError;
use crate::context::git::{self, Bounds};
use crate::fetch::{DevelopmentLink, LinkedItem};
use crate::fixes::{
    Change, Commit, Keys, Link, Numbers, Reason, Rules, appended_pull_request, links, pull_request,
};
use crate::settings::{FixNumbers, Fixes};

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(300), output: 1 << 28 };

/// Commits read to detect a host's conventions, and how many make a convention.
const LATEST: usize = 3000;
const MIN: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCommit {
    pub id: String,
    /// The first parent; `None` at the start of the history or of a shallow clone.
    pub parent: Option<String>,
    /// Seconds since the epoch.
    pub time: i64,
    /// Author date, which may be long before the merge.
    pub written: i64,
    pub subject: String,
    pub reason: Reason,
    /// Position in the history, oldest first.
    pub order: usize,
}

/// The tracker's links, by commit and by pull request.
#[derive(Debug, Clone, Default)]
pub struct Artifacts {
    commits: HashMap<String, Vec<i64>>,
    pull_requests: HashMap<i64, Vec<i64>>,
}

impl Artifacts {
    pub fn of(links: impl IntoIterator<Item = LinkedItem>) -> Self {
        let mut artifacts = Self::default();
        for (item, link) in links {
            match link {
                DevelopmentLink::Commit(id) => artifacts.commits.entry(id).or_default(),
                DevelopmentLink::PullRequest(id) => artifacts.pull_requests.entry(id).or_default(),
            }
            .push(item.0);
        }
        artifacts
    }

    /// Items with such a link.
    pub fn items(&self) -> impl Iterator<Item = i64> {
        self.commits.values().chain(self.pull_requests.values()).flatten().copied()
    }

    fn links(&self, id: &str, commit: Commit<'_>) -> Vec<Link> {
        let link = |reason| move |item: &i64| Link { item: *item, reason };
        let direct = self.commits.get(id).into_iter().flatten().map(link(Reason::Artifact));
        let request = pull_request(commit).and_then(|number| self.pull_requests.get(&number));
        direct.chain(request.into_iter().flatten().map(link(Reason::PullRequest))).collect()
    }
}

/// The commits of the requested items.
#[derive(Debug, Default)]
pub struct Linked {
    /// Oldest first, by item.
    pub commits: BTreeMap<i64, Vec<PastCommit>>,
    /// Total number of commits.
    pub total: usize,
    /// Commits that would name items if bare numbers were items, where they are not.
    pub other_host: usize,
    /// Commits that end with an item's number, where such numbers are pull requests.
    pub appended: usize,
    /// The clone does not have the complete history.
    pub shallow: bool,
}

/// Changes of commits since their first parents, by commit; commits whose parent is not in this
/// clone are omitted. Renames are followed, and lines that differ only in spaces are equal.
pub fn changes_of<'a>(
    folder: &Path,
    commits: impl Iterator<Item = &'a PastCommit>,
) -> HashMap<String, Vec<Change>> {
    let pair = |commit: &PastCommit| Some(format!("{} {}\n", commit.id, commit.parent.as_ref()?));
    let pairs: BTreeSet<String> = commits.filter_map(pair).collect();
    let mut found = HashMap::new();
    if changes_in(folder, pairs.iter().map(String::as_str).collect(), &mut found).is_err() {
        // Git stops at the first missing object; then each commit is read separately.
        for pair in pairs {
            let id = pair.split(' ').next().unwrap_or_default();
            if !found.contains_key(id) {
                let mut alone = HashMap::new();
                if changes_in(folder, pair.clone(), &mut alone).is_ok() {
                    found.extend(alone);
                }
            }
        }
    }
    found
}

fn changes_in(
    folder: &Path,
    pairs: String,
    found: &mut HashMap<String, Vec<Change>>,
) -> Result<(), GitError> {
    let arguments = [
        "diff-tree",
        "--stdin",
        "--format=%x01%H",
        "-r",
        "--patch",
        "--unified=0",
        "--no-prefix",
        "--no-ext-diff",
        "--no-textconv",
        "--find-renames",
        "--ignore-all-space",
    ];
    if pairs.is_empty() {
        return Ok(());
    }
    let (mut current, mut changes) = (None, change::Reader::default());
    let mut finish = |current: Option<String>, changes: change::Reader| {
        current.map(|id| found.insert(id, changes.finish()));
    };
    let read = git::records(folder, &arguments, pairs, (b'\n', BOUNDS.time), |line| {
        let line = String::from_utf8_lossy(line);
        match line.strip_prefix('\u{1}') {
            Some(id) => finish(current.replace(id.to_owned()), std::mem::take(&mut changes)),
            None => changes.line(&line),
        }
    });
    // The last one is complete only if git succeeded.
    if read.is_ok() {
        finish(current, changes);
    }
    read
}

/// How this repository names items: as configured, or as its remote suggests.
pub fn rules_of(repository: &Path, fixes: &Fixes) -> Rules {
    let numbers = match fixes.numbers {
        FixNumbers::Items | FixNumbers::Issues => Numbers::Items,
        FixNumbers::OtherHost => Numbers::OtherHost,
        FixNumbers::Auto => numbers_of(repository),
    };
    Rules {
        numbers,
        issue_pages: issue_pages(repository).into_iter().collect(),
        patterns: fixes.patterns.clone(),
        keys: Keys::default(),
        appended_pull_requests: fixes.numbers != FixNumbers::Issues
            && appends_pull_requests(repository),
    }
}

/// Whether a host writes commits here and appends the number of the pull request to their subjects.
fn appends_pull_requests(repository: &Path) -> bool {
    let count = format!("--max-count={LATEST}");
    let arguments = ["log", &count, "--no-show-signature", "--format=%ce %s"];
    let latest = git::output(repository, &arguments, BOUNDS).unwrap_or_default();
    let squashed = |line: &&[u8]| is_squashed_by_host(&String::from_utf8_lossy(line));
    latest.split(|byte| *byte == b'\n').filter(squashed).count() >= MIN
}

/// A merge commit of the host does not count: there, `(#34)` was written by a person.
fn is_squashed_by_host(committer_and_subject: &str) -> bool {
    let subject = committer_and_subject.strip_prefix("noreply@github.com ");
    subject.and_then(appended_pull_request).is_some()
}

/// Hosts with issues use a bare number for those.
fn numbers_of(repository: &Path) -> Numbers {
    let remotes = remotes(repository);
    let other = ["github.com", "gitlab", "bitbucket", "codeberg", "gitea"];
    let other = other.iter().any(|host| remotes.contains(host));
    if other { Numbers::OtherHost } else { Numbers::Items }
}

/// One line per remote, in lower case.
fn remotes(repository: &Path) -> String {
    let arguments = ["config", "--local", "--get-regexp", r"^remote\..*\.url$"];
    // Without a remote git fails.
    let remotes = git::output(repository, &arguments, BOUNDS).unwrap_or_default();
    String::from_utf8_lossy(&remotes).to_lowercase()
}

/// Address of the repository's issues on the host of `origin`, or of the only remote.
fn issue_pages(repository: &Path) -> Option<String> {
    let remotes = remotes(repository);
    let origin = remotes.lines().find(|line| line.starts_with("remote.origin.url "));
    issue_pages_of(origin.or_else(|| remotes.lines().next())?.split_once(' ')?.1)
}

/// `git@github.com:contoso/shop.git` and `https://github.com/contoso/shop` have
/// `github.com/contoso/shop/issues/`.
fn issue_pages_of(remote: &str) -> Option<String> {
    let address = remote.trim().trim_end_matches('/').trim_end_matches(".git");
    let (host, path) = match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => address.split_once(':')?,
    };
    let host = host.rsplit('@').next()?.split(':').next()?;
    (host.contains('.') && path.contains('/')).then(|| format!("{host}/{path}/issues/"))
}

/// The commits of the `wanted` items. The history is streamed once.
pub fn linked(
    repository: &Path,
    rules: &Rules,
    artifacts: &Artifacts,
    since: Option<i64>,
    names: &Names,
) -> Result<Linked, BacktestError> {
    let mut arguments = vec![
        "log",
        "--topo-order",
        "--reverse",
        "--encoding=UTF-8",
        "--no-show-signature",
        "--no-mailmap",
        "--format=%x01%H%x00%P%x00%ct%x00%at%x00%s%x00%b",
    ];
    let since = since.map(|since| format!("--since={since}"));
    arguments.extend(since.as_deref());
    let mut found = Linked { shallow: is_shallow(repository), ..Linked::default() };
    let bare = Rules { numbers: Numbers::Items, ..rules.clone() };
    let plain = Rules { appended_pull_requests: false, ..bare.clone() };
    let each = |record: &[u8]| {
        let text = String::from_utf8_lossy(record);
        let Some(raw) = RawCommit::parse(&text) else { return };
        let order = found.total;
        found.total += 1;
        let mut all = artifacts.links(raw.id, raw.commit);
        all.retain(|link| names.contains(link.item));
        let resolved =
            |rules| links(raw.commit, rules).into_iter().filter_map(|link| names.resolve(link));
        all.extend(resolved(rules));
        all.sort_unstable_by_key(|link| (link.item, link.reason));
        all.dedup_by_key(|link| link.item);
        if all.is_empty() {
            let would = |rules| resolved(rules).next().is_some();
            if rules.numbers == Numbers::OtherHost && would(&bare) {
                found.other_host += 1;
            } else if rules.appended_pull_requests && would(&plain) {
                found.appended += 1;
            }
        }
        for link in all {
            found.commits.entry(link.item).or_default().push(raw.past(link.reason, order));
        }
    };
    git::records(repository, &arguments, String::new(), (1, BOUNDS.time), each)
        .map_err(failed(repository))?;
    Ok(found)
}

/// One record of the log.
struct RawCommit<'a> {
    id: &'a str,
    parent: Option<&'a str>,
    time: i64,
    written: i64,
    commit: Commit<'a>,
}

impl<'a> RawCommit<'a> {
    fn parse(record: &'a str) -> Option<Self> {
        let mut fields = record.splitn(6, '\0');
        let mut next = || fields.next();
        let (id, parents, time, written) = (next()?, next()?, next()?, next()?);
        let (subject, body) = (next()?, next().unwrap_or_default());
        let time = time.parse().unwrap_or(0);
        Some(Self {
            id: Some(id.trim()).filter(|id| !id.is_empty())?,
            parent: parents.split(' ').next().filter(|parent| !parent.is_empty()),
            time,
            written: written.parse().unwrap_or(time).min(time),
            commit: Commit { subject, body, merge: parents.contains(' ') },
        })
    }

    fn past(&self, reason: Reason, order: usize) -> PastCommit {
        PastCommit {
            id: self.id.to_owned(),
            parent: self.parent.map(str::to_owned),
            time: self.time,
            written: self.written,
            subject: self.commit.subject.to_owned(),
            reason,
            order,
        }
    }
}

fn is_shallow(repository: &Path) -> bool {
    let asked = git::output(repository, &["rev-parse", "--is-shallow-repository"], BOUNDS);
    asked.is_ok_and(|answer| answer.starts_with(b"true"))
}

fn failed(folder: &Path) -> impl FnOnce(GitError) -> BacktestError {
    let repository = folder.to_owned();
    move |source| BacktestError::Git { repository, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_appends_numbers_where_it_squashes_and_not_where_it_merges() {
        assert!(is_squashed_by_host("noreply@github.com Crash on save (#34)"));
        assert!(!is_squashed_by_host("noreply@github.com Merge pull request #34 from ann/fix"));
        assert!(!is_squashed_by_host("ann@contoso.invalid Crash on save (#34)"));
    }
}
