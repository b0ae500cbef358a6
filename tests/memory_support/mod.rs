//! A world in memory for runs on a real state: tracker, sessions, code base and gate, all scripted.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use heartbeat::clock::Clock;
use heartbeat::config::{Config, DEFAULT_TOML};
use heartbeat::event::{Reason, Trigger};
use heartbeat::fetch::{Current, FailureClass, FetchError, FetchRequest, Page, Pages, Source};
use heartbeat::model::{
    BoxFuture, CleanItem, Confidence, Effort, FailureKind, Finding, Format, ItemId, ItemKey, Links,
    Outcome, Risk, RunId, Stage, TextField, Usage, Usd, Verdict, WorkItem,
};
use heartbeat::prompt::Prompts;
use heartbeat::run::{CodeBase, CodeContext, CodeError, Edges, Ended, Gate, Job, Run, Sessions};
use heartbeat::session::{
    Ledger, LedgerError, LedgerRow, ProcessIdentity, SessionEnd, StopHandle, StopSignal,
};
use heartbeat::store::{Journal, Store, StoreError};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// An item as the tracker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    pub version: u32,
    pub rev: i64,
    pub open: bool,
    pub priority: i64,
    pub changed_at: Timestamp,
}

/// What the next sessions do, first one first; good ones when it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Play {
    Good,
    Fails,
    Limited,
    BadOutput,
    DiesBeforeRow,
    DiesWithRow,
    DiesAfterRow,
    /// Until it is asked to stop.
    Hangs,
}

/// Everything outside heartbeat.
#[derive(Debug, Default)]
pub struct Outside {
    pub items: BTreeMap<i64, Tracked>,
    pub plays: VecDeque<Play>,
    /// Always fails, whatever is played.
    pub cursed: Option<i64>,
    /// Pages until the tracker fails; none: never.
    pub pages_until_failure: Option<u32>,
    /// Every session that got a row: stage, item, version, how it ended.
    pub started: Vec<(Stage, i64, u32, Outcome)>,
    /// Most rows ever open at once.
    pub most_live: u32,
    /// Seconds since the tracker's own clock began: nobody sets that one back.
    pub seconds: i64,
    pub crash: Option<tokio::sync::watch::Sender<bool>>,
    /// The item that is closed while the next deep session runs.
    pub closes_meanwhile: Option<i64>,
}

impl Outside {
    fn tick(&mut self) -> Timestamp {
        self.seconds += 1;
        let begin: Timestamp = "2026-11-16T07:00:00Z".parse().unwrap();
        begin + SignedDuration::from_secs(self.seconds)
    }
}

#[derive(Clone)]
pub struct World {
    pub outside: Arc<Mutex<Outside>>,
    pub clock: Clock,
    pub state: PathBuf,
    pub config: Arc<Config>,
}

pub fn config(change: impl FnOnce(&mut Config)) -> Arc<Config> {
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.limits.max_items_per_run = 100;
    config.limits.max_deep_per_run = 100;
    config.budget.per_run = Usd::from_dollars(100.0);
    config.budget.per_day = Usd::from_dollars(1000.0);
    config.repository.path = std::env::temp_dir();
    config.limits.admission_wait = std::time::Duration::ZERO;
    change(&mut config);
    Arc::new(config)
}

impl World {
    pub fn new(folder: &Path, config: Arc<Config>) -> Self {
        let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
        Self { outside: Arc::default(), clock, state: folder.join("state"), config }
    }

    pub fn add(&self, id: i64, version: u32, priority: i64) {
        let mut outside = self.outside.lock().unwrap();
        let changed_at = outside.tick();
        outside.items.insert(id, Tracked { version, rev: 1, open: true, priority, changed_at });
    }

    pub fn edit(&self, id: i64, change: impl FnOnce(&mut Tracked)) {
        let mut outside = self.outside.lock().unwrap();
        let changed_at = outside.tick();
        if let Some(item) = outside.items.get_mut(&id) {
            change(item);
            item.rev += 1;
            item.changed_at = changed_at;
        }
    }

    /// One run, until it ends or the world crashes; none: it crashed.
    pub async fn run(&self, trigger: Trigger) -> Result<Option<Ended>, StoreError> {
        let (crash, mut crashed) = tokio::sync::watch::channel(false);
        self.outside.lock().unwrap().crash = Some(crash);
        let id = RunId(uuid::Uuid::now_v7());
        let journal = Journal::open(Store::open(&self.state)?, self.clock.clone(), Some(id))?;
        let prompts = Prompts::load(&self.config, |path| std::fs::read_to_string(path)).unwrap();
        let sessions = ScriptedSessions { world: self.clone(), journal: journal.clone() };
        let edges = Edges {
            publisher: None,
            secrets: Arc::new(heartbeat::config::HeldSecrets::default()),
            source: Arc::new(Tracker(Arc::clone(&self.outside))),
            sessions: Arc::new(sessions),
            code: Arc::new(NoCode),
            gate: Arc::new(OpenGate),
        };
        let (config, prompts) = (Arc::clone(&self.config), Arc::new(prompts));
        let run = Run::new(id, trigger, config, prompts, journal, edges, StopHandle::new());
        let performed = tokio::select! {
            ended = run.perform() => ended.map(Some),
            _ = crashed.wait_for(|crashed| *crashed) => Ok(None),
        };
        self.clock.advance_ms(1000);
        performed
    }

    pub fn open_database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.state.join("heartbeat.db")).unwrap()
    }

    /// Phase, reason and attempts of an item.
    pub fn row(&self, id: i64) -> Option<(String, String, u32)> {
        self.open_database()
            .query_row(
                "SELECT phase, reason, attempts FROM heartbeat_state WHERE item_id = ?1",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .ok()
    }

    pub fn count(&self, sql: &str) -> i64 {
        self.open_database().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// What stands in the texts, so that the scripted sessions know what they were asked about.
fn mark(id: i64, version: u32) -> String {
    format!("mark {id} version {version} end")
}

/// Every (item, version) that a prompt speaks of.
fn marks(prompt: &str) -> Vec<(i64, u32)> {
    let read = |part: &str| {
        let words: Vec<&str> = part.split_whitespace().take(3).collect();
        match words[..] {
            [id, "version", version] => Some((id.parse().ok()?, version.parse().ok()?)),
            _ => None,
        }
    };
    let mut found: Vec<_> = prompt.split("mark ").skip(1).filter_map(read).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Every third version needs no deep analysis.
pub const fn is_deep(version: u32) -> bool {
    !version.is_multiple_of(3)
}

struct Tracker(Arc<Mutex<Outside>>);

fn work_item(id: i64, tracked: &Tracked) -> WorkItem {
    WorkItem {
        key: ItemKey::new("ado", ItemId(id)),
        id: ItemId(id),
        rev: tracked.rev,
        item_type: "Bug".into(),
        title: format!("Item {id}"),
        state: if tracked.open { "Active" } else { "Closed" }.into(),
        changed_at: tracked.changed_at,
        created_at: None,
        priority: Some(tracked.priority),
        severity: None,
        area_path: None,
        iteration_path: None,
        assigned_to: None,
        tags: vec![format!("rev {}", tracked.rev)],
        parent: None,
        links: Links::default(),
        url: format!("https://example.test/{id}"),
        texts: vec![TextField {
            name: "System.Description".into(),
            format: Format::Plain,
            raw: mark(id, tracked.version),
        }],
        comments: Vec::new(),
    }
}

impl Source for Tracker {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        let mut outside = self.0.lock().unwrap();
        let wanted = |id: i64, item: &Tracked| {
            request.changed_since.is_none_or(|since| item.changed_at >= since)
                || request.also.contains(&ItemId(id))
        };
        let mut items: Vec<WorkItem> = outside
            .items
            .iter()
            .filter(|(id, item)| wanted(**id, item))
            .map(|(id, item)| work_item(*id, item))
            .collect();
        items.sort_by_key(|item| item.changed_at);
        let gone = |id: &&ItemId| !outside.items.contains_key(&id.0);
        let vanished: Vec<ItemId> = request.also.iter().filter(gone).copied().collect();
        let mut pages: VecDeque<Page> = items
            .chunks(3)
            .map(|items| Page {
                items: items.to_vec(),
                vanished: Vec::new(),
                cursor: items.iter().map(|item| item.changed_at).max(),
            })
            .collect();
        pages.push_back(Page { vanished, ..Page::default() });
        let until_failure = outside.pages_until_failure.take();
        Box::pin(async move { Ok(Box::new(Scripted { pages, until_failure }) as Box<dyn Pages>) })
    }

    fn current(&self, ids: Vec<ItemId>) -> BoxFuture<'_, Result<Option<Vec<Current>>, FetchError>> {
        let outside = self.0.lock().unwrap();
        let current = ids
            .into_iter()
            .filter_map(|id| outside.items.get(&id.0).map(|item| (id, item)))
            .map(|(id, item)| {
                let item = work_item(id.0, item);
                Current { id, rev: item.rev, state: item.state }
            })
            .collect();
        Box::pin(async move { Ok(Some(current)) })
    }
}

struct Scripted {
    pages: VecDeque<Page>,
    until_failure: Option<u32>,
}

impl Pages for Scripted {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            if self.until_failure == Some(0) {
                return Err(FetchError::new(FailureClass::Transient, "the tracker went away"));
            }
            self.until_failure = self.until_failure.map(|pages| pages - 1);
            Ok(self.pages.pop_front())
        })
    }

    fn requests(&self) -> u64 {
        1
    }
}

struct ScriptedSessions {
    world: World,
    journal: Journal,
}

impl ScriptedSessions {
    fn die(&self) {
        if let Some(crash) = &self.world.outside.lock().unwrap().crash {
            crash.send_replace(true);
        }
    }

    fn row(&self, job: &Job) -> LedgerRow {
        let now = self.world.clock.now();
        LedgerRow {
            session: job.session,
            run: job.run,
            stage: job.stage,
            item: job.item.clone(),
            attempt: job.attempt,
            keeper: ProcessIdentity {
                pid: 1,
                start_time: 1,
                pidfd_inode: None,
                boot_id: "another".into(),
            },
            tier: "scripted".into(),
            cgroup: None,
            scratch: "/nowhere".into(),
            started_at: now,
            deadline_at: now + SignedDuration::from_mins(10),
        }
    }

    /// Notes the start of a session with a row; it is orphaned until it is told otherwise.
    fn note(&self, job: &Job, live: u32) -> usize {
        let mut outside = self.world.outside.lock().unwrap();
        outside.most_live = outside.most_live.max(live);
        let (id, version) = match job.stage {
            Stage::Triage => (0, 0),
            Stage::Deep => marks(&job.words.user)[0],
        };
        outside.started.push((job.stage, id, version, Outcome::Orphaned));
        outside.started.len() - 1
    }

    async fn perform_job(&self, job: Job, mut stop: StopSignal) -> Result<SessionEnd, LedgerError> {
        let (play, closes) = {
            let mut outside = self.world.outside.lock().unwrap();
            let play = outside.plays.pop_front().unwrap_or(Play::Good);
            let item = job.item.as_ref().and_then(ItemKey::item_id);
            let cursed = item.is_some_and(|id| outside.cursed == Some(id.0));
            let deep = job.stage == Stage::Deep;
            let closes = if deep { outside.closes_meanwhile.take() } else { None };
            (if cursed { Play::Fails } else { play }, closes)
        };
        if play == Play::DiesBeforeRow {
            self.die();
            return std::future::pending().await;
        }
        let max = self.world.config.limits.max_live_sessions;
        self.journal.register(self.row(&job), max).await?;
        let live = u32::try_from(self.journal.open_rows().await?.len()).unwrap();
        let noted = self.note(&job, live);
        if let Some(id) = closes {
            self.world.edit(id, |item| item.open = false);
        }
        tokio::task::yield_now().await;
        if play == Play::DiesWithRow {
            self.die();
            return std::future::pending().await;
        }
        let mut end = end_of(&job, play);
        if play == Play::Hangs {
            let known = stop.state();
            let asked = stop.changed(known).await.reason.unwrap();
            end = SessionEnd::without_words(Outcome::Cancelled { why: asked.kind() });
        }
        self.world.outside.lock().unwrap().started[noted].3 = end.outcome.clone();
        self.journal.close(job.session, end.clone()).await?;
        if play == Play::DiesAfterRow {
            self.die();
            return std::future::pending().await;
        }
        Ok(end)
    }
}

fn end_of(job: &Job, play: Play) -> SessionEnd {
    let cost = Usage { cost: Usd::from_dollars(0.01), ..Usage::default() };
    let outcome = match play {
        Play::Fails => Outcome::AgentError { why: FailureKind::ApiError },
        Play::Limited => Outcome::ProviderLimit { why: FailureKind::UsageLimit },
        _ => Outcome::Completed,
    };
    let output = match (play, job.stage) {
        (Play::BadOutput, _) => Some(json!({"nonsense": true})),
        (_, Stage::Triage) => Some(json!({"verdicts": verdicts(&job.words.user)})),
        (_, Stage::Deep) => Some(serde_json::to_value(finding()).unwrap()),
    };
    let output = output.filter(|_| outcome.is_success());
    SessionEnd { output, usage: cost, ..SessionEnd::without_words(outcome) }
}

fn verdicts(prompt: &str) -> Vec<Verdict> {
    let verdict = |(id, version)| Verdict {
        id: ItemId(id),
        complexity: heartbeat::model::Complexity::Simple,
        needs_deep_analysis: is_deep(version),
        modules: Vec::new(),
        reason: "It says so in its text.".into(),
        related: Vec::new(),
    };
    marks(prompt).into_iter().map(verdict).collect()
}

fn finding() -> Finding {
    Finding {
        summary: "The cause is known.".into(),
        likely_causes: vec!["A cause.".into()],
        files: Vec::new(),
        suggested_change: "Change it.".into(),
        risk: Risk::Low,
        effort: Effort::Small,
        confidence: Confidence::High,
        open_questions: Vec::new(),
    }
}

impl Sessions for ScriptedSessions {
    fn perform(
        &self,
        job: Job,
        stop: StopSignal,
    ) -> BoxFuture<'_, Result<SessionEnd, LedgerError>> {
        Box::pin(async move {
            if let Some(reason) = stop.state().reason {
                let outcome = Outcome::Cancelled { why: reason.kind() };
                return Ok(SessionEnd::without_words(outcome));
            }
            self.perform_job(job, stop).await
        })
    }

    fn resolve_orphans(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            for row in self.journal.open_rows().await? {
                let end = SessionEnd::without_words(Outcome::Orphaned);
                self.journal.close(row.session, end).await?;
            }
            Ok(())
        })
    }
}

struct NoCode;

impl CodeBase for NoCode {
    fn context(&self, _: CleanItem, _: Verdict) -> BoxFuture<'_, Result<CodeContext, CodeError>> {
        let context = CodeContext {
            root: std::env::temp_dir(),
            overview: String::new(),
            context: String::new(),
            files: 0,
            tokens: 0,
        };
        Box::pin(async move { Ok(context) })
    }
}

struct OpenGate;

impl Gate for OpenGate {
    fn admit(&self) -> BoxFuture<'_, Result<(), (Reason, String)>> {
        Box::pin(async { Ok(()) })
    }
}
