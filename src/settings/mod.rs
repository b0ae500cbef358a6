//! The configuration as plain values: one struct per section. `config/default.toml` documents every
//! field.
//!
//! Nothing here reads a file or the environment: [`crate::config`] loads and validates these
//! values.

mod agent;
mod fleet;
pub mod human;
mod rule;
mod secrets;
mod source;

pub use agent::{
    AgentAuth, AgentKind, AgentSettings, CodexSettings, CopilotProvider, CopilotSettings,
    CopilotWire, Price, stage_agent,
};
pub use fleet::{Fleet, FleetAccount, Mirror, WhenDown};
pub use rule::RuleSettings;
pub use secrets::{HeldSecrets, REMOVED, credential_in, is_credential_name};
pub use source::{Source, SourceAuth, SourceKind};
pub use supervisor::{Containment, Environment};

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Field, UnclearTextPolicy, Usd};

/// The whole configuration, validated. A run uses the one it started with throughout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file it was read from, if there was one.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// `[source]`: the only source, or the defaults for `[[sources]]`. Use [`Config::sources`] to
    /// get the effective sources.
    pub source: Source,
    /// `[[sources]]`, merged with the defaults; empty if there is only `[source]`.
    #[serde(default, rename = "sources", skip_serializing_if = "Vec::is_empty")]
    pub source_list: Vec<Source>,
    /// `[[rules]]`; the first match applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSettings>,
    pub schedule: ScheduleSettings,
    pub repository: RepositorySettings,
    pub ranking: Ranking,
    pub fixes: Fixes,
    pub agent: AgentSettings,
    pub codex: CodexSettings,
    pub copilot: CopilotSettings,
    pub triage: TriageSettings,
    pub suggest: Suggest,
    pub analyze: Analyze,
    pub limits: LimitsSettings,
    pub order: OrderSettings,
    pub timeouts: Timeouts,
    pub budget: BudgetSettings,
    pub dedupe: Dedupe,
    pub text: TextSettings,
    pub state: StateSettings,
    pub prompts: PromptsSettings,
    pub record: Record,
    pub http: HttpSettings,
    pub log: LogSettings,
    pub report: ReportSettings,
    pub verify: Verify,
    pub monitor: MonitorSettings,
    pub fleet: Fleet,
}

impl Config {
    /// The shortest time limit with which a run can read, triage and analyse one item if every
    /// session uses its full time.
    pub fn shortest_run(&self) -> Duration {
        let ending = self.timeouts.grace.saturating_add(self.timeouts.drain);
        let by_rules = self.rules.iter().filter_map(|rule| rule.timeout).max().unwrap_or_default();
        let analysis = self.analyze.timeout.max(by_rules);
        let waiting = self.wait_for_host().saturating_mul(2);
        [self.triage.timeout, ending, analysis, ending, waiting, Duration::from_mins(1)]
            .into_iter()
            .fold(Duration::ZERO, Duration::saturating_add)
    }

    /// What tells its default state folder from that of another configuration; `None` for the one
    /// in a folder called `heartbeat`, such as the user's.
    pub fn state_name(&self) -> Option<String> {
        let folder = || self.file.as_ref()?.parent()?.file_name()?.to_str().map(str::to_owned);
        let name = Some(self.state.name.clone()).filter(|name| !name.is_empty()).or_else(folder)?;
        let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-');
        let name: String = name.chars().map(|c| if plain(c) { c } else { '-' }).collect();
        Some(name).filter(|name| name != "heartbeat" && !name.starts_with('.'))
    }

    /// How long a session may wait for a host of the fleet; zero without a fleet.
    pub fn wait_for_host(&self) -> Duration {
        if self.fleet.is_on() { self.limits.admission_wait } else { Duration::ZERO }
    }
}

/// `[schedule]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSettings {
    pub cron: String,
    pub timezone: String,
    #[serde(with = "human::duration")]
    pub jitter: Duration,
    #[serde(with = "human::optional_duration")]
    pub catch_up: Option<Duration>,
    pub first_run: FirstRun,
}

/// What the first scheduled run does with existing items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstRun {
    /// Aborts and reports the backlog.
    Ask,
    /// Marks all existing items as seen.
    Baseline,
    /// Processes all of them.
    Process,
}

/// `[repository]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepositorySettings {
    pub path: PathBuf,
    /// Whether the remote's newest commit is fetched and analysed instead of the folder as it is.
    pub fetch: bool,
    /// The branch or tag to fetch; empty: the remote's default branch.
    #[serde(rename = "ref")]
    pub branch: String,
    #[serde(with = "human::duration")]
    pub fetch_timeout: Duration,
    pub routes: Vec<RouteSettings>,
    pub context_tokens: u32,
}

/// A code base for items below an area path, of a type, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub area: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub item_type: String,
    pub path: PathBuf,
    /// More code bases that such items may span.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<PathBuf>,
}

impl RouteSettings {
    /// `path` first.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.path).chain(&self.also)
    }

    /// Why its code bases cannot be read together.
    pub fn contradiction(&self) -> Option<String> {
        let names: Vec<String> = self.paths().map(|path| code_base_name(path)).collect();
        let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
        match twice {
            Some((_, name)) => Some(format!(
                "two code bases of one route are called {name:?}, and paths in findings begin with \
                 that name: rename one of the folders"
            )),
            None if names.len() > MAX_CODE_BASES => {
                Some(format!("an item can have at most {MAX_CODE_BASES} code bases"))
            }
            None => None,
        }
    }
}

/// Code bases that one item can have.
pub const MAX_CODE_BASES: usize = 8;

/// The name of a code base among several: that of its folder.
pub fn code_base_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().map(plain).collect()
}

/// `[ranking]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// File extensions, like `set_aside`.
    pub prefer: Vec<String>,
    pub set_aside: Vec<String>,
}

/// `[fixes]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixes {
    pub numbers: FixNumbers,
    pub patterns: Vec<String>,
}

/// What `#123` means in a commit message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FixNumbers {
    /// An item, unless the repository's remote is a host with its own issues.
    Auto,
    /// An item of the tracker.
    Items,
    /// An issue on the repository's own host, where issues and pull requests never share a number.
    Issues,
    /// Not an item; only AB#123 and the configured patterns refer to items.
    OtherHost,
}

/// `[triage]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TriageSettings {
    #[serde(with = "stage_agent")]
    pub agent: Option<AgentKind>,
    pub model: String,
    pub effort: String,
    pub max_prompt_tokens: u32,
    pub max_item_tokens: u32,
    pub max_turns: u32,
    pub max_cost: Usd,
    #[serde(with = "human::duration")]
    pub timeout: Duration,
}

/// `[analyze]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Analyze {
    #[serde(with = "stage_agent")]
    pub agent: Option<AgentKind>,
    pub locate: bool,
    pub search: bool,
    pub model: String,
    pub effort: String,
    pub fallback_model: String,
    pub max_turns: u32,
    pub max_files_read: u32,
    pub max_item_tokens: u32,
    pub link_tokens: u32,
    pub max_attachments: u32,
    #[serde(with = "human::size")]
    pub max_attachment_size: u64,
    pub reanalyse: Reanalyse,
    pub max_cost: Usd,
    #[serde(with = "human::duration")]
    pub timeout: Duration,
}

/// `[verify]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Whether findings without any confirmed evidence are written back too.
    pub write_back_unproven: bool,
    /// The command that builds the code base of `[repository]`; empty: nothing is built.
    pub build: String,
    /// The command that runs one test of it, with `{test}` for its name; empty: none is run.
    pub test: String,
    /// For each command.
    #[serde(with = "human::duration")]
    pub timeout: Duration,
    /// Bytes that the copies of one verification may have together.
    #[serde(with = "human::size")]
    pub max_disk: u64,
    /// Commands of other code bases.
    pub code_bases: Vec<VerifiedCodeBase>,
}

/// The commands of one code base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifiedCodeBase {
    pub path: PathBuf,
    #[serde(default)]
    pub build: String,
    #[serde(default)]
    pub test: String,
}

/// Which finished items are analysed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reanalyse {
    /// Only those that change in the tracker.
    Never,
    /// Also those whose finding names files that have changed since.
    Stale,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSettings {
    pub max_live_sessions: u32,
    pub max_live_sessions_per_machine: u32,
    pub slots_dir: PathBuf,
    pub max_items_per_run: u32,
    pub max_deep_per_run: u32,
    pub max_attempts: u32,
    #[serde(with = "human::optional_duration")]
    pub run_deadline: Option<Duration>,
    pub max_processes: u32,
    #[serde(with = "human::size")]
    pub max_memory: u64,
    pub max_load_per_core: f64,
    pub unhealthy_load_per_core: f64,
    pub max_memory_pressure: f64,
    #[serde(with = "human::size")]
    pub min_free_memory: u64,
    #[serde(with = "human::duration")]
    pub admission_wait: Duration,
    pub nice: i32,
}

/// `[suggest]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suggest {
    pub min_precision: f64,
    pub write: Vec<Field>,
    pub max_writes_per_run: u32,
}

/// `[order]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderSettings {
    pub by: Vec<OrderBy>,
    pub urgent_priority: i64,
}

/// Sort keys of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderBy {
    /// Number of runs that deferred the item, highest first.
    Deferrals,
    Priority,
    /// Lowest first; 1 is critical.
    Severity,
    /// Triage's estimate, simplest first.
    Complexity,
    /// Time of the last change, oldest first.
    Age,
}

/// `[timeouts]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    #[serde(with = "human::duration")]
    pub init: Duration,
    #[serde(with = "human::duration")]
    pub stall: Duration,
    #[serde(with = "human::duration")]
    pub grace: Duration,
    #[serde(with = "human::duration")]
    pub drain: Duration,
    #[serde(with = "human::duration")]
    pub liveness: Duration,
}

/// `[budget]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetSettings {
    pub per_run: Usd,
    pub per_day: Usd,
    /// Zero means no limit.
    pub per_month: Usd,
}

/// `[dedupe]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dedupe {
    pub watch: Vec<WatchedField>,
    pub terminal_states: Vec<String>,
    #[serde(with = "human::duration")]
    pub retry_delay: Duration,
}

/// A field, other than the texts, whose change triggers new work on an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatchedField {
    State,
    Priority,
    Severity,
    AssignedTo,
    AreaPath,
    IterationPath,
    Tags,
    /// The configured models for triage and analysis.
    Model,
}

/// `[text]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSettings {
    pub doubtful: UnclearTextPolicy,
    #[serde(with = "human::duration")]
    pub page_timeout: Duration,
}

/// `[state]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSettings {
    pub dir: PathBuf,
    /// Names the default folder; empty: the name of the configuration's folder.
    pub name: String,
    #[serde(with = "human::duration")]
    pub keep_events: Duration,
    pub containment: Containment,
}

/// `[record]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub sessions: bool,
}

/// `[prompts]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptsSettings {
    pub triage_system: PathBuf,
    pub triage_user: PathBuf,
    pub deep_system: PathBuf,
    pub deep_user: PathBuf,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    pub listen: String,
    pub token_env: String,
    /// The dashboard's address as people reach it; empty if they do not.
    pub public_url: String,
    pub hooks_env: String,
    #[serde(with = "human::duration")]
    pub min_interval: Duration,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    pub level: LogLevel,
    pub format: LogFormat,
    pub file: PathBuf,
    #[serde(with = "human::size")]
    pub max_size: u64,
    pub keep: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    Human,
    // One object per line.
    Json,
}

/// `[report]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportSettings {
    pub dir: PathBuf,
    pub formats: Vec<ReportFormat>,
    pub code_url: String,
    pub language: String,
    pub webhook_env: String,
    pub webhook_style: WebhookStyle,
    pub webhook_when: WebhookWhen,
    /// Times of the digest as a cron expression; empty for none.
    pub digest: String,
}

/// `[monitor]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorSettings {
    pub ping_env: String,
    /// Zero means never.
    pub missed_runs: u32,
    #[serde(with = "human::optional_duration")]
    pub paused_for: Option<Duration>,
    #[serde(with = "human::optional_duration")]
    pub no_finding_for: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFormat {
    /// Markdown
    Md,
    /// One self-contained page
    Html,
    /// One JSON object
    Json,
}

impl ReportFormat {
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

/// Message format of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookStyle {
    /// A JSON object with a `text` field.
    Slack,
    /// A message with an Adaptive Card.
    Teams,
}

/// Which runs are reported to the webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookWhen {
    /// Runs with findings or failures.
    News,
    /// Runs with failures.
    Trouble,
    Always,
    Never,
}
