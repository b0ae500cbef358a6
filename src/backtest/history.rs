//! The commits that name items.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::{BacktestError, change};
use crate::context::git::{self, Bounds};
use crate::fixes::{Change, Commit, Numbers, Reason, links};

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(300), output: 1 << 30 };

/// A commit that names an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastCommit {
    pub id: String,
    /// The first one; none at the beginning of history or of a shallow clone.
    pub parent: Option<String>,
    /// Seconds since the epoch.
    pub time: i64,
    pub subject: String,
    pub reason: Reason,
    /// Its place, oldest first.
    pub order: usize,
}

/// What `commit` changed since `parent`, renames followed.
pub fn changes(folder: &Path, parent: &str, commit: &str) -> Result<Vec<Change>, BacktestError> {
    let arguments = [
        "diff",
        "--unified=0",
        "--no-prefix",
        "--no-ext-diff",
        "--no-textconv",
        "--find-renames",
        parent,
        commit,
    ];
    let diff = git::output(folder, &arguments, BOUNDS)
        .map_err(|source| BacktestError::Git { repository: folder.to_owned(), source })?;
    Ok(change::parse(&String::from_utf8_lossy(&diff)))
}

/// What a bare number means here: hosts with issues of their own use it for those.
pub fn numbers_of(repository: &Path) -> Result<Numbers, BacktestError> {
    let arguments = ["config", "--local", "--get-regexp", r"^remote\..*\.url$"];
    // Without a remote git says that it found nothing.
    let remotes = git::output(repository, &arguments, BOUNDS).unwrap_or_default();
    let remotes = String::from_utf8_lossy(&remotes).to_lowercase();
    let other = ["github.com", "gitlab", "bitbucket", "codeberg", "gitea"];
    let other = other.iter().any(|host| remotes.contains(host));
    Ok(if other { Numbers::OtherHost } else { Numbers::Items })
}

/// The commits of each item, oldest first.
pub fn linked(
    repository: &Path,
    numbers: Numbers,
    since: Option<i64>,
) -> Result<HashMap<i64, Vec<PastCommit>>, BacktestError> {
    let mut arguments =
        vec!["log", "--topo-order", "--reverse", "--format=%x01%H%x00%P%x00%ct%x00%s%x00%b"];
    let since = since.map(|since| format!("--since={since}"));
    arguments.extend(since.as_deref());
    let output = git::output(repository, &arguments, BOUNDS)
        .map_err(|source| BacktestError::Git { repository: repository.to_owned(), source })?;
    let text = String::from_utf8_lossy(&output);
    let mut found: HashMap<i64, Vec<PastCommit>> = HashMap::new();
    for (order, record) in text.split('\u{1}').skip(1).enumerate() {
        let mut fields = record.splitn(5, '\0');
        let mut next = || fields.next().unwrap_or_default();
        let (id, parents, time, subject, body) = (next(), next(), next(), next(), next());
        let commit = Commit { subject, body, merge: parents.contains(' ') };
        for link in links(commit, numbers) {
            found.entry(link.item).or_default().push(PastCommit {
                id: id.to_owned(),
                parent: parents
                    .split(' ')
                    .next()
                    .filter(|parent| !parent.is_empty())
                    .map(str::to_owned),
                time: time.parse().unwrap_or(0),
                subject: subject.to_owned(),
                reason: link.reason,
                order,
            });
        }
    }
    Ok(found)
}
