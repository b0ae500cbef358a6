//! Analyses past items: a run on a separate state, with past items and past code instead of the
//! tracker and the code bases. There is no triage: these items were chosen for analysis, and triage
//! would see items of different times together. The findings stay there and are scored; nothing
//! reaches the tracker, the items or the reports of real runs. Only the cost counts towards the
//! day's budget.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CommandError;
use super::{Setting, StartOptions};
use crate::backtest::{
    BacktestError, Memory, PastAnalysis, PastFinding, PastTree, Task, analysis_key,
    changed_functions,
};
use crate::context::{Chosen, CodeBase, CodeBases, CodeContext, CodeError, Upstream};
use crate::event::{RunOutcome, Trigger};
use crate::fetch::{FetchError, FetchRequest, Page, Pages, Source};
use crate::model::{
    BoxFuture, CleanItem, ItemKey, Outcome, RunId, SessionId, Usd, Verdict, WorkItem,
};
use crate::private;
use crate::run::{self, Edges, RunContext, Tracker};
use crate::schedule::day_in;
use crate::session::StopHandle;
use crate::settings::{BudgetSettings, Config, FirstRun};
use crate::store::{BudgetCaps, Journal, RunLock, SessionRow, Store};

#[derive(Debug, Clone, Copy)]
pub struct AnalyzeOptions {
    pub count: usize,
    pub max_cost: Usd,
    pub seed: u64,
    /// Only report the cost.
    pub dry_run: bool,
}

impl AnalyzeOptions {
    /// Maximum cost of these analyses.
    pub fn at_most(self, tasks: &[Task], config: &Config) -> Usd {
        let one = |task: &Task| {
            let rule = task.item.raw.as_ref().and_then(|item| config.rule_for(item));
            rule.and_then(|(_, rule)| rule.max_cost).unwrap_or(config.analyze.max_cost)
        };
        tasks.iter().map(one).sum::<Usd>().min(self.max_cost)
    }
}

/// Analyses these items in the code before their fixes, below `folder`.
pub async fn analyse(
    start: &StartOptions,
    options: AnalyzeOptions,
    tasks: Vec<Task>,
    folder: &Path,
    stop: StopHandle,
    before_start: impl FnOnce(usize, Usd),
) -> Result<PastAnalysis, CommandError> {
    let (setting, _) = Setting::for_one_run(start, super::logging::Purpose::DryRun).await?;
    let mut memory = Memory::open(folder.join("analyses.jsonl"));
    let items = tasks.iter().map(|task| task.item.id).collect();
    let (findings, tasks) = recall(&mut memory, tasks, &setting);
    let mut analysis = PastAnalysis {
        items,
        at_most: options.at_most(&tasks, &setting.config),
        dry_run: options.dry_run,
        spent: Usd::default(),
        reused: findings.len(),
        findings,
        confirmed: 0,
        trouble: None,
    };
    if options.dry_run || tasks.is_empty() {
        return Ok(analysis.counted());
    }
    before_start(tasks.len(), analysis.at_most);
    super::guard_children();
    let place = folder.join("analysis");
    remove(&place);
    let work = SessionId(uuid::Uuid::now_v7());
    let real = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    let day = day_in(&setting.config.schedule.timezone, setting.clock.now());
    let BudgetSettings { per_day, per_month, .. } = setting.config.budget;
    // Zero means no limit.
    let per_month = (per_month > Usd::ZERO).then_some(per_month);
    let caps = BudgetCaps { per_day, per_month, ..BudgetCaps::NONE };
    let reserved = real.budget().reserve_outside_runs(work, day, analysis.at_most, caps).await?;
    if let Err(refusal) = reserved {
        analysis.trouble = Some(format!("nothing was analysed: {refusal}"));
        return Ok(analysis.counted());
    }
    let ended = run_on_past(&setting, tasks, &place, stop, (&memory, &mut analysis)).await;
    if ended.is_ok() {
        // If the end is not known, the worst case stays charged.
        real.budget().settle_outside_runs(work, analysis.spent).await?;
    }
    remove(&place);
    ended.map(|()| analysis.counted())
}

/// Findings of earlier backtests, and the tasks that have none.
fn recall(
    memory: &mut Memory<PastFinding>,
    tasks: Vec<Task>,
    setting: &Setting,
) -> (Vec<PastFinding>, Vec<Task>) {
    let (mut findings, mut new) = (Vec::new(), Vec::new());
    for task in tasks {
        match memory.take(&key_of(&task, setting)) {
            Some(finding) => findings.push(finding),
            None => new.push(task),
        }
    }
    (findings, new)
}

/// Rules may give each item other settings.
fn key_of(task: &Task, setting: &Setting) -> String {
    let config = task.item.raw.as_ref().map(|item| setting.config.for_item(item));
    let analyze = config.as_ref().map_or(&setting.config.analyze, |config| &config.analyze);
    analysis_key(task, analyze, setting.prompts.version())
}

fn remove(folder: &Path) {
    if folder.exists()
        && let Err(error) = private::remove_folder(folder)
    {
        tracing::warn!(folder = %folder.display(), %error, "could not remove the work of a backtest");
    }
}

async fn run_on_past(
    real: &Setting,
    tasks: Vec<Task>,
    place: &Path,
    stop: StopHandle,
    (memory, analysis): (&Memory<PastFinding>, &mut PastAnalysis),
) -> Result<(), CommandError> {
    let state = place.join("state");
    private::create_folder(&state).map_err(CommandError::io("cannot create a folder"))?;
    let config = Arc::new(config_for(&real.config, analysis.at_most, tasks.len()));
    let setting = Setting {
        config: Arc::clone(&config),
        cache: place.join("index"),
        state: state.clone(),
        ..real.clone()
    };
    let id = RunId(uuid::Uuid::now_v7());
    let store = Store::open(&state)?;
    let mut lock = RunLock::acquire(&state, "backtest", Some(id), &setting.clock)?;
    let journal = Journal::begin_run(store.clone(), setting.clock.clone(), id).await?;
    let by_item: HashMap<ItemKey, Task> = tasks
        .into_iter()
        .filter_map(|task| Some((task.item.raw.as_ref()?.key.clone(), task)))
        .collect();
    let edges = Edges {
        trackers: trackers(&by_item, &setting),
        code: Arc::new(PastCode { config, place: place.to_owned(), tasks: by_item.clone() }),
        ..setting.edges(&journal)?
    };
    let (config, prompts) = (Arc::clone(&setting.config), Arc::clone(&setting.prompts));
    let follower = journal.clone();
    let cx = RunContext::new(id, Trigger::Manual, config, prompts, journal, edges, stop);
    let cx = cx.of_past_items();
    let end = tokio::select! {
        ended = run::perform(&cx) => ended?,
        never = lock.keep_fresh(&setting.clock) => match never {},
    };
    // Why nothing more was analysed: an error, or what the run waited for.
    let waited = follower.view().waits_for.filter(|_| end.outcome == RunOutcome::NotNow);
    let failed = failures(&store.sessions().in_run(id).await?);
    analysis.trouble = end.error.map(|error| error.to_string()).or(waited).or(failed);
    analysis.spent = store.budget().in_run(id).await?.committed();
    for row in store.findings().in_run(id).await? {
        let Some(task) = by_item.get(&row.key) else { continue };
        let root = place_of(&place.join("trees"), task).unwrap_or_default();
        let functions = changed_functions(&root, &task.gold);
        let finding = PastFinding::of(task, &row.finding, row.cost, &functions);
        memory.put(&key_of(task, real), &finding)?;
        analysis.findings.push(finding);
    }
    Ok(())
}

/// `3 sessions failed: agent error: the model is unknown`: most failures share a cause, so one is
/// shown.
fn failures(sessions: &[SessionRow]) -> Option<String> {
    let failed = sessions.iter().filter_map(|session| session.outcome.as_ref());
    let failed: Vec<&Outcome> = failed.filter(|outcome| !outcome.is_success()).collect();
    let sessions = if failed.len() == 1 { "session" } else { "sessions" };
    Some(format!("{} {sessions} failed: {}", failed.len(), failed.first()?))
}

/// The user's configuration, adapted to a sample of the past.
fn config_for(config: &Config, at_most: Usd, items: usize) -> Config {
    let mut config = config.clone();
    let count = u32::try_from(items).unwrap_or(u32::MAX);
    (config.budget.per_run, config.budget.per_day) = (at_most, at_most);
    config.budget.per_month = Usd::ZERO;
    (config.limits.max_items_per_run, config.limits.max_deep_per_run) = (count, count);
    let rounds = count.saturating_add(2);
    config.limits.run_deadline = Some(config.analyze.timeout.saturating_mul(rounds));
    config.schedule.first_run = FirstRun::Process;
    config.source.write_back = false;
    config.source_list.iter_mut().for_each(|source| source.write_back = false);
    config
}

/// Past items as trackers, one per source.
fn trackers(tasks: &HashMap<ItemKey, Task>, setting: &Setting) -> Arc<[Tracker]> {
    let items: Vec<WorkItem> = tasks
        .values()
        .filter_map(|task| task.item.raw.clone())
        .map(|raw| WorkItem { state: "Active".to_owned(), ..*raw })
        .collect();
    let names: BTreeSet<String> = items.iter().map(|item| item.key.source().to_owned()).collect();
    let now = setting.clock.now();
    let tracker = |name: String| {
        let of_source = |item: &&WorkItem| item.key.source() == name;
        let items = items.iter().filter(of_source).cloned().collect();
        let source = Arc::new(PastSource(Page { items, cursor: Some(now), ..Page::default() }));
        Tracker { name: name.clone(), source, publisher: None, writer: None }
    };
    names.into_iter().map(tracker).collect()
}

/// Returns the chosen items once.
struct PastSource(Page);

struct OnePage(Option<Page>);

impl Source for PastSource {
    fn open(&self, _: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        Box::pin(async { Ok(Box::new(OnePage(Some(self.0.clone()))) as Box<dyn Pages>) })
    }
}

impl Pages for OnePage {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async { Ok(self.0.take()) })
    }

    fn requests(&self) -> u64 {
        0
    }
}

/// The code before each item's fix.
struct PastCode {
    config: Arc<Config>,
    place: PathBuf,
    tasks: HashMap<ItemKey, Task>,
}

impl CodeBase for PastCode {
    fn context(
        &self,
        item: CleanItem,
        verdict: Verdict,
        chosen: Vec<Chosen>,
    ) -> BoxFuture<'_, Result<CodeContext, CodeError>> {
        Box::pin(async move {
            let missing = || CodeError::Missing(self.place.clone());
            let task = self.tasks.get(&item.facts.key).ok_or_else(missing)?.clone();
            let trees = self.place.join("trees");
            let laid_out = tokio::task::spawn_blocking(move || lay_out(&task, &trees)).await;
            let root = laid_out.map_err(|_| missing())?.map_err(|error| CodeError::Unreadable {
                root: self.place.clone(),
                why: error.to_string(),
            })?;
            let mut config = Config::clone(&self.config);
            config.repository.routes.clear();
            config.repository.path = root;
            for source in std::iter::once(&mut config.source).chain(&mut config.source_list) {
                source.routes.clear();
                source.repository = PathBuf::new();
            }
            CodeBases::new(&config, &self.place.join("index"), Upstream::off())
                .context(item, verdict, chosen)
                .await
        })
    }
}

fn lay_out(task: &Task, trees: &Path) -> Result<PathBuf, BacktestError> {
    let tree = PastTree::open(&task.item.repository, trees, &tree_name(task))?;
    tree.move_to(&task.base)?;
    place_of(trees, task)
}

/// Items of two sources may have the same number.
fn tree_name(task: &Task) -> String {
    let key = task.item.raw.iter().map(|raw| raw.key.to_string()).collect::<String>();
    key.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// The folder of an item's code base.
fn place_of(trees: &Path, task: &Task) -> Result<PathBuf, BacktestError> {
    let tree = trees.join(tree_name(task));
    Ok(tree.join(PastTree::prefix_of(&task.item.repository)?))
}
