//! Whether heartbeat would have helped: finished items and the commits that fixed them are the
//! ground truth. Except for analyses on request, no model is used and nothing is spent.
//!
//! ```text
//! tracker   finished items of a period, their links to commits        (or a file)
//! plan      the commits that fixed each item, the code before them
//! tracker   each item's text as it was before its fix
//! work      that code indexed and ranked; compared with the files that the fix changed
//! ```
//!
//! Nothing is changed in the user's repository: each worker has a work tree of its own, which
//! borrows its objects ([`PastTree`]). Items are processed in the order of their fixes, so that the
//! index moves from one commit to the next instead of starting over
//! ([`crate::context::MovingIndex`]); the history is divided among the workers.
//! Scores are kept in the backtest's folder: a second run continues where the first was stopped.

mod analysis;
mod answer;
mod change;
mod fields;
mod fix;
mod gain;
mod history;
mod links;
mod memory;
mod names;
mod page;
mod past;
mod plan;
mod score;
mod text;
mod tracker;
mod triage_text;
mod settings;
mod walk;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

pub use analysis::{PastAnalysis, PastFinding, changed_functions, sample};
pub use fields::{exported_item, past_fields};
pub use fix::{Awaited, LaterFix, fixes_of};
pub use gain::Gain;
pub use history::{Artifacts, PastCommit};
pub use links::{ItemLinks, LinkedCommit, render_links};
pub use memory::{Memory, analysis_key};
pub use page::render as render_html;
pub use past::PastTree;
pub use plan::{Plan, Task};
pub use score::{Place, Scored, Table};
pub use settings::{Suggestion, suggest};
pub use text::render;
pub use tracker::{cleaned, finished_items, read_past_texts};
pub use triage_text::render_triage;

use crate::context::tree::TreeError;
use crate::context::{ContextError, Subject};
use crate::fetch::FetchError;
use crate::fixes::{ItemName, Unusable};
use crate::model::WorkItem;
use crate::settings::{Fixes, Ranking};

#[derive(Debug, Clone)]
pub struct PastItem {
    /// The tracker's number.
    pub id: i64,
    /// What people and commits call it.
    pub name: ItemName,
    pub title: String,
    /// Its area path.
    pub area: String,
    /// Such as `Bug` or `User Story`.
    pub item_type: String,
    /// Seconds since the epoch; earlier commits did not fix it.
    pub created_at: Option<i64>,
    /// What a run would query the index for; `None` until its text of that time is read.
    pub subject: Option<Subject>,
    /// As delivered by a tracker, for an analysis; `None` if there is none.
    pub raw: Option<Box<WorkItem>>,
    /// The code base configured for it.
    pub repository: PathBuf,
}

#[derive(Debug, Clone)]
pub struct Request {
    /// Where indexes and results are kept.
    pub folder: PathBuf,
    /// How commits name items.
    pub fixes: Fixes,
    /// Every configured code base: a fix may be in another one than the item's.
    pub code_bases: Vec<PathBuf>,
    /// Weights of the evidence, as in a run.
    pub ranking: Ranking,
    /// Token budget of a packed context.
    pub tokens: usize,
    /// Number of parallel workers.
    pub workers: usize,
    /// Selects the half of the items that suggestions are learned from.
    pub seed: u64,
}

/// Why an item could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// No commit names it.
    NoCommit,
    /// All its commits are older than the item.
    FixedBefore,
    /// The commits say nothing about it.
    Fix(Unusable),
    /// The code before the fix is not in this clone.
    NoParent,
    /// The tracker links commits that are not in this clone.
    Elsewhere,
    /// The fix is in another configured code base.
    OtherCodeBase,
    /// The folder of the code base did not exist yet.
    NoFolder,
    /// The tracker has no text of that time.
    NoText,
}

impl SkipReason {
    /// Text for display.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoCommit => "no commit names the item",
            Self::FixedBefore => "every commit that names the item is older than the item",
            Self::Fix(why) => why.text(),
            Self::NoParent => {
                "the code before the fix is not in this clone (shallow or rewritten history)"
            }
            Self::Elsewhere => {
                "the commits that the tracker links are not in this history (another repository or branch, or rewritten)"
            }
            Self::OtherCodeBase => "the fix is not in the item's code base (repository.routes)",
            Self::NoFolder => "the folder of the code base did not exist yet",
            Self::NoText => "the tracker has no text of the item from before its fix",
        }
    }
}

/// Result of one item.
#[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
pub struct Outcome {
    pub item: i64,
    /// As people write it.
    pub name: String,
    pub title: String,
    pub area: String,
    pub item_type: String,
    pub repository: String,
    /// The score, or why there is none.
    pub result: Result<Scored, SkipReason>,
}

/// The result of a backtest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub total: Table,
    /// By area, type, repository and language: name of the group, then its tables.
    pub groups: BTreeMap<&'static str, BTreeMap<String, Table>>,
    /// Number of unused items, by reason.
    pub left: BTreeMap<String, usize>,
    pub outcomes: Vec<Outcome>,
    /// Remarks about the histories, such as a shallow clone.
    pub notes: Vec<String>,
    /// Configuration changes that the history supports.
    pub suggestions: Vec<Suggestion>,
    /// Analyses of some of the items, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<PastAnalysis>,
}

#[derive(Debug, thiserror::Error)]
pub enum BacktestError {
    #[error("cannot read the history of {}: {source}", repository.display())]
    Git {
        repository: PathBuf,
        #[source]
        source: crate::context::GitError,
    },
    #[error("cannot write {}: {source}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("stopped with {done} of {all} items scored; run the command again to continue")]
    Stopped { done: usize, all: usize },
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error("cannot read finished items: {0}")]
    Tracker(#[from] FetchError),
    #[error(
        "this source cannot list finished items; give them in a file: heartbeat backtest --items FILE"
    )]
    NoLookBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub all: usize,
}

/// Progress callback; `false` stops the backtest.
pub type Watch<'a> = dyn Fn(Progress) -> bool + Sync + 'a;

pub fn run(request: &Request, plan: Plan, watch: &Watch<'_>) -> Result<Report, BacktestError> {
    let Plan { tasks, left, notes, .. } = plan;
    let mut outcomes = work::score_all(request, tasks, left, watch)?;
    outcomes.sort_by_key(|outcome| outcome.item);
    let mut report = score::report(outcomes, notes);
    report.suggestions = suggest(&report, request.seed);
    Ok(report)
}
