//! `heartbeat init`: a commented configuration to start from.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use toml::Value;

use super::error::CommandError;
use crate::config::render_init;

/// Arguments of `heartbeat init`.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Address of the organisation, such as https://dev.azure.com/contoso
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Project whose items are watched
    #[arg(long)]
    pub project: Option<String>,
    /// Code base that is analysed
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
    /// Cron expression of the schedule
    #[arg(long)]
    pub cron: Option<String>,
    /// IANA time zone of the schedule
    #[arg(long)]
    pub timezone: Option<String>,
    /// Print the file instead of writing it
    #[arg(long)]
    pub print: bool,
    /// Write over an existing file
    #[arg(long)]
    pub force: bool,
}

/// Writes the file to `path`, or prints it. Returns what to tell the user.
pub fn run(args: &InitArgs, path: &Path) -> Result<String, CommandError> {
    let text = render_init(&answers(args))?;
    if args.print {
        return Ok(text);
    }
    let mut open = std::fs::OpenOptions::new();
    open.write(true).truncate(true);
    if args.force {
        open.create(true)
    } else {
        open.create_new(true)
    };
    let mut file = open.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => CommandError::Usage(format!(
            "{} exists already; edit it, or write it anew with --force",
            path.display()
        )),
        _ => CommandError::io(format!("{} cannot be written", path.display()))(error),
    })?;
    file.write_all(text.as_bytes())
        .map_err(CommandError::io(format!("{} cannot be written", path.display())))?;
    Ok(format!(
        "Wrote {}.\nNext: set base_url, project and repository in it, export AZURE_DEVOPS_PAT and \
         ANTHROPIC_API_KEY,\nthen read `heartbeat --dry-run` and start with `heartbeat --once`.\n",
        path.display()
    ))
}

fn answers(args: &InitArgs) -> Vec<(String, Value)> {
    let text = |key: &str, value: &Option<String>| {
        value.clone().map(|value| (key.to_owned(), Value::String(value)))
    };
    let repository = args.repository.as_ref().map(|path| path.to_string_lossy().into_owned());
    [
        text("source.base_url", &args.base_url),
        text("source.project", &args.project),
        text("repository.path", &repository),
        text("schedule.cron", &args.cron),
        text("schedule.timezone", &args.timezone),
    ]
    .into_iter()
    .flatten()
    .collect()
}
