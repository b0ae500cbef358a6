//! `heartbeat context`: the files that matter for a text, by the same code as in a run.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::context::{self, BuildReport, ContextError, Index, Options, Query, RankedFile};

/// Arguments of `heartbeat context`.
#[derive(Debug, Args)]
pub struct ContextArgs {
    /// The code base.
    #[arg(long, value_name = "DIR")]
    pub repo: PathBuf,
    /// A file with the item's text, its title in the first line; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub query_file: PathBuf,
    /// Number of files to print.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ContextFormat::Paths)]
    pub format: ContextFormat,
    /// Explain the rank of each file and what the index contains.
    #[arg(long)]
    pub explain: bool,
    /// Token budget of `--format prompt`.
    #[arg(long, value_name = "TOKENS", default_value_t = 6000)]
    pub tokens: usize,
    /// Folder of the indexes; by default below the state folder.
    #[arg(long, value_name = "DIR")]
    pub index_dir: Option<PathBuf>,
}

/// What `heartbeat context` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ContextFormat {
    /// One path per line, best first.
    Paths,
    /// The text that goes into the prompt.
    Prompt,
    /// Everything, for programs.
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextCommandError {
    /// The text cannot be read.
    #[error("cannot read the query {}: {source}", path.display())]
    Query {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl From<ContextCommandError> for super::error::CommandError {
    fn from(error: ContextCommandError) -> Self {
        Self::Command(Box::new(error))
    }
}

/// Runs the command: builds or updates the index below `indexes`, prints to `out`, explains to `notes`.
pub fn run(
    arguments: &ContextArgs,
    indexes: &Path,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), ContextCommandError> {
    let folder = arguments.index_dir.as_deref().unwrap_or(indexes);
    let text = read_query(&arguments.query_file).map_err(|source| ContextCommandError::Query {
        path: arguments.query_file.clone(),
        source,
    })?;
    let query = Query::from_text(&text);
    let question = |index: &Index| {
        let ranked = context::rank(index, &query, arguments.top)?;
        let text = match arguments.format {
            ContextFormat::Prompt => context::pack(index, &query, &ranked, arguments.tokens)?.text,
            ContextFormat::Paths | ContextFormat::Json => String::new(),
        };
        Ok((ranked, text))
    };
    let ((ranked, text), report) =
        Index::ask(&arguments.repo, folder, &Options::default(), question)?;
    match arguments.format {
        ContextFormat::Paths => {
            ranked.iter().try_for_each(|file| writeln!(out, "{}", file.path))?;
        }
        ContextFormat::Prompt => out.write_all(text.as_bytes())?,
        ContextFormat::Json => write_json(&report, &ranked, out)?,
    }
    Ok(say(&report, &ranked, arguments.explain, notes)?)
}

fn read_query(path: &Path) -> std::io::Result<String> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)?;
        bytes
    } else {
        std::fs::read(path)?
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn write_json(
    report: &BuildReport,
    ranked: &[RankedFile],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let answer = serde_json::json!({
        "files": ranked,
        "index": { "files": report.files, "read": report.read, "kept": report.kept, "gone": report.gone, "commits": report.commits, "skipped": report.skipped, "rebuilt": report.rebuilt },
    });
    writeln!(out, "{answer}")
}

/// Prints notes: everything with `--explain`, otherwise only what is unusual.
fn say(
    report: &BuildReport,
    ranked: &[RankedFile],
    explain: bool,
    notes: &mut impl Write,
) -> std::io::Result<()> {
    if let Some(reason) = report.rebuilt {
        writeln!(notes, "rebuilt the index: {reason}")?;
    }
    let aside: Vec<_> = if explain {
        report.skipped.reasons().collect()
    } else {
        report.skipped.surprises().collect()
    };
    for (count, what) in aside {
        writeln!(notes, "skipped: {count} {what}")?;
    }
    if !explain {
        return Ok(());
    }
    writeln!(notes, "index: {}", report.summary())?;
    for (place, file) in ranked.iter().enumerate() {
        writeln!(
            notes,
            "{:>3}. {} {:.2}: {}",
            place + 1,
            file.path,
            file.score,
            file.reasons.join(", ")
        )?;
    }
    Ok(())
}
