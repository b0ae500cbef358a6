//! An in-memory environment for runs on a real state: tracker, sessions, code base and gate, all
//! scripted.

pub mod sessions;
mod tracker;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use heartbeat::clock::Clock;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::context::{Choice, Chosen, CodeBase, CodeContext, CodeError};
use heartbeat::event::{Reason, Trigger};
use heartbeat::evidence;
use heartbeat::model::{BoxFuture, CleanItem, LinkedItem, Outcome, RunId, Stage, Usd, Verdict};
use heartbeat::prompt::Prompts;
use heartbeat::run::{DryRun, Edges, FieldWriter, Publisher, RunContext, RunEnd, RunError};
use heartbeat::session::{Gate, StopHandle};
use heartbeat::settings::{AgentKind, Config};
use heartbeat::store::{Journal, Store, StoreError};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::broadcast::error::RecvError;

use sessions::ScriptedSessions;
use tracker::{Letterbox, Owners, Tracker};

/// An item in the tracker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracked {
    pub title: String,
    pub version: u32,
    pub rev: i64,
    pub open: bool,
    pub priority: i64,
    pub changed_at: Timestamp,
    /// Empty: nobody.
    pub owner: String,
    pub reporter: String,
}

/// What the next sessions do, in order; good ones when it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Play {
    Good,
    /// A failure caused by the item.
    Fails,
    /// A provider failure, at no cost.
    Outage,
    Limited,
    BadOutput,
    /// A finding about code that is not there.
    Invented,
    DiesBeforeRow,
    DiesWithRow,
    DiesAfterRow,
    /// Hangs until it is asked to stop.
    Hangs,
    /// Good, after this many seconds.
    Takes(u64),
    /// Used up its time and never reported a cost.
    Silent,
    /// Its keeper was ended from outside: nothing proves yet that it is over.
    LosesKeeper,
    /// Never started: no process could be created.
    NoKeeper,
    /// Every slot of this machine is in use.
    MachineFull,
    /// Our own code panics during the session.
    Panics,
    /// One of the ways in `sessions::endings`.
    Ends(usize),
}

/// What happens to a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Post {
    /// The tracker fails before it stores it.
    Fails,
    /// The tracker stores it, and its response is lost.
    AnswerLost,
    /// The credential may not write.
    Denied,
}

/// The bytes of an attached file, or why they cannot be read.
pub type AttachedBytes = Result<Vec<u8>, String>;

/// Everything outside heartbeat.
#[derive(Debug, Default)]
pub struct Outside {
    pub items: BTreeMap<i64, Tracked>,
    pub plays: VecDeque<Play>,
    /// This item always fails.
    pub cursed: Option<i64>,
    /// The provider fails every session of these stages.
    pub outage: Vec<Stage>,
    /// The providers of these agents fail every session.
    pub agents_down: Vec<AgentKind>,
    /// The agent of each session, in order.
    pub agents: Vec<AgentKind>,
    /// What happens to the next comments; stored when it is empty.
    pub deliveries: VecDeque<Post>,
    /// Pages until the tracker fails; `None`: never.
    pub pages_until_failure: Option<u32>,
    /// Every session with a row: stage, item, version, outcome.
    pub started: Vec<(Stage, i64, u32, Outcome)>,
    /// Sessions that hung until they were stopped.
    pub hanging: u32,
    /// Maximum number of open rows.
    pub most_live: u32,
    /// Seconds of the tracker's own clock, which is never set back.
    pub seconds: i64,
    pub crash: Option<tokio::sync::watch::Sender<bool>>,
    /// The item that is closed during the next deep session.
    pub closes_meanwhile: Option<i64>,
    /// Accepts every request and answers none.
    pub tracker_hangs: bool,
    /// Items per page; 0: three.
    pub page_size: usize,
    /// How many reads were started.
    pub opened: u32,
    /// What was written to items, by number and revision; `None`: findings are not written back.
    pub published: Option<Vec<(i64, i64)>>,
    /// The items whose owner was written, in order; `None`: no field is written.
    pub written: Option<Vec<i64>>,
    /// heartbeat dies at the next write of a field: before it (`false`) or after it (`true`).
    pub dies_at_write: Option<bool>,
    /// The code base; `None`: an existing folder.
    pub root: Option<PathBuf>,
    /// The item that the query no longer matches.
    pub out_of_query: Option<i64>,
    /// The item whose code base makes our own code panic.
    pub code_panics_for: Option<i64>,
    /// Describing the code bases for triage panics.
    pub overviews_panic: bool,
    /// Items that the query lists and reads do not deliver, with the number of such reads.
    pub undelivered: BTreeMap<i64, u32>,
    /// A file that every finding names.
    pub names_file: Option<String>,
    /// Items that triage marks as duplicates of others.
    pub duplicates: BTreeMap<i64, i64>,
    /// Attached files of items: name, and bytes or why they cannot be read.
    pub attached: BTreeMap<i64, Vec<(String, AttachedBytes)>>,
    /// Linked items.
    pub linked: BTreeMap<i64, Vec<LinkedItem>>,
    /// How often the names of attached files were requested.
    pub names_asked: u32,
    /// The candidate files of every item.
    pub candidates: Vec<String>,
    /// What the locate step answers; `None`: the last candidate of each item first.
    pub located: Option<serde_json::Value>,
    /// The files that were put first for each analysis.
    pub chosen: BTreeMap<i64, Vec<String>>,
    /// Files that the findings of single items name.
    pub names_files: BTreeMap<i64, Vec<String>>,
    /// The agent's program: every session ends like this, without a token and with these words.
    pub broken_agent: Option<(Outcome, &'static str)>,
    /// Sessions with one of these items in their prompt end like this.
    pub poison: BTreeMap<i64, Outcome>,
    /// Triage gives no verdict on this item.
    pub left_out: Option<i64>,
    /// How analyses end, whatever their item is.
    pub deep_ends: Option<Outcome>,
    /// The items of each triage session, in order.
    pub triaged: Vec<Vec<i64>>,
    /// The model of each probe, in order.
    pub probed: Vec<String>,
    /// There is no way to the provider, for this reason.
    pub unreachable: Option<&'static str>,
    /// How often somebody asked whether there is one.
    pub greeted: u32,
    /// What the provider served to each session and will put on its invoice, in micro-dollars.
    pub served: BTreeMap<String, i64>,
    /// The model that answers analyses instead of the configured one.
    pub fell_back_to: Option<String>,
    /// The provider fails this share of all sessions, in percent, by a fixed sequence.
    pub brown_out: Option<(u64, u64)>,
    /// Every answer is empty, although the items are there.
    pub answers_empty: bool,
    /// Items that reads of many leave out, although they are there.
    pub unlisted: Vec<i64>,
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
    /// The trackers of sources that have their own.
    pub others: BTreeMap<String, Arc<Mutex<Outside>>>,
    pub clock: Clock,
    pub state: PathBuf,
    pub config: Arc<Config>,
    /// Stops every run of this environment.
    pub stop: StopHandle,
}

pub fn config(change: impl FnOnce(&mut Config)) -> Arc<Config> {
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.source.write_back = true;
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
        let (state, stop) = (folder.join("state"), StopHandle::new());
        Self { outside: Arc::default(), others: BTreeMap::new(), clock, state, config, stop }
    }

    pub fn add(&self, id: i64, version: u32, priority: i64) {
        self.add_to("", id, version, priority);
    }

    /// Adds an item to the tracker of this source.
    pub fn add_to(&self, source: &str, id: i64, version: u32, priority: i64) {
        let outside = self.others.get(source).unwrap_or(&self.outside);
        let mut outside = outside.lock().unwrap();
        let changed_at = outside.tick();
        let title = format!("Item {id}");
        let (owner, reporter) = (String::new(), String::new());
        let item =
            Tracked { title, version, rev: 1, open: true, priority, changed_at, owner, reporter };
        outside.items.insert(id, item);
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

    /// One run, until it ends or crashes; `None` if it crashed.
    pub async fn run(&self, trigger: Trigger) -> Result<Option<RunEnd>, StoreError> {
        let (crash, mut crashed) = tokio::sync::watch::channel(false);
        self.outside.lock().unwrap().crash = Some(crash);
        let id = RunId(uuid::Uuid::now_v7());
        let journal = self.journal(Some(id))?;
        let mut last_words = journal.follow();
        let run = self.prepare(trigger, id, journal);
        let performed = tokio::select! {
            ended = heartbeat::run::perform(&run) => ended.map(Some),
            _ = crashed.wait_for(|crashed| *crashed) => Ok(None),
        };
        drop(run);
        // What a dead process was storing is stored or not; none of its threads store it later.
        while !matches!(last_words.recv().await, Err(RecvError::Closed)) {}
        self.clock.advance_ms(1000);
        performed
    }

    /// What a run would do.
    pub async fn dry_run(&self) -> Result<DryRun, RunError> {
        let id = RunId(uuid::Uuid::now_v7());
        heartbeat::run::dry_run(&self.prepare(Trigger::Manual, id, self.journal(None)?)).await
    }

    fn journal(&self, log: Option<RunId>) -> Result<Journal, StoreError> {
        Journal::open(Store::open(&self.state)?, self.clock.clone(), log)
    }

    fn prepare(&self, trigger: Trigger, id: RunId, journal: Journal) -> RunContext {
        let prompts = Prompts::load(&self.config, |path| std::fs::read_to_string(path)).unwrap();
        let sessions = ScriptedSessions { world: self.clone(), journal: journal.clone() };
        let edges = Edges {
            trackers: self.trackers(),
            sessions: Arc::new(sessions),
            code: Arc::new(Code(Arc::clone(&self.outside))),
            gate: Arc::new(OpenGate),
            secrets: Arc::new(heartbeat::settings::HeldSecrets::default()),
        };
        let (config, prompts) = (Arc::clone(&self.config), Arc::new(prompts));
        RunContext::new(id, trigger, config, prompts, journal, edges, self.stop.clone())
    }

    /// One for each configured source; the first reads from `outside`.
    fn trackers(&self) -> Arc<[heartbeat::run::Tracker]> {
        let one = |source: &heartbeat::settings::Source| {
            let outside = self.others.get(&source.name).unwrap_or(&self.outside);
            let publishes = outside.lock().unwrap().published.is_some();
            let writes = outside.lock().unwrap().written.is_some();
            let publisher = || Arc::new(Letterbox(Arc::clone(outside))) as Arc<dyn Publisher>;
            heartbeat::run::Tracker {
                name: source.name.clone(),
                source: Arc::new(Tracker(source.name.clone(), Arc::clone(outside))),
                publisher: publishes.then(publisher),
                writer: writes
                    .then(|| Arc::new(Owners(Arc::clone(outside))) as Arc<dyn FieldWriter>),
            }
        };
        self.config.sources().iter().map(one).collect()
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

/// A mark in the texts, so that the scripted sessions know what they were asked about.
fn mark(id: i64, version: u32) -> String {
    format!("mark {id} version {version} end")
}

/// Every (item, version) in a prompt.
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

/// The line that findings cite.
pub const CITED: &str = "the_cause(is_here);";

struct Code(Arc<Mutex<Outside>>);

impl CodeBase for Code {
    fn context(
        &self,
        item: CleanItem,
        _: Verdict,
        chosen: Vec<Chosen>,
    ) -> BoxFuture<'_, Result<CodeContext, CodeError>> {
        let chosen = chosen.into_iter().map(|file| file.path).collect();
        self.0.lock().unwrap().chosen.insert(item.facts.id.0, chosen);
        let panics = self.0.lock().unwrap().code_panics_for == Some(item.facts.id.0);
        assert!(!panics, "a bug in the code that builds contexts");
        let root = self.0.lock().unwrap().root.clone().unwrap_or_else(std::env::temp_dir);
        if !root.is_dir() {
            return Box::pin(async move { Err(CodeError::Missing(root)) });
        }
        let context = CodeContext {
            root,
            code_bases: Vec::new(),
            overview: String::new(),
            context: String::new(),
            files: 0,
            tokens: 0,
            commit: None,
            outdated: None,
        };
        Box::pin(async move { Ok(context) })
    }

    fn choices(&self, _: CleanItem, _: Verdict) -> BoxFuture<'_, Vec<Choice>> {
        let paths = self.0.lock().unwrap().candidates.clone();
        let choice = |path| Choice { path, about: "9 lines".into() };
        Box::pin(async move { paths.into_iter().map(choice).collect() })
    }

    fn at_commit(&self, _: PathBuf, _: Option<String>) -> BoxFuture<'_, Arc<dyn evidence::Code>> {
        Box::pin(async {
            let code: Arc<dyn evidence::Code> = Arc::new(OneLine);
            code
        })
    }

    fn overviews(&self, _: Vec<CleanItem>) -> BoxFuture<'_, Vec<String>> {
        let panics = self.0.lock().unwrap().overviews_panic;
        assert!(!panics, "a bug in the code that describes code bases");
        Box::pin(async { Vec::new() })
    }
}

/// Every file has the line that findings cite.
struct OneLine;

impl evidence::Code for OneLine {
    fn commit(&self) -> Option<&str> {
        None
    }

    fn file(&self, path: &str) -> evidence::File {
        // The name of a test is none of a file.
        match path.contains("invented") || !path.contains('.') {
            true => evidence::File::Missing,
            false => evidence::File::of(CITED.as_bytes()),
        }
    }

    fn knows(&self, name: &str) -> Option<bool> {
        Some(CITED.contains(name))
    }

    fn files_with(&self, _: &[&str], _: usize) -> Vec<String> {
        Vec::new()
    }

    fn has_file_named(&self, _: &str) -> bool {
        true
    }
}

struct OpenGate;

impl Gate for OpenGate {
    fn admit(&self) -> BoxFuture<'_, Result<(), (Reason, String)>> {
        Box::pin(async { Ok(()) })
    }
}
