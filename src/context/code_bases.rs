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
use crate::model::{AnalysedCode, BoxFuture, CleanItem, Verdict, is_within_area};
use crate::settings::{Config, MAX_CODE_BASES, RepositorySettings, RouteSettings, code_base_name};
use code_context::git::{self, Bounds};
use code_context::{
    BuildReport, Choice, Chosen, ContextError, Index, Options, Part, Query, Weights, choices_of,
    is_confident, overview, pack_all, rank, rank_all, reorder,
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
    /// The working directory of the session.
    pub root: PathBuf,
    /// Of an item with several code bases, those that matter, beginning with that of `root`. Paths
    /// then begin with the name of their code base.
    pub code_bases: Vec<AnalysedCode>,
    /// An overview, the same for all items.
    pub overview: String,
    /// The places that matter for this item.
    pub context: String,
    /// Number of files named in it.
    pub files: u32,
    /// Estimated.
    pub tokens: u64,
    /// The commit of `root` that is analysed; `None` without a git history.
    pub commit: Option<CodeCommit>,
    /// Why the code may not be the remote's newest.
    pub outdated: Option<String>,
}

impl CodeContext {
    /// The folders of all its code bases.
    pub fn roots(&self) -> Vec<PathBuf> {
        match self.code_bases.as_slice() {
            [] => vec![self.root.clone()],
            several => several.iter().map(|code| code.root.clone()).collect(),
        }
    }

    /// Without any context of the code in `root`.
    pub fn empty(root: PathBuf) -> Self {
        let (overview, context) = (String::new(), String::new());
        let code_bases = Vec::new();
        Self {
            root,
            code_bases,
            overview,
            context,
            files: 0,
            tokens: 0,
            commit: None,
            outdated: None,
        }
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

    /// The names of an item's code bases; empty if it has only one.
    fn names(&self, _item: &CleanItem) -> Vec<String> {
        Vec::new()
    }

    /// A short overview of each code base that these items belong to; unreadable ones are omitted.
    fn overviews(&self, _items: Vec<CleanItem>) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async { Vec::new() })
    }

    /// The same for several code bases.
    fn at_commits(&self, of: Vec<AnalysedCode>) -> BoxFuture<'_, Arc<dyn evidence::Code>> {
        Box::pin(async move {
            let mut all = Vec::new();
            for code_base in of {
                let (root, commit) = (code_base.root.clone(), code_base.commit.clone());
                all.push((code_base, self.at_commit(root, commit).await));
            }
            let code: Arc<dyn evidence::Code> = Arc::new(evidence::Several::new(all));
            code
        })
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
        roots.extend(routes.into_iter().flatten().flat_map(|route| route.paths().cloned()));
        roots.retain(|root| !root.as_os_str().is_empty());
        roots
    }

    fn roots_for(&self, item: &CleanItem) -> Vec<NamedRoot> {
        let areas: Vec<&str> = item.facts.areas().collect();
        let source = item.facts.key.source();
        code_bases_of(&self.config, source, &areas, &item.facts.item_type)
    }

    /// Those of them that matter by triage's word, with the code to read.
    async fn newest_of(&self, item: &CleanItem, verdict: &Verdict) -> Vec<(String, CodeSource)> {
        let mut roots = self.roots_for(item);
        let matters = |root: &NamedRoot| verdict.code_bases.contains(&root.name);
        if roots.iter().any(matters) {
            roots.retain(matters);
        }
        let mut newest = Vec::new();
        for NamedRoot { name, root } in roots {
            newest.push((name, self.upstream.newest(&root).await));
        }
        newest
    }
}

/// A code base of an item; without a name if it is the only one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRoot {
    pub name: String,
    pub root: PathBuf,
}

impl NamedRoot {
    fn part(&self) -> AnalysedCode {
        AnalysedCode { name: self.name.clone(), commit: None, root: PathBuf::new() }
    }

    /// A path of this code base as a finding names it.
    pub fn full(&self, path: &str) -> String {
        if self.name.is_empty() { path.to_owned() } else { self.part().full(path) }
    }

    /// The path in this code base; `None` for one of another.
    pub fn own<'p>(&self, full: &'p str) -> Option<&'p str> {
        if self.name.is_empty() { Some(full) } else { self.part().own(full) }
    }
}

/// The code bases for items of this source, areas and type: by a route of the source, then the
/// source's own, then the same for `[repository]`.
pub fn code_bases_of(
    config: &Config,
    source: &str,
    areas: &[&str],
    item_type: &str,
) -> Vec<NamedRoot> {
    let (path, also) = led_to(config, source, areas, item_type);
    if also.is_empty() {
        return vec![NamedRoot { name: String::new(), root: path.to_owned() }];
    }
    let named = |path: &PathBuf| NamedRoot { name: code_base_name(path), root: path.clone() };
    std::iter::once(path).chain(also).map(named).collect()
}

/// The first of them.
pub fn code_base_of<'a>(
    config: &'a Config,
    source: &str,
    areas: &[&str],
    item_type: &str,
) -> &'a Path {
    led_to(config, source, areas, item_type).0
}

fn led_to<'a>(
    config: &'a Config,
    source: &str,
    areas: &[&str],
    item_type: &str,
) -> (&'a PathBuf, &'a [PathBuf]) {
    let led = |routes: &'a [RouteSettings]| {
        let route = route_for(routes, areas, item_type)?;
        Some((&route.path, route.also.as_slice()))
    };
    let alone = |path: &'a PathBuf| (path, &[] as &[PathBuf]);
    let own = config.source_named(source).and_then(|source| {
        let own = Some(&source.repository).filter(|path| !path.as_os_str().is_empty());
        led(&source.routes).or(own.map(alone))
    });
    let RepositorySettings { path, routes, .. } = &config.repository;
    own.or_else(|| led(routes)).unwrap_or_else(|| alone(path))
}

/// The most specific route: the longest area path, then the one that names the type.
fn route_for<'a>(
    routes: &'a [RouteSettings],
    areas: &[&str],
    item_type: &str,
) -> Option<&'a RouteSettings> {
    let leads_here = |route: &&RouteSettings| {
        let typed = route.item_type.to_lowercase() == item_type.to_lowercase();
        let within = areas.iter().any(|area| is_within_area(area, &route.area));
        (within || route.area.is_empty()) && (route.item_type.is_empty() || typed)
    };
    // Of equal ones the first wins.
    let says =
        |route: &&RouteSettings| (route.area.len(), usize::from(!route.item_type.is_empty()));
    routes.iter().rev().filter(leads_here).max_by_key(says)
}

impl CodeBase for CodeBases {
    fn context(
        &self,
        item: CleanItem,
        verdict: Verdict,
        chosen: Vec<Chosen>,
    ) -> BoxFuture<'_, Result<CodeContext, CodeError>> {
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let how = How::of(&self.config);
        Box::pin(async move {
            let newest = self.newest_of(&item, &verdict).await;
            let places = places_of(&newest);
            let place = places.first().map(|(_, root)| root.clone()).unwrap_or_default();
            let built = bounded(WITHIN, move || {
                // Also if it was indexed before: a folder may disappear during a long run.
                if let Some((_, root)) = places.iter().find(|(_, root)| !root.is_dir()) {
                    return Err(CodeError::Missing(root.clone()));
                }
                let context = |code: &[(&str, &Opened)]| {
                    context_for(code, &places[0].1, &item, &verdict, &chosen, &how)
                };
                with_code(&opened, &places, &cache, how.budget, context)
            });
            let unreadable = |why| CodeError::Unreadable { root: place.clone(), why };
            let built = match built.await.map_err(unreadable).flatten() {
                // The session still has to know the folders of all of them.
                Err(CodeError::Unreadable { root, why }) if newest.len() > 1 => {
                    tracing::error!(root = %root.display(), %why, "could not build the code context; the analysis continues without it");
                    CodeContext::empty(place)
                }
                built => built?,
            };
            let outdated: Vec<String> =
                newest.iter().filter_map(|(_, source)| source.outdated.clone()).collect();
            let analysed = |(name, source): &(String, CodeSource)| AnalysedCode {
                name: name.clone(),
                commit: source.commit.as_ref().map(|commit| commit.id.clone()),
                root: source.root.clone(),
            };
            let named = newest.iter().filter(|(name, _)| !name.is_empty());
            Ok(CodeContext {
                code_bases: named.map(analysed).collect(),
                outdated: (!outdated.is_empty()).then(|| outdated.join("; ")),
                commit: newest.into_iter().next().and_then(|(_, source)| source.commit),
                ..built
            })
        })
    }

    fn names(&self, item: &CleanItem) -> Vec<String> {
        let names = self.roots_for(item).into_iter().map(|root| root.name);
        names.filter(|name| !name.is_empty()).collect()
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
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let how = How::of(&self.config);
        Box::pin(async move {
            let places = places_of(&self.newest_of(&item, &verdict).await);
            let read = bounded(WITHIN, move || {
                let offered = |code: &[(&str, &Opened)]| choices_for(code, &item, &verdict, &how);
                // The analysis reports what is wrong with the code base.
                with_code(&opened, &places, &cache, how.budget, offered).unwrap_or_default()
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
            for NamedRoot { root, .. } in self.roots_for(&item) {
                by_root.entry(root).or_default().push(item.clone());
            }
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
                let mut hints = CodeHints::new();
                for (root, items) in found {
                    for (key, hint) in hints_of(&opened, root, &cache, &how, (items, now)) {
                        // An item with several code bases has a hint of each.
                        hints.entry(key).or_default().add(hint);
                    }
                }
                hints
            });
            hints.await.unwrap_or_default()
        })
    }

    fn overviews(&self, items: Vec<CleanItem>) -> BoxFuture<'_, Vec<String>> {
        let mut roots: Vec<NamedRoot> = Vec::new();
        for root in items.iter().flat_map(|item| self.roots_for(item)) {
            // Which of several matter cannot be told without a picture of each.
            let most = if root.name.is_empty() { MAX_OVERVIEWS } else { MAX_CODE_BASES };
            if !roots.contains(&root) && roots.len() < most {
                roots.push(root);
            }
        }
        let room = OVERVIEW_TOKENS * MAX_OVERVIEWS / roots.len().max(MAX_OVERVIEWS);
        let (cache, opened) = (self.cache.clone(), Arc::clone(&self.opened));
        let budget = self.config.repository.context_tokens;
        let upstream = &self.upstream;
        let overview_of = move |(name, root): &(String, PathBuf)| match open(
            &opened, root, &cache, budget,
        ) {
            Ok(code) => Some(titled(name, &overview(&code.index, room))),
            Err(error) => {
                tracing::warn!(root = %root.display(), %error, "could not read the code base; triage runs without its overview");
                None
            }
        };
        Box::pin(async move {
            let mut newest = Vec::new();
            for NamedRoot { name, root } in roots {
                newest.push((name, upstream.newest(&root).await.root));
            }
            let overviews = bounded(WITHIN, move || {
                newest.iter().filter(|(_, root)| root.is_dir()).filter_map(overview_of).collect()
            });
            overviews.await.unwrap_or_default()
        })
    }
}

/// The hints of one code base, as far as the time suffices: they are worth a moment, not a run.
fn hints_of(
    opened: &OpenedIndexes,
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

type OpenedIndexes = Mutex<HashMap<PathBuf, Arc<Opened>>>;

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

/// Name and folder of each.
fn places_of(newest: &[(String, CodeSource)]) -> Vec<(String, PathBuf)> {
    newest.iter().map(|(name, source)| (name.clone(), source.root.clone())).collect()
}

/// An overview under the name of its code base, if that is one of several.
fn titled(name: &str, overview: &str) -> String {
    if name.is_empty() { overview.to_owned() } else { format!("# {name}\n{overview}") }
}

/// What `question` finds in these code bases; damaged indexes are rebuilt once.
fn with_code<T>(
    opened: &OpenedIndexes,
    places: &[(String, PathBuf)],
    cache: &Path,
    budget: u32,
    question: impl Fn(&[(&str, &Opened)]) -> Result<T, ContextError>,
) -> Result<T, CodeError> {
    let unreadable = |root: &Path, error: &ContextError| CodeError::Unreadable {
        root: root.to_owned(),
        why: error.to_string(),
    };
    let mut codes = Vec::new();
    for (_, root) in places {
        let code = open(opened, root, cache, budget).map_err(|error| unreadable(root, &error))?;
        if code.index.files().is_empty() {
            return Err(CodeError::Empty(root.clone()));
        }
        codes.push(code);
    }
    let ask = |codes: &[Arc<Opened>]| {
        let named = places.iter().zip(codes).map(|((name, _), code)| (name.as_str(), &**code));
        question(&named.collect::<Vec<_>>())
    };
    let first = places.first().map(|(_, root)| root.as_path()).unwrap_or(Path::new(""));
    let answer = match ask(&codes) {
        Err(ContextError::Damaged { reason }) => {
            let mut rebuilt = Vec::new();
            for ((_, root), code) in places.iter().zip(&codes) {
                tracing::warn!(root = %root.display(), reason, "rebuilding the code index");
                let again = reopen(opened, root, cache, budget, code);
                rebuilt.push(again.map_err(|error| unreadable(root, &error))?);
            }
            ask(&rebuilt)
        }
        other => other,
    };
    answer.map_err(|error| unreadable(first, &error))
}

/// The first caller builds; the others wait for it and share the result.
fn open(
    opened: &OpenedIndexes,
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
    opened: &OpenedIndexes,
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
    code: &[(&str, &Opened)],
    root: &Path,
    item: &CleanItem,
    verdict: &Verdict,
    chosen: &[Chosen],
    how: &How,
) -> Result<CodeContext, ContextError> {
    let query = Query::of(&subject_of(item, Some(verdict)));
    let parts = parts_of(code);
    let ranked = reorder(rank_all(&parts, &query, &how.weights, RANKED)?, chosen);
    let room = tokens(how.budget - how.budget / OVERVIEW_SHARE);
    let packed = pack_all(&parts, &query, &ranked, chosen, room)?;
    let share = tokens(how.budget / OVERVIEW_SHARE) / code.len().max(1);
    let overview = match code {
        [(_, only)] => only.overview.clone(),
        several => {
            let one = |(name, code): &(&str, &Opened)| titled(name, &overview(&code.index, share));
            several.iter().map(one).collect::<Vec<_>>().join("\n")
        }
    };
    Ok(CodeContext {
        root: root.to_path_buf(),
        code_bases: Vec::new(),
        overview,
        files: u32::try_from(packed.files.len()).unwrap_or(u32::MAX),
        tokens: packed.tokens as u64,
        context: packed.text,
        commit: None,
        outdated: None,
    })
}

fn parts_of<'a>(code: &'a [(&'a str, &'a Opened)]) -> Vec<Part<'a>> {
    code.iter().map(|(name, code)| Part { name, index: &code.index }).collect()
}

fn choices_for(
    code: &[(&str, &Opened)],
    item: &CleanItem,
    verdict: &Verdict,
    how: &How,
) -> Result<Vec<Choice>, ContextError> {
    let query = Query::of(&subject_of(item, Some(verdict)));
    let parts = parts_of(code);
    let ranked = rank_all(&parts, &query, &how.weights, RANKED)?;
    if is_confident(&ranked) { Ok(Vec::new()) } else { choices_of(&parts, &query, &ranked) }
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

    fn route(area: &str, item_type: &str, path: &str) -> RouteSettings {
        let (area, item_type, path) = (area.into(), item_type.into(), path.into());
        RouteSettings { area, item_type, path, also: Vec::new() }
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
