//! `heartbeat backtest`: tests the ranking on items that are already fixed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::backtest_items;
use super::error::CommandError;
use super::exit::Code;
use super::report::parse_since;
use crate::app::backtest::{BacktestOptions, PastItems, Step, backtest, linked_commits};
use crate::app::past_analysis::AnalyzeOptions;
use crate::backtest::{PastAnalysis, Plan, Report, Request, render, render_html, render_links};
use crate::model::Usd;
use crate::model::text::counted;
use crate::private;
use crate::report::terminal::Progress;
use crate::settings::{Config, FixNumbers};

/// Default maximum; each worker needs its own index.
const MAX_WORKERS: usize = 4;

#[derive(Debug, Clone, Args)]
pub struct BacktestArgs {
    /// Use the tracker's finished items that changed since WHEN: a duration such as 365d, a date,
    /// or a time
    #[arg(long, value_name = "WHEN", default_value = "365d", conflicts_with = "items")]
    pub since: String,
    /// Read finished items from a file instead, one JSON object per line or an array: work items as
    /// returned by Azure DevOps, what `gh issue list --json number,title,body,createdAt,url` prints,
    /// or {"id", "title"}, optionally with "key", "text", "area", "type", "created" and "url"; `-` reads standard
    /// input
    #[arg(long, value_name = "FILE.jsonl")]
    pub items: Option<PathBuf>,
    /// The code base of all items [default: repository.path and repository.routes]
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// What #123 in a commit message means [default: fixes.numbers]
    #[arg(long, value_enum)]
    pub numbers: Option<FixNumbers>,
    /// Only show the commits that were found for each item, and why; nothing is ranked
    #[arg(long, conflicts_with_all = ["analyze", "max_cost", "dry_run", "format"])]
    pub links: bool,
    /// Items processed in parallel; each worker needs its own copy of the code and its index
    /// [default: one per core, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub jobs: Option<u8>,
    /// Measure what triage suggests for fields instead: how often area, type, priority, severity, tags and
    /// owner would have been right on finished items, each with what was known when it was created. Stores
    /// the figures, by which later suggestions are shown. A file needs the changes of the fields: "history",
    /// Azure DevOps' "updates", Jira's "changelog" or GitHub's "events"
    #[arg(long, conflicts_with_all = ["links", "format", "repo", "numbers"])]
    pub triage: bool,
    /// Also analyse N of the items with the agent, on the code before their fixes; this costs money
    #[arg(long, value_name = "N", requires = "max_cost", value_parser = clap::value_parser!(u16).range(1..=500))]
    pub analyze: Option<u16>,
    /// Maximum cost of all analyses, in US dollars
    #[arg(long, value_name = "DOLLARS", requires = "analyze")]
    pub max_cost: Option<f64>,
    /// Seed that selects the items to analyse and the half from which settings are suggested
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Print how many items would be analysed and the maximum cost; start no session
    #[arg(long, requires = "analyze")]
    pub dry_run: bool,
    /// Output format [default: text, or json with --json]
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Tables
    Text,
    /// One page with each item, its ranking and its fix
    Html,
    /// Everything, for scripts
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum BacktestCommandError {
    #[error("cannot read the items in {}: {source}", path.display())]
    Items {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}:{line}: not a finished item: {source}; expected a work item as returned by Azure DevOps, an issue as `gh issue list --json number,title,body` prints it, or {{\"id\", \"title\", \"text\"}}", path.display())]
    Item {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("{} contains no items; each line must be one finished item as JSON", .0.display())]
    NoItems(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot build the page: {0}")]
    Page(#[source] minijinja::Error),
    #[error("cannot write the report as JSON: {0}")]
    Json(#[source] serde_json::Error),
}

impl From<BacktestCommandError> for CommandError {
    fn from(error: BacktestCommandError) -> Self {
        Self::Command(Box::new(error))
    }
}

impl super::Context {
    pub(super) async fn backtest(&self, args: &BacktestArgs) -> Result<Code, CommandError> {
        let load = crate::app::load_request(&self.global.overrides(), &self.environment)?;
        let config = crate::config::load(&load)?.config;
        let state = crate::app::state_folder(&config, &self.environment)?;
        if args.triage {
            ensure_writable(args.out.as_deref())?;
            return self.backtest_triage(args, &config, &state).await;
        }
        let folder = state.join("backtest");
        private::create_folder(&folder)
            .map_err(|source| BacktestCommandError::Folder { path: folder.clone(), source })?;
        ensure_writable(args.out.as_deref())?;
        let options = match &args.items {
            Some(file) => {
                let file = backtest_items::read(file, &config, &load.cwd)?;
                file_options(args, &config, &load.cwd, folder, file)
            }
            None => {
                let (zone, now) = (&config.schedule.timezone, self.clock.now());
                let items = PastItems::Since(parse_since(&args.since, zone, now)?);
                options(args, &config, &load.cwd, folder, items)
            }
        };
        let options = BacktestOptions { analyze: analyze(args)?, ..options };
        let on_step = progress_reporter(self.progress());
        if args.links {
            let plan =
                linked_commits(&self.start_options(false), &config, options, on_step).await?;
            self.show_links(args, &plan)?;
            return Ok(Code::Done);
        }
        let report = backtest(&self.start_options(false), &config, options, on_step).await?;
        self.show_backtest(args, &report)?;
        let incomplete = report.analysis.as_ref().is_some_and(PastAnalysis::is_incomplete);
        Ok(if incomplete { Code::SomeFailed } else { Code::Done })
    }

    fn show_backtest(&self, args: &BacktestArgs, report: &Report) -> Result<(), CommandError> {
        let default = if self.global.json { FormatArg::Json } else { FormatArg::Text };
        let text = match args.format.unwrap_or(default) {
            FormatArg::Text => render(report),
            FormatArg::Html => render_html(report).map_err(BacktestCommandError::Page)?,
            FormatArg::Json => to_json(report)?,
        };
        write_report(args, &text)
    }

    fn show_links(&self, args: &BacktestArgs, plan: &Plan) -> Result<(), CommandError> {
        let Plan { links, notes, .. } = plan;
        let text = match self.global.json {
            true => to_json(&serde_json::json!({ "items": links, "notes": notes }))?,
            false => render_links(links, notes),
        };
        write_report(args, &text)
    }
}

pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, BacktestCommandError> {
    let json = serde_json::to_string_pretty(value).map_err(BacktestCommandError::Json)?;
    Ok(format!("{json}\n"))
}

pub(super) fn write_report(args: &BacktestArgs, text: &str) -> Result<(), CommandError> {
    let Some(path) = &args.out else { return super::write_out(text) };
    let failed = |source| BacktestCommandError::Folder { path: path.clone(), source };
    Ok(private::replace(path, text.as_bytes()).map_err(failed)?)
}

/// Before minutes of work: whether the folder of the report exists.
fn ensure_writable(out: Option<&Path>) -> Result<(), BacktestCommandError> {
    let Some(out) = out else { return Ok(()) };
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.map_or(Ok(()), |folder| std::fs::read_dir(folder).map(|_| ())) {
        Ok(()) => Ok(()),
        Err(source) => Err(BacktestCommandError::Folder { path: out.to_owned(), source }),
    }
}

fn analyze(args: &BacktestArgs) -> Result<Option<AnalyzeOptions>, CommandError> {
    let (Some(count), Some(dollars)) = (args.analyze, args.max_cost) else { return Ok(None) };
    if !dollars.is_finite() || dollars <= 0.0 {
        let text = format!("--max-cost expects an amount of US dollars above 0, not {dollars}");
        return Err(CommandError::Usage(text));
    }
    let (max_cost, seed, dry_run) = (Usd::from_dollars(dollars), args.seed, args.dry_run);
    Ok(Some(AnalyzeOptions { count: usize::from(count), max_cost, seed, dry_run }))
}

/// For items of a file. Those that GitHub prints have the numbers of the repository's own issues.
pub(super) fn file_options(
    args: &BacktestArgs,
    config: &Config,
    cwd: &Path,
    folder: PathBuf,
    file: backtest_items::FileItems,
) -> BacktestOptions {
    let mut options = options(args, config, cwd, folder, PastItems::Known(file.items));
    if file.are_issues && options.request.fixes.numbers == FixNumbers::Auto {
        options.request.fixes.numbers = FixNumbers::Issues;
    }
    options
}

/// Without analyses, which cost money.
fn options(
    args: &BacktestArgs,
    config: &Config,
    cwd: &Path,
    folder: PathBuf,
    items: PastItems,
) -> BacktestOptions {
    BacktestOptions {
        items,
        code_base: args.repo.as_ref().map(|repo| cwd.join(repo)),
        request: request(args, config, cwd, folder),
        links_only: args.links,
        analyze: None,
    }
}

impl BacktestArgs {
    /// The usual ones for a file and a code base.
    pub(super) fn of_file(items: &Path, repo: &Path) -> Self {
        Self {
            since: String::new(),
            items: Some(items.to_owned()),
            repo: Some(repo.to_owned()),
            numbers: None,
            links: false,
            triage: false,
            jobs: None,
            analyze: None,
            max_cost: None,
            seed: 1,
            dry_run: false,
            format: None,
            out: None,
        }
    }
}

fn request(args: &BacktestArgs, config: &Config, cwd: &Path, folder: PathBuf) -> Request {
    // Items of a file are those of the configured source.
    let mut fixes = config.fixes_of(&config.source.name);
    fixes.numbers = args.numbers.unwrap_or(fixes.numbers);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let code_bases = config.code_bases().iter().map(|path| cwd.join(path)).collect();
    Request {
        folder,
        fixes,
        code_bases,
        ranking: config.ranking.clone(),
        tokens: config.repository.context_tokens as usize,
        workers: args.jobs.map_or(cores.min(MAX_WORKERS), usize::from),
        seed: args.seed,
    }
}

/// Lines for a step that takes long, elsewhere than on a terminal.
const LINES_PER_STEP: usize = 10;

/// Shows progress: a bar on a terminal, some lines elsewhere.
pub(super) fn progress_reporter(progress: Progress) -> impl Fn(Step) + Send + Sync + 'static {
    let bar = match progress {
        Progress::Live => ProgressBar::new(0),
        _ => ProgressBar::hidden(),
    };
    let spinner = ProgressStyle::with_template("{msg}").ok();
    let full = ProgressStyle::with_template("{msg} {bar:30} {pos} of {len} items, {eta} left").ok();
    let last_line = Mutex::new(String::new());
    move |step| {
        let (message, place) = in_words(step);
        // Printed before money is spent, even with a bar.
        let is_spending = matches!(step, Step::Analyses { .. });
        if progress == Progress::Lines || is_spending {
            print_new_line(&last_line, &message, place);
        }
        let style = if place.is_some() { &full } else { &spinner };
        style.iter().for_each(|style| bar.set_style(style.clone()));
        bar.set_message(message);
        if let Some((done, all)) = place {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            if done >= all && matches!(step, Step::Scores(_)) {
                bar.finish_and_clear();
            }
        } else {
            bar.tick();
        }
    }
}

/// What happens, and how much of it is done.
fn in_words(step: Step) -> (String, Option<(usize, usize)>) {
    match step {
        Step::Tracker => ("reading finished items from the tracker".to_owned(), None),
        Step::Histories { items } => {
            (format!("searching for the fixes of {}", counted(items, "item")), None)
        }
        Step::Texts { read, all } => ("reading past texts".to_owned(), Some((read, all))),
        Step::Scores(at) => ("scoring".to_owned(), Some((at.done, at.all))),
        Step::Analyses { items, at_most } => {
            (format!("analysing {}, at most {at_most}", counted(items, "item")), None)
        }
    }
}

/// Writes to standard error what the last line did not say yet: each step, and each tenth of it.
fn print_new_line(last: &Mutex<String>, message: &str, place: Option<(usize, usize)>) {
    let line = match place {
        Some((done, all)) => {
            let part = (all / LINES_PER_STEP).max(1);
            let done = if done >= all { all } else { done - done % part };
            format!("{message}: {done} of {all} items")
        }
        None => message.to_owned(),
    };
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != line {
        let _nobody_listens = writeln!(std::io::stderr(), "{line}");
        *last = line;
    }
}
