//! The command line: parsing, dispatch, output, exit code. Quick commands start no runtime and no
//! database.

pub mod args;
mod accuracy;
pub mod backtest;
mod backtest_items;
mod backtest_triage;
mod brief;
pub mod clean;
pub mod completions;
pub mod context;
pub mod doctor;
mod confirm;
mod dashboard;
mod dry;
mod feedback;
mod init;
mod init_checks;
mod init_names;
mod init_sources;
#[cfg(test)]
mod init_tests;
mod init_written;
mod invocation;
mod items;
pub mod selftest;
pub mod kill;
mod mcp;
mod read_commands;
mod operate;
mod pause;
mod retry;
mod selection;
mod replay;
pub mod report;
pub mod service;
mod share;
mod show;
mod state;
mod status;
mod why;
mod suggest;
mod try_out;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;
use serde::Serialize;

pub use crate::app::{error, exit};

use crate::app::{self, StartOptions, daemon, running};
use crate::clock::Clock;
use crate::config::{Loaded, load};
use crate::model::{json_without_pipeline_commands, plain_text, without_pipeline_commands};
use crate::report::names::Names;
use crate::report::paint::Paint;
use crate::report::summary::{self, RunReport};
use crate::report::terminal::Progress;
use crate::settings::Environment;
use args::{Cli, Command, GlobalArgs, Simulate};
use error::CommandError;
use exit::Code;
use init_names::config_of;
use init_sources::NamedSource;
use invocation::{Invocation, quoted};

/// The name of the program, which the package does not share.
const PROGRAM: &str = "heartbeat";

/// Runs the command line of this process.
pub fn main(environment: Environment) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match dispatch(cli, environment) {
        Ok(code) => code.into(),
        Err(error) => {
            say_error(&error);
            error.code().into()
        }
    }
}

/// Help and version go to standard output and are not failures.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is not an error.
    drop(error.print());
    if error.use_stderr() { Code::Usage.into() } else { Code::Done.into() }
}

#[expect(clippy::print_stderr, reason = "the one place that prints the error of a command")]
fn say_error(error: &CommandError) {
    // The text may quote a tracker or a helper command.
    eprintln!("heartbeat: {}", without_pipeline_commands(&plain_text(&error.to_string())));
}

fn dispatch(cli: Cli, environment: Environment) -> Result<Code, CommandError> {
    #[cfg(feature = "fault-points")]
    crate::store::fault::arm(environment.raw(crate::store::fault::VARIABLE));
    let mode_flag = cli.mode_flag();
    let (demo, context) = (
        cli.demo,
        Context {
            global: cli.global,
            environment,
            clock: Clock::system(),
            names: std::sync::OnceLock::new(),
        },
    );
    match (cli.command, mode_flag) {
        // clap cannot express this conflict.
        (Some(_), Some(flag)) => {
            Err(CommandError::Usage(format!("{flag} cannot be combined with a command")))
        }
        (Some(Command::Simulate(Simulate::Agent(args))), None) => Ok(simulate_agent(&args)),
        (Some(command), None) => context.command(command),
        (None, _) if cli.dry_run => context.on_runtime(unless_stopped(context.dry_run(demo))),
        (None, _) if cli.once => context.on_runtime(context.once(demo)),
        (None, _) => context.on_runtime(daemon::follow(&context.start_options(demo))),
    }
}

fn simulate_agent(args: &crate::simulate::agent::SimulateAgentArgs) -> Code {
    if crate::simulate::agent::run(args) == ExitCode::SUCCESS {
        Code::Done
    } else {
        Code::Unexpected
    }
}

/// What every command uses.
struct Context {
    global: GlobalArgs,
    environment: Environment,
    clock: Clock,
    /// The items' names, once a state was read.
    names: std::sync::OnceLock<Names>,
}

impl Context {
    fn on_runtime<T>(
        &self,
        work: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .enable_all()
            .build()
            .map_err(CommandError::io("cannot start the async runtime"))?;
        runtime.block_on(work)
    }

    fn load(&self) -> Result<Loaded, CommandError> {
        Ok(load(&app::load_request(&self.global.overrides(), &self.environment)?)?)
    }

    fn start_options(&self, demo: bool) -> StartOptions {
        StartOptions {
            overrides: self.global.overrides(),
            environment: self.environment.clone(),
            clock: self.clock.clone(),
            log_level: self.global.log_level,
            log_format: self.global.log_format,
            progress: self.progress(),
            demo,
        }
    }

    fn paint(&self) -> Paint {
        let variable = |name| self.environment.text(name);
        let is_dumb = variable("TERM") == Some("dumb");
        let terminal = std::io::stdout().is_terminal() && !is_dumb;
        Paint::choose(variable("NO_COLOR"), variable("CLICOLOR_FORCE"), terminal)
    }

    /// The command that starts this program again.
    fn own_command(&self) -> String {
        let typed = std::env::args().next().unwrap_or_else(|| PROGRAM.to_owned());
        let program = std::env::current_exe().unwrap_or_default();
        Invocation { typed: &typed, program: &program, environment: &self.environment }.command()
    }

    /// The command that shows the first finding of a run, in the form in which this program was
    /// started.
    fn read_on(&self, report: &RunReport, state: &Path, demo: bool) -> Option<String> {
        let first = report.findings.first()?;
        let named = self.names.get().map(|names| names.name(&first.key));
        let number = named.filter(|name| !name.contains('#')).unwrap_or_else(|| {
            first.key.item_id().map_or_else(|| first.key.to_string(), |id| id.to_string())
        });
        let mut words = format!("{} show {number}", self.own_command());
        if demo || self.global.state_dir.is_some() {
            words.push_str(&format!(" --state-dir {}", quoted(&state.to_string_lossy())));
        }
        if let Some(config) = self.global.config.as_ref().filter(|_| !demo) {
            words.push_str(&format!(" --config {}", quoted(&config.to_string_lossy())));
        }
        Some(words)
    }

    fn progress(&self) -> Progress {
        if self.global.quiet {
            Progress::Silent
        } else if std::io::stderr().is_terminal() {
            Progress::Live
        } else {
            Progress::Lines
        }
    }

    async fn once(&self, demo: bool) -> Result<Code, CommandError> {
        let (report, state, staying) = running::once(&self.start_options(demo)).await?;
        if let Some(store) = crate::store::Store::open_for_reading(&state)? {
            self.learn_names(&store).await?;
        }
        let read_on = self.read_on(&report, &state, demo);
        self.print(&report, |report| summary::render(report, read_on.as_deref(), self.paint()))?;
        staying.until_stopped().await?;
        Ok(code_of(&report))
    }

    async fn dry_run(&self, demo: bool) -> Result<Code, CommandError> {
        let dry_run = running::dry_run(&self.start_options(demo)).await?;
        self.print(&dry_run, dry::render)?;
        Ok(Code::Done)
    }

    fn command(&self, command: Command) -> Result<Code, CommandError> {
        match command {
            Command::Init(args) => self.init(&args),
            Command::Schedule { next } => self.schedule(next),
            Command::Config { schema } => self.show_config(schema),
            Command::Try(args) => self.on_runtime(self.try_out(&args)),
            Command::Clean(args) => self.clean(args),
            Command::Context(args) => self.context(args),
            Command::Backtest(args) => self.on_runtime(self.backtest(&args)),
            Command::Accuracy(args) => self.on_runtime(self.accuracy(&args)),
            Command::Replay(args) => self.on_runtime(unless_stopped(self.replay(&args))),
            Command::Suggest(args) => self.on_runtime(self.suggest(&args)),
            Command::Selftest(args) => self.on_runtime(unless_stopped(self.selftest(args))),
            Command::Status => self.on_runtime(self.status()),
            Command::Runs(limit) => self.on_runtime(self.runs(limit.limit)),
            Command::Sessions(limit) => self.on_runtime(self.sessions(limit.limit)),
            Command::Items(args) => self.on_runtime(self.items(&args)),
            Command::Brief { item } => self.on_runtime(self.brief(&item)),
            Command::Mcp => self.on_runtime(self.mcp()),
            Command::Show { item } => self.on_runtime(self.show(&item)),
            Command::Why { item } => self.on_runtime(self.why(&item)),
            Command::Share(args) => self.on_runtime(self.share(&args)),
            Command::Pause { note } => self.on_runtime(self.pause(&note)),
            Command::Resume => self.on_runtime(self.resume()),
            Command::Retry(args) => self.on_runtime(self.retry(&args)),
            Command::Kill(args) => self.on_runtime(self.kill(&args)),
            Command::Feedback(args) => self.on_runtime(self.feedback(&args)),
            Command::Report(args) => self.on_runtime(self.report(&args)),
            Command::Dashboard(args) => self.dashboard(args),
            Command::Doctor { live } => self.on_runtime(self.doctor(live)),
            Command::Trust { file } => self.trust(&file),
            Command::Worker { public_key: true } => {
                let key = app::fleet::public_key(&self.start_options(false))?;
                done(write_out(&format!("{key}\n")))
            }
            Command::Worker { public_key: false } => {
                self.on_runtime(app::fleet::worker(&self.start_options(false)))
            }
            Command::Service(command) => self.service(&command),
            Command::Completions(args) => done(write_out(&completions::completions(args))),
            Command::Man(args) => done(write_out(&completions::man(&args)?)),
            Command::State(command) => self.on_runtime(async {
                let config = self.load()?.config;
                let folder = app::state_folder(&config, &self.environment)?;
                write_out(&state::run(&command, &folder, &config, &self.clock).await?)?;
                Ok(Code::Done)
            }),
            Command::Simulate(Simulate::Ado(args)) => self.on_runtime(self.simulate_ado(args)),
            Command::Simulate(Simulate::Agent(args)) => Ok(simulate_agent(&args)),
        }
    }

    fn init(&self, args: &init::InitArgs) -> Result<Code, CommandError> {
        let named = self.environment.raw("HEARTBEAT_CONFIG").filter(|path| !path.is_empty());
        let path = self.global.config.clone().or_else(|| named.map(PathBuf::from));
        let path = path.unwrap_or_else(|| crate::config::FILE_NAME.into());
        let more = app::load_request(&self.global.overrides(), &self.environment)?.flags;
        let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let asked = terminal && init::should_prompt(args);
        init::check_absent(args, &path)?;
        let args = if asked {
            let look = |source: &_| self.names_of(source);
            init::ask(args, &mut std::io::stdin().lock(), &mut std::io::stderr().lock(), look)?
        } else {
            args.clone()
        };
        init::check_repository(&args, &path, &self.environment)?;
        let written = init::run(&args, &more, &path)?;
        self.print(&written, init::Written::render)?;
        let question = "Check the setup with `heartbeat doctor` now?";
        if asked && !self.global.json && init::agrees(question)? {
            return self.on_runtime(self.doctor(false));
        }
        Ok(Code::Done)
    }

    /// What a tracker has, read with the credential of its usual variable.
    fn names_of(&self, source: &NamedSource) -> Result<init::TrackerNames, String> {
        let config = config_of(source).ok_or("the answers make no configuration")?;
        let names = self.on_runtime(async {
            let read = match self.tracker(&config, &config.source) {
                Ok(tracker) => init::TrackerNames::of(&tracker).await,
                Err(error) => Err(error),
            };
            Ok(read.map_err(|error| error.message))
        });
        names.map_err(|error| error.to_string())?
    }

    fn trust(&self, file: &Path) -> Result<Code, CommandError> {
        let home = self.environment.config_home().ok_or_else(|| {
            CommandError::Usage("set HOME or XDG_CONFIG_HOME: what is trusted is kept there".into())
        })?;
        crate::config::trust(file, &home)
            .map_err(CommandError::io("cannot trust the configuration"))?;
        done(write_out(&format!("{} is used until it changes\n", file.display())))
    }

    fn schedule(&self, next: u16) -> Result<Code, CommandError> {
        let config = self.load()?.config.schedule;
        let schedule = crate::schedule::Schedule::parse(&config.cron, &config.timezone)?;
        let upcoming = schedule.upcoming(self.clock.now(), usize::from(next));
        self.print(&upcoming, |upcoming| crate::schedule::render(upcoming))?;
        Ok(Code::Done)
    }

    fn show_config(&self, schema: bool) -> Result<Code, CommandError> {
        if schema {
            return done(write_out(&format!("{:#}\n", crate::config::schema::schema())));
        }
        let values = crate::config::show::values(&self.load()?);
        self.print(&values, |values| {
            crate::config::show::render(values, crate::config::show::WithOrigin::Yes)
        })?;
        Ok(Code::Done)
    }

    async fn simulate_ado(
        &self,
        options: crate::simulate::ado::SimulatorOptions,
    ) -> Result<Code, CommandError> {
        let ready = |simulator: &crate::simulate::ado::Simulator| {
            self.print_simulator(&simulator.base_url(), crate::simulate::ado::PROJECT);
        };
        served(crate::simulate::ado::Simulator::run(options, ready).await)
    }

    /// Prints the address for scripts on standard output, and the command that uses it on standard
    /// error.
    fn print_simulator(&self, address: &str, project: &str) {
        drop(write_out(&format!("{address}\n")));
        if !self.global.quiet {
            let words = format!(
                "Try it: heartbeat init --base-url {address} --project {project} --repository DIR\n\
                 Ctrl-C stops it.\n"
            );
            // A closed standard error is not an error.
            drop(std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()));
        }
    }

    fn print<T: Serialize>(
        &self,
        value: &T,
        render: impl FnOnce(&T) -> String,
    ) -> Result<(), CommandError> {
        if !self.global.json {
            // The text may quote a tracker or an agent.
            let text = render(value);
            let text = match self.names.get() {
                Some(names) => names.in_text(text),
                None => text,
            };
            return write_out(&crate::report::terminal::text(&text));
        }
        let text = serde_json::to_string_pretty(value).map_err(|error| {
            CommandError::Usage(format!("cannot write the result as JSON: {error}"))
        })?;
        write_whole(&format!("{}\n", json_without_pipeline_commands(&text)))
    }
}

/// Drops work on a signal, so that it can clean up after itself.
async fn unless_stopped(
    work: impl Future<Output = Result<Code, CommandError>>,
) -> Result<Code, CommandError> {
    let mut signals = app::Signals::listen()?;
    tokio::select! {
        done = work => done,
        _ = signals.next() => Ok(signals.stopped_by().unwrap_or(Code::Terminated)),
    }
}

fn done(written: Result<(), CommandError>) -> Result<Code, CommandError> {
    written.map(|()| Code::Done)
}

/// The exit code in the report is the one of the process.
fn code_of(report: &RunReport) -> Code {
    let announced = |code: &&Code| code.number() == report.exit_code;
    Code::ALL.iter().find(announced).copied().unwrap_or(Code::Unexpected)
}

/// Result of a simulator.
fn served(result: std::io::Result<()>) -> Result<Code, CommandError> {
    result.map_err(CommandError::io("the simulated tracker cannot listen on its port"))?;
    Ok(Code::Done)
}

/// Writes to standard output, which may be the log of a build. A closed pipe is not a failure.
fn write_out(text: &str) -> Result<(), CommandError> {
    write_whole(&without_pipeline_commands(text))
}

/// Of a test build: keeps what `--json` prints if a folder for it exists, so that every output of the
/// suite can be compared with its schema.
#[cfg(feature = "fault-points")]
fn keep_for_schemas(text: &str) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/json-outputs"));
    let words: Vec<String> = std::env::args().collect();
    let json = serde_json::from_str::<serde_json::Value>(text);
    let (Ok(json), true) = (json, words.iter().any(|word| word == "--json")) else { return };
    let parsed = <Cli as clap::CommandFactory>::command().get_matches_from(&words);
    let flag = if parsed.get_flag("once") { "once" } else { "dry-run" };
    let name = parsed.subcommand_name().unwrap_or(flag);
    let file = folder.join(format!("{name}.ndjson"));
    if let Ok(mut kept) = std::fs::OpenOptions::new().append(true).create(true).open(file) {
        // Whole, so that two processes do not write into one line.
        drop(kept.write_all(format!("{json}\n").as_bytes()));
    }
}

fn write_whole(text: &str) -> Result<(), CommandError> {
    #[cfg(feature = "fault-points")]
    keep_for_schemas(text);
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandError::io("cannot write to standard output")(error))
        }
        _ => Ok(()),
    }
}
