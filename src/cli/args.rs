//! The command line as values.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};

use super::error::CommandError;
use super::exit;
use crate::settings::{LogFormat, LogLevel};

const ABOUT: &str = "Triages changed Azure DevOps work items in one cheap agent session and gives \
the ones that deserve it a bounded, supervised analysis on your code base.";

const LONG_ABOUT: &str = "\
Triages changed Azure DevOps work items in one cheap agent session and gives the ones that deserve \
it a bounded, supervised analysis on your code base.

Without a command, heartbeat runs on its cron schedule until it is stopped. Try it first, without \
an account, a config or a cost:

  heartbeat --once --demo        a whole run on built-in simulators
  heartbeat --dry-run --demo     every decision, prompt and worst-case cost

Then set it up:

  heartbeat init                 writes a commented heartbeat.toml
  heartbeat --dry-run            what a run would do, with the real work items
  heartbeat --once               one run now";

/// heartbeat
#[derive(Debug, Parser)]
#[command(
    name = "heartbeat",
    version,
    about = ABOUT,
    long_about = LONG_ABOUT,
    after_help = exit::table(),
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = false
)]
pub struct Cli {
    /// One run now; the exit code says how it went
    #[arg(long)]
    pub once: bool,
    /// Print every decision, prompt and worst-case cost; start no session, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Use the built-in tracker and agent simulators and a temporary state
    #[arg(long)]
    pub demo: bool,
    /// What holds for every command
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do instead of running
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Cli {
    /// What the parser cannot see: ways of running make no sense beside a command.
    pub fn check(&self) -> Result<(), CommandError> {
        let given = [(self.once, "--once"), (self.dry_run, "--dry-run"), (self.demo, "--demo")];
        match given.iter().find(|(given, _)| *given) {
            Some((_, flag)) if self.command.is_some() => Err(CommandError::Usage(format!(
                "{flag} is a way of running and does not go with a command; leave one of them out"
            ))),
            _ => Ok(()),
        }
    }
}

/// What holds for every command.
#[derive(Debug, Clone, Args)]
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
    /// Machine-readable answer: one JSON document on standard output, nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress on standard error
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Diagnostics on standard error [default: warn, for the service the configured level]
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log_level: Option<Level>,
    /// How diagnostics look [default: human, for the service the configured format]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub log_format: Option<Format>,
}

impl GlobalArgs {
    /// What of it the job itself needs.
    pub fn overrides(&self) -> crate::app::Overrides {
        crate::app::Overrides {
            config: self.config.clone(),
            state_dir: self.state_dir.clone(),
            set: self.set.clone(),
        }
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "as in default.toml")]
pub enum Format {
    Human,
    Json,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Human => Self::Human,
            Format::Json => Self::Json,
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warn => Self::Warn,
            Level::Info => Self::Info,
            Level::Debug => Self::Debug,
            Level::Trace => Self::Trace,
        }
    }
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the usual five")]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Everything else heartbeat can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented heartbeat.toml
    Init(super::init::InitArgs),
    /// What is going on: run, sessions, queue, spending, breaker
    Status,
    /// The newest runs
    Runs(LimitArgs),
    /// The newest sessions
    Sessions(LimitArgs),
    /// The whole story of one item, with its findings
    Show {
        /// Its number, or its key such as ado/123
        item: String,
    },
    /// Put an item back in line with all its attempts, or let the source be asked again
    Retry {
        /// Its number, or its key such as ado/123
        #[arg(required_unless_present = "source")]
        item: Option<String>,
        /// Close the source's circuit breaker and forget its "not before"
        #[arg(long)]
        source: bool,
    },
    /// End one live session with everything it started
    Kill {
        /// Its id, or the beginning of it
        session: String,
    },
    /// The findings of a run or a period, to read or to mail
    Report(super::report::ReportArgs),
    /// Check everything a run needs; each failure comes with its fix
    Doctor,
    /// The service for systemd or launchd
    #[command(subcommand)]
    Service(super::service::ServiceCommand),
    /// Move a state to another machine
    #[command(subcommand)]
    State(super::state::StateCommand),
    /// When the next runs are due
    Schedule {
        /// How many
        #[arg(long, default_value_t = 5, value_name = "N", value_parser = value_parser!(u16).range(1..))]
        next: u16,
    },
    /// The configuration in force, with the origin of each value
    Config,
    /// Work-item HTML in, compact text out: the cleaner on its own
    Clean(super::clean::CleanArgs),
    /// The files of a code base that matter for a text
    Context(super::context::ContextArgs),
    /// Run misbehaving agents against the supervisor on this machine; nothing may survive
    Selftest(super::selftest::SelftestArgs),
    /// Completions for a shell
    Completions(super::completions::CompletionsArgs),
    /// The manual page
    Man(super::completions::ManArgs),
    /// The simulators on their own, to try a config or to test against
    #[command(subcommand)]
    Simulate(Simulate),
}

/// How much of a list to show.
#[derive(Debug, Clone, Copy, Args)]
pub struct LimitArgs {
    /// How many
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub limit: u32,
}

/// Which simulator.
#[derive(Debug, Subcommand)]
pub enum Simulate {
    /// An Azure DevOps server with a lifelike backlog, on loopback
    Ado(crate::simulate::ado::SimulateAdoArgs),
    /// A scripted agent that speaks the Claude Code CLI's stream
    Agent(crate::simulate::agent::SimulateAgentArgs),
}
