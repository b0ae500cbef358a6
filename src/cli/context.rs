//! `heartbeat context`: ranks the files for a text with the same code as a run.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::error::CommandError;
use super::exit::Code;
use crate::clean::{Budget, clean_item};
use crate::context::{
    self, BuildReport, ContextError, Index, Options, Query, RankedFile, Subject, subject_of,
    weights_of,
};
use crate::fetch::ado::saved_item;
use crate::report::terminal;
use crate::settings::Config;

#[derive(Debug, Args)]
pub struct ContextArgs {
    /// The code base
    #[arg(long, value_name = "DIR")]
    pub repo: PathBuf,
    /// A file with the item's text, its title in the first line; `-` reads standard input
    #[arg(long, value_name = "FILE", required_unless_present = "item")]
    pub query_file: Option<PathBuf>,
    /// A work item as JSON from Azure DevOps, such as `az boards work-item show --id 7 -o json`;
    /// `-` reads standard input
    #[arg(long, value_name = "FILE.json", conflicts_with = "query_file")]
    pub item: Option<PathBuf>,
    /// Search terms as triage would give them: words or names in the code; may be repeated
    #[arg(long, value_name = "TERM,…", value_delimiter = ',')]
    pub terms: Vec<String>,
    /// A file with search terms, one per line
    #[arg(long, value_name = "FILE")]
    pub terms_file: Option<PathBuf>,
    /// Number of files to print
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = ContextFormat::Paths)]
    pub format: ContextFormat,
    /// Explain the rank of each file and print what the index contains
    #[arg(long)]
    pub explain: bool,
    /// Token budget of `--format prompt`
    #[arg(long, value_name = "TOKENS", default_value_t = 6000)]
    pub tokens: usize,
    /// Folder of the indexes [default: below the state folder]
    #[arg(long, value_name = "DIR")]
    pub index_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ContextFormat {
    /// One path per line, best first
    Paths,
    /// The text for the prompt
    Prompt,
    /// Everything, for scripts
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextCommandError {
    #[error("cannot read the query {}: {source}", path.display())]
    Query { path: PathBuf, source: std::io::Error },
    #[error("{} is not an Azure DevOps work item in JSON: {source}", path.display())]
    Item { path: PathBuf, source: serde_json::Error },
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl From<ContextCommandError> for CommandError {
    fn from(error: ContextCommandError) -> Self {
        Self::Command(Box::new(error))
    }
}

/// Builds or updates the index below `indexes`, prints to `out`, explains to `notes`.
pub fn run(
    arguments: &ContextArgs,
    config: &Config,
    indexes: &Path,
    out: &mut impl Write,
    notes: &mut impl Write,
) -> Result<(), ContextCommandError> {
    let folder = arguments.index_dir.as_deref().unwrap_or(indexes);
    let query = Query::of(&subject(arguments, config)?);
    let weights = weights_of(&config.ranking);
    let question = |index: &Index| {
        let ranked = context::rank(index, &query, &weights, arguments.top)?;
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
            ranked.iter().try_for_each(|file| writeln!(out, "{}", terminal::text(&file.path)))?;
        }
        ContextFormat::Prompt => out.write_all(terminal::text(&text).as_bytes())?,
        ContextFormat::Json => write_json(&report, &ranked, out)?,
    }
    Ok(say(&report, &ranked, arguments.explain, notes)?)
}

/// The query, built by the same code as in a run.
fn subject(arguments: &ContextArgs, config: &Config) -> Result<Subject, ContextCommandError> {
    let subject = match (&arguments.item, &arguments.query_file) {
        (Some(path), _) => {
            let json = read(path)?;
            let item = saved_item(&json, &config.source.text_fields)
                .map_err(|source| ContextCommandError::Item { path: path.clone(), source })?;
            let (full, tight) = (config.analyze.max_item_tokens, config.triage.max_item_tokens);
            let budget = Budget::per_item(full, tight).with_doubtful(config.text.doubtful);
            subject_of(&clean_item(item, &budget), None)
        }
        (None, Some(path)) => Subject::from_text(&read(path)?),
        (None, None) => Subject::default(),
    };
    let from_file = arguments.terms_file.as_deref().map(read).transpose()?.unwrap_or_default();
    let terms = arguments.terms.iter().map(String::as_str).chain(from_file.lines());
    let terms = terms.map(str::trim).filter(|term| !term.is_empty()).map(str::to_owned);
    Ok(subject.with_terms(terms))
}

fn read(path: &Path) -> Result<String, ContextCommandError> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let unreadable = |source| ContextCommandError::Query { path: path.to_owned(), source };
    Ok(String::from_utf8_lossy(&bytes.map_err(unreadable)?).into_owned())
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
            terminal::text(&file.path),
            file.score,
            terminal::text(&file.reasons.join(", "))
        )?;
    }
    Ok(())
}

impl super::Context {
    pub(super) fn context(&self, mut args: ContextArgs) -> Result<Code, CommandError> {
        if self.global.json {
            args.format = ContextFormat::Json;
        }
        let config = self.load()?.config;
        let indexes = crate::app::state_folder(&config, &self.environment)?.join("index");
        run(
            &args,
            &config,
            &indexes,
            &mut std::io::stdout().lock(),
            &mut std::io::stderr().lock(),
        )?;
        Ok(Code::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_of_files_cannot_control_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let (repo, query) = (folder.path().join("repo"), folder.path().join("query"));
        std::fs::create_dir(&repo).unwrap();
        let source = "fn login_fails() {} // \u{1b}]0;owned\u{7} \u{202e}\u{e0041}\n";
        std::fs::write(repo.join("login\u{202e}\u{e0041}_fails.rs"), source).unwrap();
        std::fs::write(&query, "login fails").unwrap();
        let config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        for format in [ContextFormat::Paths, ContextFormat::Prompt] {
            let arguments = ContextArgs {
                repo: repo.clone(),
                query_file: Some(query.clone()),
                item: None,
                terms: Vec::new(),
                terms_file: None,
                top: 10,
                format,
                explain: true,
                tokens: 6000,
                index_dir: None,
            };
            let (mut out, mut notes) = (Vec::new(), Vec::new());
            run(&arguments, &config, &folder.path().join("index"), &mut out, &mut notes).unwrap();
            for text in [out, notes] {
                let text = String::from_utf8(text).unwrap();
                assert!(text.contains("login_fails.rs"), "{text:?}");
                let acting = |c: char| c != '\n' && c != '\t' && crate::model::is_acting(c);
                assert!(!text.contains(acting), "{text:?}");
            }
        }
    }
}
