//! The commit graph: read once, then queried for every commit of a backtest.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use crate::git::history::{CommitId, id_of};
use crate::git::{self, GitError};

const SILENCE: Duration = Duration::from_secs(300);

/// The ancestors of some commits, with their times.
#[derive(Debug, Default)]
pub struct Ancestry {
    numbers: HashMap<CommitId, u32>,
    commits: Vec<Node>,
    parents: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    id: CommitId,
    time: i64,
    /// Start and number of its parents.
    parents: (usize, usize),
}

impl Ancestry {
    /// Reads the ancestors of `heads`; heads that are not in the repository are skipped.
    pub fn read<'a>(
        repository: &Path,
        heads: impl Iterator<Item = &'a str>,
    ) -> Result<Self, GitError> {
        let heads: String = heads.flat_map(|head| [head, "\n"]).collect();
        let mut found = Self::default();
        if heads.is_empty() {
            return Ok(found);
        }
        let arguments = ["rev-list", "--stdin", "--ignore-missing", "--parents", "--timestamp"];
        git::records(repository, &arguments, heads, (b'\n', SILENCE), |line| {
            found.add(line);
        })?;
        Ok(found)
    }

    /// `TIME ID PARENT…`
    fn add(&mut self, line: &[u8]) -> Option<()> {
        let mut words = line.split(|byte| *byte == b' ');
        let time = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let commit = self.number(id_of(words.next()?)?);
        let first = self.parents.len();
        for parent in words.filter_map(id_of) {
            let parent = self.number(parent);
            self.parents.push(parent);
        }
        let node = &mut self.commits[commit as usize];
        (node.time, node.parents) = (time, (first, self.parents.len() - first));
        Some(())
    }

    fn number(&mut self, id: CommitId) -> u32 {
        let next = u32::try_from(self.commits.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.commits.push(Node { id, ..Node::default() });
        }
        number
    }

    /// The newest commits without merges, newest first, in the order of `git rev-list`; `None` if
    /// the commit is unknown.
    pub(crate) fn newest(&self, head: &str, most: usize) -> Option<Vec<CommitId>> {
        let head = *self.numbers.get(&id_of(head.as_bytes())?)?;
        let (mut seen, mut queue) = (HashSet::from([head]), BinaryHeap::new());
        // Of two commits in the same second the one found first comes first.
        queue.push((self.commits[head as usize].time, Reverse(0), head));
        let mut newest = Vec::with_capacity(most);
        while let Some((_, _, commit)) = queue.pop() {
            let node = &self.commits[commit as usize];
            let (first, count) = node.parents;
            if count < 2 {
                newest.push(node.id);
            }
            if newest.len() == most {
                break;
            }
            for parent in &self.parents[first..first + count] {
                if seen.insert(*parent) {
                    queue.push((self.commits[*parent as usize].time, Reverse(seen.len()), *parent));
                }
            }
        }
        Some(newest)
    }
}
