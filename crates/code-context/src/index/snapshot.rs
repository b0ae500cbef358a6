//! The files of one commit, by path and id. Moving to another commit costs the difference.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::git::objects::{BlobId, Objects};
use crate::git::{self, GitError};
use crate::index::leave_out::{LeaveOut, rules_at};
use crate::index::scan;

const SILENCE: Duration = Duration::from_secs(120);
/// Longer rule files are ignored.
const MAX_RULES_LEN: u64 = 1 << 20;

/// The files of one commit.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// The current tree; `None` before the first move.
    tree: Option<String>,
    files: BTreeMap<String, Known>,
    rules: LeaveOut,
}

#[derive(Debug)]
struct Known {
    id: BlobId,
    left_out: bool,
}

/// A path and its new content; `None` if it was deleted.
type Change = (String, Option<BlobId>);

impl Snapshot {
    pub(crate) fn move_to(
        &mut self,
        repository: &Path,
        objects: &mut Objects,
        tree: &str,
    ) -> Result<(), GitError> {
        let changes = match &self.tree {
            Some(now) if now == tree => return Ok(()),
            Some(now) => changes(repository, now, tree)?,
            None => all(repository, tree)?,
        };
        self.tree = Some(tree.to_owned());
        let rules_changed = self.take_rules(objects, &changes)?;
        for (path, id) in changes {
            match id.filter(|_| scan::is_wanted(&path)) {
                Some(id) => {
                    let left_out = self.rules.file(&path);
                    self.files.insert(path, Known { id, left_out });
                }
                None => {
                    self.files.remove(&path);
                }
            }
        }
        if rules_changed {
            for (path, known) in &mut self.files {
                known.left_out = self.rules.file(path);
            }
        }
        Ok(())
    }

    /// The files that a walk would return, ordered by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&String, &BlobId)> {
        let kept = self.files.iter().filter(|(_, known)| !known.left_out);
        kept.map(|(path, known)| (path, &known.id))
    }

    fn take_rules(&mut self, objects: &mut Objects, changes: &[Change]) -> Result<bool, GitError> {
        let changed: Vec<&Change> =
            changes.iter().filter(|(path, _)| rules_at(path).is_some()).collect();
        let mut read: Vec<(&str, &str)> = Vec::new();
        for (path, id) in &changed {
            match id {
                Some(id) => read.push((path, id)),
                None => self.rules.set(path, None),
            }
        }
        let ids: Vec<&str> = read.iter().map(|(_, id)| *id).collect();
        objects.each(
            &ids,
            |_| MAX_RULES_LEN,
            |at, size, text| self.rules.set(read[at].0, size.map(|_| text)),
        )?;
        Ok(!changed.is_empty())
    }
}

/// Links and submodules are not files.
fn is_file(mode: &str) -> bool {
    mode.starts_with("100")
}

/// Every file of a tree.
fn all(repository: &Path, tree: &str) -> Result<Vec<Change>, GitError> {
    let mut files = Vec::new();
    let arguments = ["ls-tree", "-r", "-z", "--full-tree", tree];
    git::records(repository, &arguments, String::new(), (0, SILENCE), |record| {
        files.extend(entry(record));
    })?;
    Ok(files)
}

/// `MODE KIND ID<tab>PATH`
fn entry(record: &[u8]) -> Option<Change> {
    let (facts, path) = std::str::from_utf8(record).ok()?.split_once('\t')?;
    let mut facts = facts.split(' ');
    let (mode, _, id) = (facts.next()?, facts.next()?, facts.next()?);
    is_file(mode).then(|| (path.to_owned(), Some(id.to_owned())))
}

/// The difference between two trees.
fn changes(repository: &Path, from: &str, to: &str) -> Result<Vec<Change>, GitError> {
    let mut found = Vec::new();
    let mut facts: Option<Vec<u8>> = None;
    let arguments = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to];
    git::records(repository, &arguments, String::new(), (0, SILENCE), |record| {
        match facts.take() {
            None => facts = Some(record.to_vec()),
            Some(facts) => found.extend(change(&facts, record)),
        }
    })?;
    Ok(found)
}

/// `:OLDMODE MODE OLDID ID STATUS`
fn change(facts: &[u8], path: &[u8]) -> Option<Change> {
    let (facts, path) = (std::str::from_utf8(facts).ok()?, std::str::from_utf8(path).ok()?);
    let mut facts = facts.split(' ').skip(1);
    let (mode, _, id) = (facts.next()?, facts.next()?, facts.next()?);
    Some((path.to_owned(), is_file(mode).then(|| id.to_owned())))
}
