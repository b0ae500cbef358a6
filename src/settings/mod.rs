//! The configuration as plain values: one struct per section, every field documented in
//! `config/default.toml`, which is the reference.
//!
//! Nothing here reads a file or the environment: [`crate::config`] loads and checks these values.

mod agent;
mod environment;
mod fleet;
pub mod human;
mod rule;
mod secrets;
mod source;

pub use agent::{
    Agent, AgentAuth, AgentKind, Codex, Copilot, CopilotProvider, CopilotWire, Price, stage_agent,
};
pub use environment::Environment;
pub use fleet::{Account, Fleet, Mirror, WhenDown};
pub use rule::Rule;
pub use secrets::{HeldSecrets, REMOVED, credential_in, is_credential_name};
pub use source::{Source, SourceAuth, SourceKind, SourceMode};

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{Doubtful, Usd};

/// The whole configuration, validated. A run works on the one it started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[source]`: the only source, or what the entries of `[[sources]]` leave out. Use
    /// [`Config::sources`] for the sources in force.
    pub source: Source,
    /// `[[sources]]`, each complete; empty: there is only `[source]`.
    #[serde(default, rename = "sources", skip_serializing_if = "Vec::is_empty")]
    pub source_list: Vec<Source>,
    /// `[[rules]]`, the first that matches an item applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    pub schedule: Schedule,
    pub repository: Repository,
    pub fixes: Fixes,
    pub agent: Agent,
    pub codex: Codex,
    pub copilot: Copilot,
    pub triage: Triage,
    pub analyze: Analyze,
    pub limits: Limits,
    pub order: Order,
    pub timeouts: Timeouts,
    pub budget: Budget,
    pub dedupe: Dedupe,
    pub text: Text,
    pub state: State,
    pub prompts: Prompts,
    pub http: Http,
    pub log: Log,
    pub report: Report,
    pub fleet: Fleet,
}

impl Config {
    /// The least time in which a run can read, triage and analyse one item with sessions that use
    /// all of theirs.
    pub fn shortest_run(&self) -> Duration {
        let ending = self.timeouts.grace.saturating_add(self.timeouts.drain);
        let by_rules = self.rules.iter().filter_map(|rule| rule.timeout).max().unwrap_or_default();
        let analysis = self.analyze.timeout.max(by_rules);
        let waiting = self.wait_for_host().saturating_mul(2);
        [self.triage.timeout, ending, analysis, ending, waiting, Duration::from_mins(1)]
            .into_iter()
            .fold(Duration::ZERO, Duration::saturating_add)
    }

    /// How long a session may wait for a host of the fleet before it starts; nothing on one machine.
    pub fn wait_for_host(&self) -> Duration {
        if self.fleet.is_on() { self.limits.admission_wait } else { Duration::ZERO }
    }
}

/// `[schedule]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub cron: String,
    pub timezone: String,
    #[serde(with = "human::duration")]
    pub jitter: Duration,
    #[serde(with = "human::optional_duration")]
    pub catch_up: Option<Duration>,
    pub first_run: FirstRun,
}

/// What the first scheduled run does with an old backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstRun {
    /// Stops and tells how much there is.
    Ask,
    /// Records the present as seen.
    Baseline,
    /// Works on it.
    Process,
}

/// `[repository]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    pub path: PathBuf,
    pub routes: Vec<Route>,
    pub context_tokens: u32,
}

/// One code base for the items below an area path, of a type, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub area: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub item_type: String,
    pub path: PathBuf,
}

/// `[fixes]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixes {
    pub numbers: FixNumbers,
    pub patterns: Vec<String>,
}

/// What `#123` in a commit message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FixNumbers {
    /// Items, unless the repository's remote is a host with issues of its own.
    Auto,
    /// Items of the tracker.
    Items,
    /// Something else; only AB#123 and the configured patterns name an item.
    OtherHost,
}

/// `[triage]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triage {
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

/// Which finished items are analysed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reanalyse {
    /// Those that change in the tracker.
    Never,
    /// Also those whose finding names files that changed since.
    Stale,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
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

/// `[order]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    pub by: Vec<OrderBy>,
    pub urgent_priority: i64,
}

/// What gives an item its place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderBy {
    /// Runs that left it out, most first.
    Deferrals,
    /// The tracker's priority, 1 first.
    Priority,
    /// The tracker's severity, 1 first.
    Severity,
    /// Triage's word, simplest first.
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
pub struct Budget {
    pub per_run: Usd,
    pub per_day: Usd,
    /// Zero: no limit.
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

/// A field beside the text that may wake an item.
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
    /// The configured models, triage and deep.
    Model,
}

/// `[text]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    pub doubtful: Doubtful,
    #[serde(with = "human::duration")]
    pub page_timeout: Duration,
}

/// `[state]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub dir: PathBuf,
    #[serde(with = "human::duration")]
    pub keep_events: Duration,
    pub containment: Containment,
}

/// How agents are contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// The strongest this machine allows.
    Auto,
    /// As `auto`, and no session starts unless the agent can be fully confined.
    Strict,
    /// No namespaces, no control groups.
    Subreaper,
}

/// `[prompts]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompts {
    pub triage_system: PathBuf,
    pub triage_user: PathBuf,
    pub deep_system: PathBuf,
    pub deep_user: PathBuf,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub listen: String,
    pub token_env: String,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub level: LogLevel,
    pub format: LogFormat,
    pub file: PathBuf,
    #[serde(with = "human::size")]
    pub max_size: u64,
    pub keep: u32,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For a terminal.
    Human,
    /// One object per line.
    Json,
}

/// `[report]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub dir: PathBuf,
    pub formats: Vec<ReportFormat>,
    pub code_url: String,
    pub language: String,
    pub webhook_env: String,
    pub webhook_style: WebhookStyle,
    pub webhook_when: WebhookWhen,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ReportFormat {
    /// Markdown.
    Md,
    /// One self-contained page.
    Html,
    /// One object.
    Json,
}

impl ReportFormat {
    /// The end of a file's name.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

/// What a webhook understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookStyle {
    /// An object with a text.
    Slack,
    /// A message with an Adaptive Card.
    Teams,
}

/// Which runs a webhook is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookWhen {
    /// Those that found something or went wrong.
    News,
    /// Those that went wrong.
    Trouble,
    /// All.
    Always,
}
