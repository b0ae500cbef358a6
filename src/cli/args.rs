//! The command line as values.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, value_parser};

use super::exit;
use crate::settings::{LogFormat, LogLevel};

const ABOUT: &str = "Triages changed work items of Azure DevOps, GitHub or Jira in one cheap agent \
session and analyses those that need it in bounded, supervised sessions on your code base.";

const LONG_ABOUT: &str = "\
Triages changed work items of Azure DevOps, GitHub or Jira in one cheap agent session and analyses \
those that need it in bounded, supervised sessions on your code base.

Without a command, heartbeat runs on its cron schedule until it is stopped. Try it first, without \
an account, a config or costs:

  heartbeat --once --demo        a complete run on built-in simulators
  heartbeat --dry-run --demo     show every decision, prompt and worst-case cost

Then set it up:

  heartbeat init                 write a commented heartbeat.toml
  heartbeat --dry-run            show what a run would do with your work items
  heartbeat --once               run once now";

/// heartbeat
#[derive(Debug, Parser)]
#[command(
    name = "heartbeat",
    version = env!("BUILT_VERSION"),
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = exit::table(),
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = false
)]
pub struct Cli {
    /// Run once now; the exit code says how it went
    #[arg(long)]
    pub once: bool,
    /// Print every decision, prompt and worst-case cost; start no session, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Use the built-in tracker and agent simulators and a temporary state
    #[arg(long)]
    pub demo: bool,
    #[command(flatten)]
    pub global: GlobalArgs,
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// The first mode flag that was given.
    pub fn mode_flag(&self) -> Option<&'static str> {
        let flags = [(self.once, "--once"), (self.dry_run, "--dry-run"), (self.demo, "--demo")];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Configuration file [default: $HEARTBEAT_CONFIG, ./heartbeat.toml, XDG config folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// State folder; overrides the key state.dir
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Override any configuration key, such as --set limits.max_live_sessions=2
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print one JSON document on standard output and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Show no progress on standard error
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Log level on standard error [default: warn; for the service, log.level]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
    /// Log format on standard error [default: human; for the service, log.format]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

impl GlobalArgs {
    /// The options that decide which configuration is loaded.
    pub fn overrides(&self) -> crate::app::Overrides {
        crate::app::Overrides {
            config: self.config.clone(),
            state_dir: self.state_dir.clone(),
            set: self.set.clone(),
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented heartbeat.toml
    Init(Box<super::init::InitArgs>),
    /// Show the current run, sessions, queue, spending and circuit breaker
    Status,
    /// List the newest runs
    Runs(LimitArgs),
    /// List the newest sessions
    Sessions(LimitArgs),
    /// List work items by state and reason, with triage's explanation
    Items(super::items::ItemsArgs),
    /// Show everything about one item, with its findings
    Show {
        /// The item as people name it: 4106, #4106, PARCEL-4, contoso/web#12, or its address
        item: String,
    },
    /// Print the newest finding of an item as a task for a coding agent
    Brief {
        /// The item as people name it: 4106, #4106, PARCEL-4, contoso/web#12, or its address
        item: String,
    },
    /// Serve findings to coding agents by the Model Context Protocol, on standard input and output
    Mcp,
    /// Say why an item has a finding, or why it has none; asks the tracker about unknown ones
    Why {
        /// The item as people name it: 4106, #4106, PARCEL-4, contoso/web#12, or its address
        item: String,
    },
    /// Write one finding as a file, or print a link that opens only this finding
    Share(super::share::ShareArgs),
    /// Pause the schedule until `resume`; a run in progress continues
    Pause {
        /// Reason, shown by `status` and on the dashboard
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Resume the schedule after `pause`
    Resume,
    /// Requeue an item with a fresh attempt count, or reset a circuit breaker
    Retry(RetryArgs),
    /// End a live session and every process it started
    Kill(KillArgs),
    /// Rate the newest finding of an item: useful, wrong or done
    Feedback(super::feedback::FeedbackArgs),
    /// Open the dashboard in a browser, signed in, or print its address
    Dashboard(super::dashboard::DashboardArgs),
    /// Print the findings of a run or a period as a report
    Report(super::report::ReportArgs),
    /// Check everything a run needs, and print a fix for each failure
    Doctor {
        /// Also ask the model provider (a free request) and try the right to write a comment
        #[arg(long)]
        live: bool,
    },
    /// Use a configuration that others could write, until it changes
    Trust {
        /// Read it first: it names commands that heartbeat runs
        #[arg(default_value = crate::config::FILE_NAME)]
        file: PathBuf,
    },
    /// Run sessions for a coordinator on another host until stopped (feature `fleet`)
    Worker {
        /// Only print the public key of this host, for the coordinator's [fleet.workers] (and that of
        /// the coordinator, for `[fleet] coordinator` of its workers)
        #[arg(long)]
        public_key: bool,
    },
    /// Print, install or remove the systemd or launchd service
    #[command(subcommand)]
    Service(super::service::ServiceCommand),
    /// Back up, restore or rescue the state, or hand it over to this configuration
    #[command(subcommand)]
    State(super::state::StateCommand),
    /// Show when the next runs are due
    Schedule {
        /// Number of runs to show
        #[arg(long, default_value_t = 5, value_name = "N", value_parser = value_parser!(u16).range(1..))]
        next: u16,
    },
    /// Show the effective configuration, with the origin of each value
    Config {
        /// Print the JSON Schema of heartbeat.toml instead, for editors
        #[arg(long)]
        schema: bool,
    },
    /// Turn work-item HTML into the compact text that prompts contain
    Clean(super::clean::CleanArgs),
    /// Rank the files of a code base by their relevance to a text
    Context(super::context::ContextArgs),
    /// Test the file ranking on items that are already fixed; no model or cost without --analyze
    Backtest(super::backtest::BacktestArgs),
    /// Show what heartbeat would have known about finished items, on one page; no config, no cost
    Try(super::try_out::TryArgs),
    /// Compare findings with later fixes and with feedback
    ///
    /// A finding is right if it came before the fix and names a file that the fix changed. Commits
    /// are searched for after each run, in the local clones.
    Accuracy(super::accuracy::AccuracyArgs),
    /// Take back what a run wrote to fields of items
    Suggest(super::suggest::SuggestArgs),
    /// Run misbehaving agents against the supervisor and check that no process survives
    Selftest(super::selftest::SelftestArgs),
    /// Run a recorded session again, without its model provider
    ///
    /// Needs `record.sessions = true` while the session ran. The agent's program is started as in a
    /// session and gets the recorded answers; nothing is stored and nothing is paid.
    Replay(super::replay::ReplayArgs),
    /// Print completions for a shell
    Completions(super::completions::CompletionsArgs),
    /// Print the manual page
    Man(super::completions::ManArgs),
    /// Run a simulator, to try a configuration or to test against
    #[command(subcommand)]
    Simulate(Simulate),
}

#[derive(Debug, Clone, Args)]
pub struct RetryArgs {
    /// The item as people name it: 4106, #4106, PARCEL-4, contoso/web#12, or its address
    #[arg(required_unless_present_any = ["source", "provider", "parked", "failed", "gone"])]
    pub item: Option<String>,
    /// Close the circuit breaker of one source, or of all if no name is given; also ignore a wait
    /// that the source requested
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub source: Option<Option<String>>,
    /// Close the model provider's circuit breaker and lift its limits
    #[arg(long)]
    pub provider: bool,
    /// Analyse the item with these search terms, without another triage; may be repeated
    #[arg(
        long,
        value_name = "TERM,…",
        value_delimiter = ',',
        requires = "item",
        conflicts_with = "many"
    )]
    pub terms: Vec<String>,
    /// Requeue all parked items
    #[arg(long, group = "many", conflicts_with = "item")]
    pub parked: bool,
    /// Requeue all items that failed: waiting for a retry, or parked without attempts left
    #[arg(long, group = "many", conflicts_with_all = ["item", "parked"])]
    pub failed: bool,
    /// Requeue all items that were given up because the source did not return them any more
    #[arg(long, group = "many", conflicts_with_all = ["item", "parked", "failed"])]
    pub gone: bool,
    /// Only items parked for this reason, such as attempts_exhausted
    #[arg(long, requires = "parked", conflicts_with_all = ["item", "failed"], value_name = "REASON")]
    pub reason: Option<String>,
    /// Only items in this area or below it, such as 'Shop\Web' or Shop/Web; case is ignored
    #[arg(long, requires = "many", value_name = "PATH")]
    pub area: Option<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Clone, Args)]
pub struct KillArgs {
    /// Session id as shown by `heartbeat status`, or the number of its item
    #[arg(required_unless_present = "all")]
    pub session: Option<String>,
    /// End all live sessions of this state
    #[arg(long, conflicts_with = "session")]
    pub all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct LimitArgs {
    /// Number of entries to show
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub limit: u32,
}

#[derive(Debug, Subcommand)]
pub enum Simulate {
    /// An Azure DevOps server with a realistic backlog, on loopback
    Ado(crate::simulate::ado::SimulatorOptions),
    /// A scripted agent that imitates the CLI of Claude Code, Codex or GitHub Copilot
    Agent(crate::simulate::agent::SimulateAgentArgs),
}
