//! A backtest from its items to its report: the tracker where it is asked, the histories, the scores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;

use super::error::CommandError;
use super::logging::{self, Purpose};
use super::past_analysis::{AnalyzeOptions, analyse};
use super::{Setting, Signals, StartOptions, trackers};
use crate::backtest::{
    self, Artifacts, BacktestError, PastItem, Plan, Progress, Report, Request, finished_items,
    read_past_texts, sample, suggest,
};
use crate::context::ContextError;
use crate::context::tree::TreeError;
use crate::model::Usd;
use crate::session::{StopHandle, StopReason};
use crate::settings::{Config, FixNumbers};
use crate::store::{Journal, Store};

/// Where the items come from.
#[derive(Debug, Clone)]
pub enum PastItems {
    /// Read already.
    Known(Vec<PastItem>),
    /// The tracker's finished items that changed since then.
    Since(Timestamp),
}

/// What a backtest is to do.
pub struct BacktestOptions {
    pub items: PastItems,
    /// One code base for all items, in place of the configured ones.
    pub code_base: Option<PathBuf>,
    pub request: Request,
    /// Also say what the history supports changing.
    pub tune: bool,
    /// Also analyse some of the items.
    pub analyze: Option<AnalyzeOptions>,
}

/// How far it is, for people who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Finished items are asked for.
    Tracker,
    /// The histories are looked through.
    Histories { items: usize },
    /// Past texts are read.
    Texts { read: usize, all: usize },
    /// Items are scored.
    Scores(Progress),
    /// Items are about to be analysed, for this much at most.
    Analyses { items: usize, at_most: Usd },
}

/// Runs it. The first signal ends it, and what was scored is kept.
pub async fn backtest(
    start: &StartOptions,
    config: &Config,
    options: BacktestOptions,
    tell: impl Fn(Step) + Send + Sync + 'static,
) -> Result<Report, CommandError> {
    let mut signals = Signals::listen()?;
    let (stop, tell) = (Arc::new(AtomicBool::new(false)), Arc::new(tell));
    let (stopped, sessions) = (Arc::clone(&stop), StopHandle::new());
    let work = async {
        let (tune, analyze) = (options.tune, options.analyze);
        let (plan, request) = plan(start, config, options, &*tell).await?;
        let sampled = analyze.map(|wanted| (wanted, sample(&plan, wanted.count, wanted.seed)));
        let (tell, folder, telling) =
            (Arc::clone(&tell), request.folder.clone(), Arc::clone(&tell));
        let scored = tokio::task::spawn_blocking(move || {
            let watch = |progress: Progress| {
                tell(Step::Scores(progress));
                !stopped.load(Ordering::Relaxed)
            };
            backtest::run(&request, plan, &watch)
        });
        let mut report = scored.await.map_err(panicked)??;
        report.suggestions = tune.then(|| suggest(&report));
        if let Some((wanted, tasks)) = sampled {
            let at_most = wanted.at_most(&tasks, config);
            telling(Step::Analyses { items: tasks.len(), at_most });
            let analysis = analyse(start, wanted, tasks, &folder, sessions.clone()).await?;
            report.analysis = Some(analysis);
        }
        Ok(report)
    };
    tokio::pin!(work);
    let ended = tokio::select! {
        ended = &mut work => ended,
        _ = signals.next() => {
            stop.store(true, Ordering::Relaxed);
            sessions.stop(StopReason::Shutdown);
            // Scoring ends after the items that are worked on, or at once with the second signal.
            tokio::select! {
                ended = &mut work => ended,
                _ = signals.next() => {
                    sessions.stop_now(StopReason::Shutdown);
                    Err(stopped_now())
                }
            }
        }
    };
    let code = signals.stopped_by();
    ended.map_err(|error| match (error, code) {
        (error, Some(code)) => CommandError::Stopped { code, what: error.to_string() },
        (error, None) => error,
    })
}

fn stopped_now() -> CommandError {
    let what = "stopped; what was scored is kept, run the command again to go on from there";
    CommandError::NotFound(what.to_owned())
}

fn panicked(_: tokio::task::JoinError) -> BacktestError {
    BacktestError::Context(ContextError::Worker)
}

/// Finds the items and their fixes.
async fn plan(
    start: &StartOptions,
    config: &Config,
    options: BacktestOptions,
    tell: &(impl Fn(Step) + Sync),
) -> Result<(Plan, Request), CommandError> {
    let BacktestOptions { items, code_base, mut request, analyze, .. } = options;
    if code_base.is_some() {
        request.code_bases.clear();
    }
    let since = match items {
        PastItems::Known(items) => {
            let plan = find(&request, items, Artifacts::default(), code_base, tell).await?;
            return Ok((plan, request));
        }
        PastItems::Since(since) => since,
    };
    let (setting, _) = Setting::for_one_run(start, Purpose::DryRun).await?;
    logging::start(&setting.config, start, Purpose::DryRun)?;
    if code_base.is_none() {
        // Its paths are those that runs use.
        request.code_bases = setting.config.code_bases();
    }
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    let mut all = Plan::default();
    for tracker in trackers::trackers(&setting, &journal).iter() {
        tell(Step::Tracker);
        let source = tracker.source.as_ref();
        let (items, artifacts) =
            finished_items((&tracker.name, source), &setting.config, since).await?;
        let mut of_source = request.clone();
        if of_source.fixes.numbers == FixNumbers::Auto {
            of_source.fixes.numbers = setting.config.fixes_of(&tracker.name).numbers;
        }
        let mut plan = find(&of_source, items, artifacts, code_base.clone(), tell).await?;
        let count = plan.all_tasks().count();
        let progress = |read| tell(Step::Texts { read, all: count });
        read_past_texts(source, config, (&mut plan, analyze.is_some()), progress).await?;
        all.join(plan);
    }
    Ok((all, request))
}

/// Looks through the histories; `code_base` stands for all that are configured.
async fn find(
    request: &Request,
    mut items: Vec<PastItem>,
    artifacts: Artifacts,
    code_base: Option<PathBuf>,
    tell: &(impl Fn(Step) + Sync),
) -> Result<Plan, CommandError> {
    if let Some(code_base) = code_base {
        items.iter_mut().for_each(|item| item.repository.clone_from(&code_base));
    }
    tell(Step::Histories { items: items.len() });
    let request = request.clone();
    let found = tokio::task::spawn_blocking(move || Plan::find(&request, items, &artifacts));
    Ok(found.await.map_err(panicked)??)
}

fn disk_failed(what: &str, path: &Path, source: std::io::Error) -> CommandError {
    let what = format!(
        "cannot write {what}{} (what was scored is kept; run the command again to go on from there)",
        path.display()
    );
    CommandError::Io { what, source }
}

impl From<BacktestError> for CommandError {
    fn from(error: BacktestError) -> Self {
        match error {
            BacktestError::Tracker(error) => Self::Run(crate::run::RunError::Fetch(error)),
            BacktestError::Write { path, source }
            | BacktestError::Tree(TreeError::Write { path, source }) => {
                disk_failed("", &path, source)
            }
            BacktestError::Context(ContextError::Store { path, source }) => {
                disk_failed("the index at ", &path, source)
            }
            other => Self::Command(Box::new(other)),
        }
    }
}
