//! Analyses of some past items, compared with their fixes.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Plan, Task};
use crate::context::Reader;
use crate::fixes::Change;
use crate::model::{Finding, Fix, Usd};
use crate::private::beneath;

/// In bytes; source files are far smaller.
const MAX_FILE: u64 = 16 << 20;

/// Result of the analyses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PastAnalysis {
    /// Numbers of the selected items.
    pub items: Vec<i64>,
    /// Upper bound of the cost.
    pub at_most: Usd,
    /// Only shows what would be done.
    pub dry_run: bool,
    pub spent: Usd,
    /// Findings of earlier backtests, which cost nothing now.
    pub reused: usize,
    pub findings: Vec<PastFinding>,
    /// Findings that name a file changed by the fix.
    pub confirmed: usize,
    /// Why the others were not analysed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl PastAnalysis {
    /// In the order of the items, with the number of findings that are right.
    #[must_use]
    pub fn counted(mut self) -> Self {
        let place = |item: i64| self.items.iter().position(|one| *one == item);
        self.findings.sort_by_key(|finding| place(finding.item));
        self.confirmed = self.findings.iter().filter(|finding| finding.hits > 0).count();
        self
    }

    /// Whether some items have no finding although it was wanted.
    pub fn is_incomplete(&self) -> bool {
        !self.dry_run && self.findings.len() < self.items.len()
    }
}

/// One finding compared with its fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastFinding {
    pub item: i64,
    /// As people write it.
    pub name: String,
    pub title: String,
    /// Number of files that the finding would change.
    pub named: u32,
    /// Number of files that the fix changed.
    pub changed: u32,
    /// Number of files in both.
    pub hits: u32,
    /// Functions and types that the fix changed, as far as known.
    pub functions_changed: u32,
    /// Of these, the ones that the finding names.
    pub functions_named: u32,
    pub precision: f64,
    pub recall: f64,
    pub cost: Option<Usd>,
}

impl PastFinding {
    /// `functions`: names of what the fix changed.
    pub fn of(
        task: &Task,
        finding: &Finding,
        cost: Option<Usd>,
        functions: &BTreeSet<String>,
    ) -> Self {
        let changed = task.gold.iter().map(|change| change.path.clone()).collect();
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        let score = Fix::new(epoch, Vec::new(), changed, finding).score(epoch);
        Self {
            item: task.item.id,
            name: task.item.name.text(),
            title: task.item.title.clone(),
            named: score.named,
            changed: score.changed,
            hits: score.hits,
            functions_changed: count(functions.len()),
            functions_named: count(functions.intersection(&names_in(finding)).count()),
            precision: score.precision(),
            recall: score.recall(),
            cost,
        }
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

/// Every name in a finding.
fn names_in(finding: &Finding) -> BTreeSet<String> {
    let mut finding = finding.clone();
    // A path is not a function.
    finding.files.iter_mut().for_each(|file| file.path.clear());
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let texts = finding.texts_mut();
    texts.flat_map(|text| text.split(|c| !is_part(c)).map(str::to_owned)).collect()
}

/// The names of the definitions around the changed lines, in the code base at `root` before the
/// fix.
pub fn changed_functions(root: &Path, changes: &[Change]) -> BTreeSet<String> {
    let mut reader = Reader::default();
    let mut names = BTreeSet::new();
    for change in changes {
        let Ok(text) = beneath::read(root, Path::new(&change.path), MAX_FILE) else { continue };
        let definitions = reader.read(&change.path, &text).definitions;
        for (first, last) in &change.lines {
            let begins = definitions.partition_point(|one| one.line <= *first);
            let enclosing = definitions[..begins].last().into_iter();
            let inside = definitions[begins..].iter().take_while(|one| one.line <= *last);
            names.extend(enclosing.chain(inside).map(|one| one.name.clone()));
        }
    }
    names
}

/// A sample of the tasks with complete items; deterministic for the same seed, in any order of
/// tasks.
pub fn sample(plan: &Plan, count: usize, seed: u64) -> Vec<Task> {
    let mut all: Vec<(Vec<u8>, &Task)> = plan
        .all_tasks()
        .filter(|task| task.item.raw.is_some())
        .map(|task| {
            let drawn = Sha256::digest(format!("{seed} {}", task.item.id).as_bytes());
            (drawn.to_vec(), task)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.into_iter().take(count).map(|(_, task)| task.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_belong_to_the_function_above_them_and_to_those_inside() {
        let folder = tempfile::tempdir().unwrap();
        let text = "use x;\nfn first() {\n    1\n}\nfn second() {\n    2\n}\nfn third() {\n}\n";
        std::fs::write(folder.path().join("a.rs"), text).unwrap();
        let functions = |lines: Vec<(u32, u32)>| {
            let change = |path: &str| Change { path: path.to_owned(), lines: lines.clone() };
            let names = changed_functions(folder.path(), &[change("a.rs"), change("gone.rs")]);
            names.into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(functions(vec![(3, 3)]), "first");
        assert_eq!(functions(vec![(3, 6)]), "first second");
        assert_eq!(functions(vec![(1, 1)]), "");
        assert_eq!(functions(vec![(5, 5), (9, 9)]), "second third");
    }
}
