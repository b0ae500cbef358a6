//! The code bases: indexed once per run, when the first item needs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::at_commit::{CommitCode, Words};
use super::hints::{CodeHints, FILES, Lately};
use super::upstream::{CodeCommit, CodeSource, Upstream, has_files};
use super::{subject_of, weights_of};
use crate::evidence;
use crate::model::{BoxFuture, CleanItem, Verdict, is_within_area};
use crate::settings::{Config, Repository, Route};
use code_context::git::{self, Bounds};
use code_context::{
    BuildReport, Choice, Chosen, ContextError, Index, Options, Query, Weights, choices,
    is_confident, overview, pack_chosen, rank, reorder,
};

/// Far above the time for the largest measured code base.
const WITHIN: Duration = Duration::from_mins(10);
/// Number of ranked files offered to the packer and to the locate step.
const RANKED: usize = crate::locate::MAX_FILES;
/// Divisor of the context's budget that the overview may take.
const OVERVIEW_SHARE: u32 = 8;
/// Tokens of a code base's overview for triage, and how many code bases get one.
const OVERVIEW_TOKENS: usize = 300;
const MAX_OVERVIEWS: usize = 4;
/// Time for the hints of a run's items.
const HINTS_WITHIN: Duration = Duration::from_secs(30);
/// Most files read of a linked commit.
const MAX_TOUCHED: usize = 30;

/// The code context of an item, computed before the agent starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeContext {
    pub root: PathBuf,
    /// An overview, the same for all items.
    pub overview: String,
    /// The places that matter for this item.
    pub context: String,
    /// Number of files named in it.
    pub files: u32,
    /// Estimated.
    pub tokens: u64,
    /// The commit that is analysed; `None` without a git history.
    pub commit: Option<CodeCommit>,
    /// Why the code may not be the remote's newest.
    pub outdated: Option<String>,
}

impl CodeContext {
    /// Without any context of the code in `root`.
    pub fn empty(root: PathBuf) -> Self {
        let (overview, context) = (String::new(), String::new());
        Self { root, overview, context, files: 0, tokens: 0, commit: None, outdated: None }
    }
}

/// A code base that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CodeError {
    /// It does not exist or is not a folder.
    #[error(
        "the code base {} does not exist or is not a folder: restore it, or correct [repository] \
         path and routes", .0.display()
    )]
    Missing(PathBuf),
    /// It has no file to read: an analysis would be paid for nothing.
    #[error(
        "the code base {} has no files to analyse: check [repository] path and ref, and that the \
         clone is complete", .0.display()
    )]
    Empty(PathBuf),
    /// It exists, but could not be indexed.
    #[error("cannot read the code base {}: {why}", .root.display())]
    Unreadable { root: PathBuf, why: String },
}

/// The configured code bases.
pub trait CodeBase: Send + Sync {
    /// The context of one item; the `chosen` files come first.
    fn context(
        &self,
        item: CleanItem,
        verdict: Verdict,
        chosen: Vec<Chosen>,
    ) -> BoxFuture<'_, Result<CodeContext, CodeError>>;

    /// Fails if no code base has a file to read: whatever is paid for would be for nothing.
    fn usable(&self) -> BoxFuture<'_, Result<(), CodeError>> {
        Box::pin(async { Ok(()) })
    }

    /// The files to choose from for an item, best first. Empty if the first one is certain, and for
    /// a code base that cannot be read.
    fn choices(&self, _item: CleanItem, _verdict: Verdict) -> BoxFuture<'_, Vec<Choice>> {
        Box::pin(async { Vec::new() })
    }

    /// A short overview of each code base that these items belong to; unreadable ones are omitted.
    fn overviews(&self, _items: Vec<CleanItem>) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { Vec::new() })
    }

    /// The files of a code base at a commit, to check findings against.
    fn at_commit(
        &self,
        root: PathBuf,
        commit: Option<String>,
    ) -> BoxFuture<'_, Arc<dyn evidence::Code>> {
        Box::pin(async move {
            let code: Arc<dyn evidence::Code> =
                Arc::new(CommitCode::new(&root, commit.as_deref(), None));
            code
        })
    }

    /// What the history of the code says about each of these items.
    fn hints(&self, _items: Vec<CleanItem>, _now: Timestamp) -> BoxFuture<'_, CodeHints> {
        Box::pin(async { CodeHints::new() })
    }

    /// Title and files of a commit; `None` if it is not in this code base.
    fn commit(&self, _root: PathBuf, _id: String) -> BoxFuture<'_, Option<KnownCommit>> {
        Box::pin(async { None })
    }
}

/// A commit of a code base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCommit {
    /// First line of its message.
    pub title: String,
    /// The first files it changed.
    pub files: Vec<String>,
}

/// An open code base.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) index: Index,
    overview: String,
}

/// The code bases of a configuration.
pub struct CodeBases {
    config: Config,
    cache: PathBuf,
    upstream: Upstream,
    opened: Arc<Mutex<HashMap<PathBuf, Arc<Opened>>>>,
}

impl CodeBases {
    /// Reads nothing yet: a run without a deep item builds nothing.
    pub fn new(config: &Config, cache: &Path, upstream: Upstream) -> Self {
        Self { config: config.clone(), cache: cache.into(), upstream, opened: Arc::default() }
    }

    /// Every configured code base, the default one first.
    fn roots(&self) -> Vec<PathBuf> {
        let Config { source, source_list, repository, .. } = &self.config;
        let own = source_list.iter().chain([source]);
        let (mut roots, mut routes) = (vec![repository.path.clone()], vec![&repository.routes]);
        for source in own {
            roots.push(source.repository.clone());
            routes.push(&source.routes);
        }
        roots.extend(routes.into_iter().flatten().map(|route| route.path.clone()));
        roots.retain(|root| !root.as_os_str().is_empty());
        roots
    }

    fn root_for(&self, item: &CleanItem) -> PathBuf {
        let areas: Vec<&str> = item.facts.areas().collect();
        let source = item.facts.key.source();
        code_base_of(&self.config, source, &areas, &item.facts.item_type).to_owned()
    }
}

/// The code base for items of this source, areas and type: by a route of the source, then the
/// source's own, then the same for `[repository]`.
pub fn code_base_of<'a>(
    config: &'a Config,
    source: &str,
    areas: &[&str],
    item_type: &str,
) -> &'a Path {
    let led = |routes: &'a [Route]| Some(&route_for(routes, areas, item_type)?.path);
    let own = config.source_named(source).and_then(|source| {
        led(&source.routes).or(Some(&source.repository).filter(|path| !path.as_os_str().is_empty()))
    });
    let Repository { path, routes, .. } = &config.repository;
    own.or_else(|| led(routes)).unwrap_or(path)
}

/// The most specific route: the longest area path, then the one that names the type.
fn route_for<'a>(routes: &'a [Route], areas: &[&str], item_type: &str) -> Option<&'a Route> {
    let leads_here = |route: &&Route| {
        let typed = route.item_type.to_lowercase() == item_type.to_lowercase();
        let within = areas.iter().any(|area| is_within_area(area, &route.area));
        (within || route.area.is_empty()) && (route.item_type.is_empty() || typed)
    };
    // Of equal ones the first wins.
    let says = |route: &&Route| (route.area.len(), usize::from(!route.item_type.is_empty()));
    routes.iter().rev().filter(leads_here).max_by_key(says)
}

impl CodeBase for CodeBases {
    fn context(
        &self,
        item: CleanItem,
        verdict: Verdict,
        chosen: Vec<Chosen>,
    ) -> BoxFuture<'_, Result<CodeContext, CodeError>> {
        let root = self.root_for(&item);
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let how = How::of(&self.config);
        Box::pin(async move {
            let CodeSource { root, commit, outdated } = self.upstream.newest(&root).await;
            let place = root.clone();
            let built = bounded(WITHIN, move || {
                // Also if it was indexed before: a folder may disappear during a long run.
                if !root.is_dir() {
                    return Err(CodeError::Missing(root));
                }
                let context =
                    |code: &Opened| context_for(code, &root, &item, &verdict, &chosen, &how);
                match with_code(&opened, &root, &cache, how.budget, context) {
                    Ok(None) => Err(CodeError::Empty(root)),
                    Ok(Some(context)) => Ok(context),
                    Err(error) => Err(CodeError::Unreadable { root, why: error.to_string() }),
                }
            });
            let built = built.await.map_err(|why| CodeError::Unreadable { root: place, why })??;
            Ok(CodeContext { commit, outdated, ..built })
        })
    }

    fn usable(&self) -> BoxFuture<'_, Result<(), CodeError>> {
        Box::pin(async move {
            let mut unusable = None;
            for root in self.roots() {
                let CodeSource { root, .. } = self.upstream.newest(&root).await;
                let at = root.clone();
                let found = bounded(WITHIN, move || (at.is_dir(), has_files(&at))).await;
                let error = match found {
                    // A slow disk is no proof that there is nothing.
                    Ok((true, true)) | Err(_) => return Ok(()),
                    Ok((true, false)) => CodeError::Empty(root),
                    Ok((false, _)) => CodeError::Missing(root),
                };
                unusable.get_or_insert(error);
            }
            unusable.map_or(Ok(()), Err)
        })
    }

    fn choices(&self, item: CleanItem, verdict: Verdict) -> BoxFuture<'_, Vec<Choice>> {
        let root = self.root_for(&item);
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let how = How::of(&self.config);
        Box::pin(async move {
            let root = self.upstream.newest(&root).await.root;
            let read = bounded(WITHIN, move || {
                let offered = |code: &Opened| choices_for(code, &item, &verdict, &how);
                let offered = with_code(&opened, &root, &cache, how.budget, offered);
                // The analysis reports what is wrong with the code base.
                offered.ok().flatten().unwrap_or_default()
            });
            read.await.unwrap_or_default()
        })
    }

    fn at_commit(
        &self,
        root: PathBuf,
        commit: Option<String>,
    ) -> BoxFuture<'_, Arc<dyn evidence::Code>> {
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let budget = self.config.repository.context_tokens;
        Box::pin(async move {
            let (at, id) = (root.clone(), commit.clone());
            let made = bounded(WITHIN, move || {
                let index = open(&opened, &at, &cache, budget).map_or(Words::None, Words::Shared);
                CommitCode::with(&at, id.as_deref(), index)
            });
            let made = made.await.unwrap_or_else(|why| {
                tracing::warn!(root = %root.display(), %why, "a finding is checked without the index");
                CommitCode::new(&root, commit.as_deref(), None)
            });
            let code: Arc<dyn evidence::Code> = Arc::new(made);
            code
        })
    }

    fn commit(&self, root: PathBuf, id: String) -> BoxFuture<'_, Option<KnownCommit>> {
        Box::pin(async move {
            bounded(WITHIN, move || known_commit(&root, &id)).await.unwrap_or_default()
        })
    }

    fn hints(&self, items: Vec<CleanItem>, now: Timestamp) -> BoxFuture<'_, CodeHints> {
        let mut by_root: HashMap<PathBuf, Vec<CleanItem>> = HashMap::new();
        for item in items {
            by_root.entry(self.root_for(&item)).or_default().push(item);
        }
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let how = How::of(&self.config);
        Box::pin(async move {
            let mut found = Vec::new();
            for (root, items) in by_root {
                found.push((self.upstream.newest(&root).await.root, items));
            }
            let hints = bounded(WITHIN, move || {
                let began = Instant::now();
                let in_time = |_: &_| began.elapsed() < HINTS_WITHIN;
                let found = found.iter().filter(|(root, _)| root.is_dir()).take_while(in_time);
                found
                    .flat_map(|(root, items)| hints_of(&opened, root, &cache, &how, (items, now)))
                    .collect()
            });
            hints.await.unwrap_or_default()
        })
    }

    fn overviews(&self, items: Vec<CleanItem>) -> BoxFuture<'_, Vec<String>> {
        let mut roots: Vec<PathBuf> = Vec::new();
        for root in items.iter().map(|item| self.root_for(item)) {
            if !roots.contains(&root) && roots.len() < MAX_OVERVIEWS {
                roots.push(root);
            }
        }
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let budget = self.config.repository.context_tokens;
        let upstream = &self.upstream;
        let overview_of = move |root: &PathBuf| match open(&opened, root, &cache, budget) {
            Ok(code) => Some(overview(&code.index, OVERVIEW_TOKENS)),
            Err(error) => {
                tracing::warn!(root = %root.display(), %error, "could not read the code base; triage runs without its overview");
                None
            }
        };
        Box::pin(async move {
            let mut newest = Vec::new();
            for root in roots {
                newest.push(upstream.newest(&root).await.root);
            }
            let overviews = bounded(WITHIN, move || {
                newest.iter().filter(|root| root.is_dir()).filter_map(overview_of).collect()
            });
            overviews.await.unwrap_or_default()
        })
    }
}

/// The hints of one code base, as far as the time suffices: they are worth a moment, not a run.
fn hints_of(
    opened: &Shared,
    root: &Path,
    cache: &Path,
    how: &How,
    (items, now): (&[CleanItem], Timestamp),
) -> CodeHints {
    let lately = Lately::read(root);
    let Ok(code) = open(opened, root, cache, how.budget) else { return CodeHints::new() };
    let began = Instant::now();
    let hint = |item: &CleanItem| {
        let ranked = match began.elapsed() < HINTS_WITHIN {
            true => rank(&code.index, &Query::of(&subject_of(item, None)), &how.weights, FILES),
            false => Ok(Vec::new()),
        };
        let files: Vec<String> =
            ranked.unwrap_or_default().into_iter().map(|file| file.path).collect();
        (item.facts.key.clone(), lately.hint(item, &files, now))
    };
    items.iter().map(hint).collect()
}

/// Read by git; anything but a hash is not a commit.
fn known_commit(root: &Path, id: &str) -> Option<KnownCommit> {
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) || !(7..=64).contains(&id.len()) {
        return None;
    }
    let bounds = Bounds { time: Duration::from_secs(10), output: 256 << 10 };
    let commit = format!("{id}^{{commit}}");
    let arguments = [
        "show",
        "--first-parent",
        "--name-only",
        "--no-renames",
        "--format=%s",
        "-z",
        &commit,
        "--",
    ];
    let text = String::from_utf8_lossy(&git::output(root, &arguments, bounds).ok()?).into_owned();
    let mut parts = text.split(['\0', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let title = parts.next()?.to_owned();
    Some(KnownCommit { title, files: parts.take(MAX_TOUCHED).map(str::to_owned).collect() })
}

type Shared = Mutex<HashMap<PathBuf, Arc<Opened>>>;

struct How {
    /// Tokens of context and overview together.
    budget: u32,
    weights: Weights,
}

impl How {
    fn of(config: &Config) -> Self {
        Self { budget: config.repository.context_tokens, weights: weights_of(&config.ranking) }
    }
}

/// What `question` finds in a code base; a damaged index is rebuilt once. `None`: there are no files.
fn with_code<T>(
    opened: &Shared,
    root: &Path,
    cache: &Path,
    budget: u32,
    question: impl Fn(&Opened) -> Result<T, ContextError>,
) -> Result<Option<T>, ContextError> {
    let code = open(opened, root, cache, budget)?;
    if code.index.files().is_empty() {
        return Ok(None);
    }
    let answer = match question(&code) {
        Err(ContextError::Damaged { reason }) => {
            tracing::warn!(root = %root.display(), reason, "rebuilding the code index");
            question(&*reopen(opened, root, cache, budget, &code)?)
        }
        other => other,
    };
    answer.map(Some)
}

/// The first caller builds; the others wait for it and share the result.
fn open(
    opened: &Shared,
    root: &Path,
    cache: &Path,
    budget: u32,
) -> Result<Arc<Opened>, ContextError> {
    let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = opened.get(root) {
        return Ok(Arc::clone(code));
    }
    let built = Index::open_or_build(root, cache, &Options::default())?;
    Ok(keep(&mut opened, root, built, budget))
}

/// Rebuilds a damaged index; the first caller that notices builds for all.
fn reopen(
    opened: &Shared,
    root: &Path,
    cache: &Path,
    budget: u32,
    damaged: &Arc<Opened>,
) -> Result<Arc<Opened>, ContextError> {
    let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = opened.get(root).filter(|code| !Arc::ptr_eq(code, damaged)) {
        return Ok(Arc::clone(code));
    }
    let built = Index::rebuild(root, cache, &Options::default())?;
    Ok(keep(&mut opened, root, built, budget))
}

fn keep(
    opened: &mut HashMap<PathBuf, Arc<Opened>>,
    root: &Path,
    (index, report): (Index, BuildReport),
    budget: u32,
) -> Arc<Opened> {
    let aside: Vec<String> =
        report.skipped.reasons().map(|(count, what)| format!("{count} {what}")).collect();
    tracing::info!(root = %root.display(), index = report.summary(), set_aside = aside.join(", "), "code base indexed");
    let overview = overview(&index, tokens(budget / OVERVIEW_SHARE));
    let code = Arc::new(Opened { index, overview });
    opened.insert(root.to_path_buf(), Arc::clone(&code));
    code
}

fn context_for(
    code: &Opened,
    root: &Path,
    item: &CleanItem,
    verdict: &Verdict,
    chosen: &[Chosen],
    how: &How,
) -> Result<CodeContext, ContextError> {
    let query = Query::of(&subject_of(item, Some(verdict)));
    let ranked = reorder(rank(&code.index, &query, &how.weights, RANKED)?, chosen);
    let room = tokens(how.budget - how.budget / OVERVIEW_SHARE);
    let packed = pack_chosen(&code.index, &query, &ranked, chosen, room)?;
    Ok(CodeContext {
        root: root.to_path_buf(),
        overview: code.overview.clone(),
        files: u32::try_from(packed.files.len()).unwrap_or(u32::MAX),
        tokens: packed.tokens as u64,
        context: packed.text,
        commit: None,
        outdated: None,
    })
}

fn choices_for(
    code: &Opened,
    item: &CleanItem,
    verdict: &Verdict,
    how: &How,
) -> Result<Vec<Choice>, ContextError> {
    let query = Query::of(&subject_of(item, Some(verdict)));
    let ranked = rank(&code.index, &query, &how.weights, RANKED)?;
    if is_confident(&ranked) { Ok(Vec::new()) } else { choices(&code.index, &query, &ranked) }
}

fn tokens(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The result of work on a code base, or the error.
///
/// Runs on a separate thread with a time limit. A walk can hang: on a file system that does not
/// respond, or because the machine has no more threads. A hung blocking task of the runtime would
/// block the run and then the shutdown; a hung separate thread ends with the process.
async fn bounded<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("code base".into())
        // After the time limit there is no receiver.
        .spawn(move || drop(done.send(work())))
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    match tokio::time::timeout(within, result).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err("reading it panicked (a bug); see the log for the location".into()),
        Err(_) => Err(format!("reading it took longer than {} s", within.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(area: &str, item_type: &str, path: &str) -> Route {
        Route { area: area.into(), item_type: item_type.into(), path: path.into() }
    }

    #[test]
    fn the_route_that_says_most_about_an_item_is_taken() {
        let routes = [
            route("Shop", "", "shop"),
            route("Shop\\Web", "", "web"),
            route("Shop\\Web", "Bug", "web-bugs"),
            route("", "Test Case", "tests"),
        ];
        for (area, item_type, path) in [
            ("Shop", "Bug", Some("shop")),
            ("shop\\cart", "Task", Some("shop")),
            ("Shopping", "Task", None),
            ("Shop\\Web\\Login", "Task", Some("web")),
            ("Shop\\Web", "bug", Some("web-bugs")),
            ("Other", "Test Case", Some("tests")),
            ("Shop", "Test Case", Some("shop")),
            ("", "Bug", None),
        ] {
            let found = route_for(&routes, &[area], item_type);
            assert_eq!(
                found.map(|route| route.path.as_path()),
                path.map(Path::new),
                "{area} {item_type}"
            );
        }
    }

    #[test]
    fn work_that_hangs_is_given_up_and_does_not_hold_up_the_shutdown() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (release, hung) = std::sync::mpsc::channel::<()>();
        let given_up = runtime.block_on(bounded(Duration::from_millis(10), move || hung.recv()));
        assert!(given_up.unwrap_err().contains("took longer"));
        // Blocks forever if the runtime waits for the thread, which is released only afterwards.
        drop(runtime);
        drop(release);
    }

    #[tokio::test]
    async fn work_that_ends_or_panics_is_reported() {
        assert_eq!(bounded(WITHIN, || 7).await, Ok(7));
        let panicked = bounded(WITHIN, || assert_eq!(1, 2)).await;
        assert!(panicked.unwrap_err().contains("panicked"));
    }
}
