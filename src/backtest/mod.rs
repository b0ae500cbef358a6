//! Would it have helped? Finished items and the commits that fixed them are the truth; nothing is
//! asked of a model, so a backtest costs no money.
//!
//! ```text
//! tracker   finished items of a period, their links to commits        (or a file)
//! plan      the commits that fixed each item, the code before them
//! tracker   each item's text as it was before its fix
//! work      that code indexed and ranked; compared with the files that the fix changed
//! ```
//!
//! The code is read from the objects of the user's repository; nothing is laid out and nothing there
//! changes. Items are taken in the order of their fixes, so that the index moves from one commit to the
//! next instead of starting anew ([`crate::context::MovingIndex`]); the time line is cut in as many
//! parts as there are workers. Only an analysis has a work tree, one of our own ([`PastTree`]). What
//! was scored is kept in the backtest's folder: a second run goes on where the first was ended.

mod analysis;
mod answer;
mod change;
mod fix;
mod history;
mod memory;
mod page;
mod past;
mod plan;
mod score;
mod text;
mod tracker;
mod tune;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

pub use analysis::{PastAnalysis, PastFinding, changed_functions, sample};
pub use fix::{LaterFix, fixes_of};
pub use history::{Artifacts, PastCommit};
pub use page::render as render_html;
pub use past::PastTree;
pub use plan::{Plan, Task};
pub use score::{Place, Scored, Table};
pub use text::render;
pub use tracker::{cleaned, finished_items, read_past_texts};
pub use tune::{Suggestion, suggest};

use crate::context::tree::TreeError;
use crate::context::{ContextError, Subject};
use crate::fetch::FetchError;
use crate::fixes::Unusable;
use crate::model::WorkItem;
use crate::settings::Fixes;

/// A finished item.
#[derive(Debug, Clone)]
pub struct PastItem {
    /// The tracker's number.
    pub id: i64,
    /// For people.
    pub title: String,
    /// Where it belongs.
    pub area: String,
    /// Bug, User Story, …
    pub item_type: String,
    /// Seconds since the epoch; a commit before it did not fix it.
    pub created_at: Option<i64>,
    /// What a run would ask the index; none until its text of that time is read.
    pub subject: Option<Subject>,
    /// As a tracker delivers it, for an analysis; none where nobody asks for one.
    pub raw: Option<Box<WorkItem>>,
    /// The code base that the configuration gives it.
    pub repository: PathBuf,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where indexes and results are kept.
    pub folder: PathBuf,
    /// How commits name items.
    pub fixes: Fixes,
    /// Every code base of the configuration: a fix may be in another one than the item's.
    pub code_bases: Vec<PathBuf>,
    /// Tokens of a packed context.
    pub tokens: usize,
    /// Items worked on at the same time.
    pub workers: usize,
}

/// Why an item could not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
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
    /// Another code base of the configuration holds the fix.
    OtherCodeBase,
    /// The folder of the code base came later.
    NoFolder,
    /// The tracker has no text of that time.
    NoText,
}

impl Left {
    /// For people.
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
            Self::OtherCodeBase => {
                "another code base than the item's own holds the fix (repository.routes)"
            }
            Self::NoFolder => "the folder of the code base did not exist yet",
            Self::NoText => "the tracker has no text of the item from before its fix",
        }
    }
}

/// How one item fared.
#[derive(Debug, Clone, PartialEq, Serialize, serde::Deserialize)]
pub struct Outcome {
    pub item: i64,
    pub title: String,
    pub area: String,
    pub item_type: String,
    pub repository: String,
    /// What was found, or why nothing was tried.
    pub result: Result<Scored, Left>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub total: Table,
    /// By area, type, repository and language: name of the group, then its tables.
    pub groups: BTreeMap<&'static str, BTreeMap<String, Table>>,
    /// Items that were not used, by reason.
    pub left: BTreeMap<String, usize>,
    pub outcomes: Vec<Outcome>,
    /// What a person should know about the histories, such as a shallow clone.
    pub notes: Vec<String>,
    /// What the history supports changing, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<Suggestion>>,
    /// Analyses of some of the items, if they were asked for.
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
    #[error("stopped with {done} of {all} items scored; run the command again to go on from there")]
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

/// Where a backtest stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub all: usize,
}

/// What a backtest tells while it works; `false` ends it.
pub type Watch<'a> = dyn Fn(Progress) -> bool + Sync + 'a;

/// Scores all items that can be used.
pub fn run(request: &Request, plan: Plan, watch: &Watch<'_>) -> Result<Report, BacktestError> {
    let Plan { tasks, left, notes } = plan;
    let mut outcomes = work::score_all(request, tasks, left, watch)?;
    outcomes.sort_by_key(|outcome| outcome.item);
    Ok(score::report(outcomes, notes))
}
