//! Analyses of some past items, against what fixed them.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Plan, Task};
use crate::model::{Finding, Fix, Usd};

/// What came of the analyses.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PastAnalysis {
    /// Numbers of the items that were chosen.
    pub items: Vec<i64>,
    /// The most it may cost.
    pub at_most: Usd,
    /// Only told what would be done.
    pub dry_run: bool,
    pub spent: Usd,
    pub findings: Vec<PastFinding>,
    /// Findings that name a file which the fix changed.
    pub confirmed: usize,
    /// What kept the others from being analysed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// One finding against its fix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PastFinding {
    pub item: i64,
    pub title: String,
    /// Files that the finding would change.
    pub named: u32,
    /// Files that the fix changed.
    pub changed: u32,
    /// Files that are both.
    pub hits: u32,
    pub precision: f64,
    pub recall: f64,
    pub cost: Option<Usd>,
}

impl PastFinding {
    pub fn of(task: &Task, finding: &Finding, cost: Option<Usd>) -> Self {
        let changed = task.gold.iter().map(|change| change.path.clone()).collect();
        let epoch = jiff::Timestamp::UNIX_EPOCH;
        let score = Fix::new(epoch, Vec::new(), changed, finding).score(epoch);
        Self {
            item: task.item.id,
            title: task.item.title.clone(),
            named: score.named,
            changed: score.changed,
            hits: score.hits,
            precision: score.precision(),
            recall: score.recall(),
            cost,
        }
    }
}

/// Some tasks whose items are known whole: the same ones for the same seed, whatever their order.
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
