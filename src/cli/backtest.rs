//! `heartbeat backtest`: what the ranking would have found in the past.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;

use super::error::CommandError;
use super::exit::Code;
use crate::backtest::{self, BacktestError, PastItem, Report, Request};
use crate::clean::{Budget, clean_item};
use crate::context::{Subject, code_base_of};
use crate::fetch::ado::saved_item;
use crate::fixes::Numbers;
use crate::private;
use crate::report::terminal::Progress;
use crate::settings::Config;

/// Arguments of `heartbeat backtest`.
#[derive(Debug, Clone, Args)]
pub struct BacktestArgs {
    /// Finished items, one JSON object per line: a work item as Azure DevOps gives it, or
    /// {"id", "title", "text", "area", "type", "created"}; `-` reads standard input.
    #[arg(long, value_name = "FILE.jsonl")]
    pub items: PathBuf,
    /// The code base of all items [default: as repository.path and repository.routes say]
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// What #123 in a commit message means.
    #[arg(long, value_enum, default_value_t = NumbersArg::Auto)]
    pub numbers: NumbersArg,
    /// Output format [default: text, or json with --json]
    #[arg(long, value_enum)]
    pub format: Option<FormatArg>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How a backtest is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Tables
    Text,
    /// One page with each item, its ranking and its fix
    Html,
    /// Everything, for scripts
    Json,
}

/// What `#123` in a commit message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NumbersArg {
    /// Items, unless the repository's remote is a host with issues of its own.
    Auto,
    /// The items of the file.
    Items,
    /// Something else; only AB#123 names an item.
    OtherHost,
}

#[derive(Debug, thiserror::Error)]
pub enum BacktestCommandError {
    #[error("cannot read the items in {}: {source}", path.display())]
    Items {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}:{line}: not a finished item: {source}; expected a work item as Azure DevOps gives it, or {{\"id\", \"title\", \"text\"}}", path.display())]
    Item {
        path: PathBuf,
        line: usize,
        #[source]
        source: serde_json::Error,
    },
    #[error("{} holds no items; each line is one finished item as JSON", .0.display())]
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
    #[error(transparent)]
    Backtest(#[from] BacktestError),
}

impl From<BacktestCommandError> for CommandError {
    fn from(error: BacktestCommandError) -> Self {
        Self::Command(Box::new(error))
    }
}

/// The short form of an item.
#[derive(Deserialize)]
struct PlainItem {
    id: i64,
    title: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    area: String,
    #[serde(default, rename = "type")]
    item_type: String,
    #[serde(default)]
    created: Option<jiff::Timestamp>,
}

/// Runs the command.
pub fn run(
    arguments: &BacktestArgs,
    config: &Config,
    cwd: &Path,
    folder: &Path,
    progress: Progress,
) -> Result<Report, BacktestCommandError> {
    let items = items(arguments, config, cwd)?;
    private::create_folder(folder)
        .map_err(|source| BacktestCommandError::Folder { path: folder.to_owned(), source })?;
    let request = Request {
        folder: folder.to_owned(),
        numbers: match arguments.numbers {
            NumbersArg::Auto => None,
            NumbersArg::Items => Some(Numbers::Items),
            NumbersArg::OtherHost => Some(Numbers::OtherHost),
        },
        tokens: config.repository.context_tokens as usize,
    };
    let bar = bar(progress, items.len());
    let report = backtest::run(&request, &items, |done, _| bar.set_position(done as u64));
    bar.finish_and_clear();
    Ok(report?)
}

fn bar(progress: Progress, items: usize) -> ProgressBar {
    if progress != Progress::Live {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} items, {eta} left");
    let bar = ProgressBar::new(items as u64);
    style.map(|style| bar.clone().with_style(style)).unwrap_or(bar)
}

fn items(
    arguments: &BacktestArgs,
    config: &Config,
    cwd: &Path,
) -> Result<Vec<PastItem>, BacktestCommandError> {
    let path = &arguments.items;
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|source| BacktestCommandError::Items { path: path.clone(), source })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let items: Result<Vec<_>, _> = lines
        .map(|(at, line)| {
            let wrong =
                |source| BacktestCommandError::Item { path: path.clone(), line: at + 1, source };
            item(line, arguments, config, cwd).map_err(wrong)
        })
        .collect();
    let items = items?;
    if items.is_empty() {
        return Err(BacktestCommandError::NoItems(path.clone()));
    }
    Ok(items)
}

fn item(
    line: &str,
    arguments: &BacktestArgs,
    config: &Config,
    cwd: &Path,
) -> Result<PastItem, serde_json::Error> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    let mut past = if value.get("fields").is_some() {
        let item = saved_item(line, &config.source.text_fields)?;
        let (full, tight) = (config.analyze.max_item_tokens, config.triage.max_item_tokens);
        let budget = Budget::per_item(full, tight).with_doubtful(config.text.doubtful);
        let clean = clean_item(item, &budget);
        PastItem {
            id: clean.facts.id.0,
            title: clean.facts.title.clone(),
            area: clean.facts.area_path.clone().unwrap_or_default(),
            item_type: clean.facts.item_type.clone(),
            created_at: clean.facts.created_at.map(jiff::Timestamp::as_second),
            subject: Subject::of_item(&clean, None),
            repository: PathBuf::new(),
        }
    } else {
        let plain: PlainItem = serde_json::from_value(value)?;
        PastItem {
            id: plain.id,
            subject: Subject::from_text(&format!("{}\n{}", plain.title, plain.text)),
            title: plain.title,
            area: plain.area,
            item_type: plain.item_type,
            created_at: plain.created.map(jiff::Timestamp::as_second),
            repository: PathBuf::new(),
        }
    };
    past.repository = match &arguments.repo {
        Some(repository) => cwd.join(repository),
        None => cwd.join(code_base_of(config, &config.source.name, &[&past.area], &past.item_type)),
    };
    Ok(past)
}

impl super::Context {
    pub(super) fn backtest(&self, args: &BacktestArgs) -> Result<Code, CommandError> {
        let request = crate::app::load_request(&self.global.overrides(), &self.environment)?;
        let config = crate::config::load(&request)?.config;
        let folder = crate::app::state_folder(&config, &self.environment)?.join("backtest");
        let report = run(args, &config, &request.cwd, &folder, self.progress())?;
        let default = if self.global.json { FormatArg::Json } else { FormatArg::Text };
        let text = match args.format.unwrap_or(default) {
            FormatArg::Text => backtest::render(&report),
            FormatArg::Html => {
                backtest::render_html(&report).map_err(BacktestCommandError::Page)?
            }
            FormatArg::Json => {
                let json = serde_json::to_string_pretty(&report);
                format!("{}\n", json.map_err(BacktestCommandError::Json)?)
            }
        };
        match &args.out {
            None => super::write_out(&text)?,
            Some(path) => private::replace(path, text.as_bytes())
                .map_err(|source| BacktestCommandError::Folder { path: path.clone(), source })?,
        }
        Ok(Code::Done)
    }
}
