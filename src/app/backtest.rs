//! Runs a backtest: items from the tracker or a file, histories, scores, report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;

use super::error::CommandError;
use super::logging::{self, Purpose};
use super::past_analysis::{AnalyzeOptions, analyse};
use super::{Setting, Signals, StartOptions, trackers};
use crate::backtest::{
    self, Artifacts, BacktestError, PastAnalysis, PastItem, Plan, Progress, Report, Request,
    finished_items, read_past_texts, sample,
};
use crate::context::ContextError;
use crate::context::tree::TreeError;
use crate::model::Usd;
use crate::session::{StopHandle, StopReason};
use crate::settings::{Config, FixNumbers};
use crate::store::{Journal, Store};

#[derive(Debug, Clone)]
pub enum PastItems {
    Known(Vec<PastItem>),
    /// The tracker's finished items that changed since then.
    Since(Timestamp),
}

pub struct BacktestOptions {
    pub items: PastItems,
    /// One code base for all items, instead of the configured ones.
    pub code_base: Option<PathBuf>,
    pub request: Request,
    /// For [`linked_commits`]: past texts are not needed.
    pub links_only: bool,
    pub analyze: Option<AnalyzeOptions>,
}

/// Progress for people who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reading finished items.
    Tracker,
    /// Searching the histories.
    Histories {
        items: usize,
    },
    Texts {
        read: usize,
        all: usize,
    },
    Scores(Progress),
    /// Before the first analysis, with the maximum cost.
    Analyses {
        items: usize,
        at_most: Usd,
    },
}

/// The first signal ends it; scores so far are kept.
pub async fn backtest(
    start: &StartOptions,
    config: &Config,
    options: BacktestOptions,
    on_step: impl Fn(Step) + Send + Sync + 'static,
) -> Result<Report, CommandError> {
    let mut signals = Signals::listen()?;
    let (stop, on_step) = (Arc::new(AtomicBool::new(false)), Arc::new(on_step));
    let (stopped, sessions) = (Arc::clone(&stop), StopHandle::new());
    let work = async {
        let analyze = options.analyze;
        let (plan, request) = plan(start, config, options, &*on_step).await?;
        let sampled = analyze.map(|wanted| (wanted, sample(&plan, wanted.count, wanted.seed)));
        let (on_step, folder, report_step) =
            (Arc::clone(&on_step), request.folder.clone(), Arc::clone(&on_step));
        let scored = tokio::task::spawn_blocking(move || {
            let watch = |progress: Progress| {
                on_step(Step::Scores(progress));
                !stopped.load(Ordering::Relaxed)
            };
            backtest::run(&request, plan, &watch)
        });
        let mut report = scored.await.map_err(panicked)??;
        if let Some((wanted, tasks)) = sampled {
            let before = |items, at_most| report_step(Step::Analyses { items, at_most });
            let analysis = analyse(start, wanted, tasks, &folder, sessions.clone(), before).await?;
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
            // Scoring ends after the current items, or at once on the second signal.
            tokio::select! {
                ended = &mut work => ended,
                _ = signals.next() => {
                    sessions.stop_now(StopReason::Shutdown);
                    Err(stopped_now())
                }
            }
        }
    };
    match (ended, signals.stopped_by()) {
        (Err(error), Some(code)) => Err(CommandError::Stopped { code, what: error.to_string() }),
        (Ok(report), Some(code)) => match report.analysis.as_ref().filter(|a| a.is_incomplete()) {
            Some(analysis) => Err(CommandError::Stopped { code, what: stopped_in(analysis) }),
            None => Ok(report),
        },
        (ended, None) => ended,
    }
}

/// Only searches for the commits of the items.
pub async fn linked_commits(
    start: &StartOptions,
    config: &Config,
    options: BacktestOptions,
    on_step: impl Fn(Step) + Send + Sync + 'static,
) -> Result<Plan, CommandError> {
    let mut signals = Signals::listen()?;
    let stopped = tokio::select! {
        planned = plan(start, config, options, &on_step) => return planned.map(|(plan, _)| plan),
        _ = signals.next() => signals.stopped_by(),
    };
    match stopped {
        Some(code) => Err(CommandError::Stopped { code, what: "stopped".to_owned() }),
        None => Err(stopped_now()),
    }
}

fn stopped_in(analysis: &PastAnalysis) -> String {
    let (done, all, spent) = (analysis.findings.len(), analysis.items.len(), analysis.spent);
    format!(
        "stopped with {done} of {all} analyses finished (cost {spent}); they are kept, run the \
         command again for the others"
    )
}

fn stopped_now() -> CommandError {
    let what = "stopped; the scores so far are kept, run the command again to continue";
    CommandError::NotFound(what.to_owned())
}

fn panicked(_: tokio::task::JoinError) -> BacktestError {
    BacktestError::Context(ContextError::Worker)
}

async fn plan(
    start: &StartOptions,
    config: &Config,
    options: BacktestOptions,
    on_step: &(impl Fn(Step) + Sync),
) -> Result<(Plan, Request), CommandError> {
    let BacktestOptions { items, code_base, mut request, links_only, analyze, .. } = options;
    if code_base.is_some() {
        request.code_bases.clear();
    }
    let since = match items {
        PastItems::Known(items) => {
            let plan = find(&request, items, Artifacts::default(), code_base, on_step).await?;
            return Ok((plan, request));
        }
        PastItems::Since(since) => since,
    };
    let (setting, _) = Setting::for_one_run(start, Purpose::DryRun).await?;
    logging::start(&setting.config, start, Purpose::DryRun)?;
    if code_base.is_none() {
        // The same paths as in runs.
        request.code_bases = setting.config.code_bases();
    }
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    let mut all = Plan::default();
    for tracker in trackers::trackers(&setting, &journal).iter() {
        on_step(Step::Tracker);
        let source = tracker.source.as_ref();
        let (items, artifacts) =
            finished_items((&tracker.name, source), &setting.config, since).await?;
        let mut of_source = request.clone();
        if of_source.fixes.numbers == FixNumbers::Auto {
            of_source.fixes.numbers = setting.config.fixes_of(&tracker.name).numbers;
        }
        let mut plan = find(&of_source, items, artifacts, code_base.clone(), on_step).await?;
        if !links_only {
            let count = plan.all_tasks().count();
            let progress = |read| on_step(Step::Texts { read, all: count });
            read_past_texts(source, config, (&mut plan, analyze.is_some()), progress).await?;
        }
        all.join(plan);
    }
    Ok((all, request))
}

/// Searches the histories; `code_base` replaces all configured ones.
async fn find(
    request: &Request,
    mut items: Vec<PastItem>,
    artifacts: Artifacts,
    code_base: Option<PathBuf>,
    on_step: &(impl Fn(Step) + Sync),
) -> Result<Plan, CommandError> {
    if let Some(code_base) = code_base {
        items.iter_mut().for_each(|item| item.repository.clone_from(&code_base));
    }
    on_step(Step::Histories { items: items.len() });
    let request = request.clone();
    let found = tokio::task::spawn_blocking(move || Plan::find(&request, items, &artifacts));
    Ok(found.await.map_err(panicked)??)
}

fn disk_failed(what: &str, path: &Path, source: std::io::Error) -> CommandError {
    let what = format!(
        "cannot write {what}{} (the scores so far are kept; run the command again to continue)",
        path.display()
    );
    CommandError::Io { what, source }
}

impl From<BacktestError> for CommandError {
    fn from(error: BacktestError) -> Self {
        match error {
            BacktestError::Tracker(error) => Self::Run(crate::run::RunError::Fetch(error)),
            BacktestError::Write { path, source }
            | BacktestError::Tree(TreeError::Write { path, source })
            | BacktestError::Context(ContextError::Tree(TreeError::Write { path, source })) => {
                disk_failed("", &path, source)
            }
            BacktestError::Context(ContextError::Store { path, source }) => {
                disk_failed("the index at ", &path, source)
            }
            other => Self::Command(Box::new(other)),
        }
    }
}
