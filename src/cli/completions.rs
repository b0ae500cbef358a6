//! `heartbeat completions SHELL` and `heartbeat man`: generated from the parser's own definition,
//! so that they cannot be out of date.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::args::Cli;
use super::error::CommandError;

#[derive(Debug, Clone, Copy, Args)]
pub struct CompletionsArgs {
    /// Shell to print completions for
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Write one page for heartbeat and one per command into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub fn completions(args: CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "heartbeat", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The page to print, or a message about what was written.
pub fn man(args: &ManArgs) -> Result<String, CommandError> {
    match &args.dir {
        None => page(Cli::command()),
        Some(dir) => write_pages(dir),
    }
}

fn page(command: clap::Command) -> Result<String, CommandError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(CommandError::io("cannot make the manual page"))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn write_pages(dir: &Path) -> Result<String, CommandError> {
    let failed = || CommandError::io(format!("cannot write {}", dir.display()));
    std::fs::create_dir_all(dir).map_err(failed())?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(failed())?;
    Ok(format!("Wrote the manual pages to {}.\n", dir.display()))
}
