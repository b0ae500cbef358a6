//! `heartbeat state`: copies of a state, and what to do with one that is damaged or lost.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::error::CommandError;
use crate::app::owner_of;
use crate::clock::Clock;
use crate::settings::Config;
use crate::store::{
    BroughtBack, Rescued, RunLock, SchedulerMark, Store, TakenOver, bring_back, is_database,
    prepare_folder, rescue, restore, set_aside, take_over,
};

#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Write a checked copy of the whole state, also while heartbeat runs
    Backup {
        /// File to write; it must not exist
        file: PathBuf,
    },
    /// Put a backup in the place of the state, which is set aside
    Restore {
        /// A backup, or the heartbeat.db of another machine
        file: PathBuf,
    },
    /// Save what can still be read of a damaged state; the damaged files are set aside
    Rescue,
    /// Set the state aside and begin another one, which knows what was spent and finished before
    New {
        /// Forget which items were finished: all of them are analysed again
        #[arg(long)]
        again: bool,
    },
    /// Hand the state over to this configuration
    Adopt,
    /// Take over a state from before 0.1.0, once
    Import {
        /// The heartbeat.db of the old state
        file: PathBuf,
    },
}

/// Runs the command and returns its output.
pub async fn run(
    command: &StateCommand,
    folder: &Path,
    config: &Config,
    clock: &Clock,
) -> Result<String, CommandError> {
    match command {
        StateCommand::Backup { file } => backup(file, folder).await,
        StateCommand::Restore { file } => {
            let _lock = at_rest(folder, "state restore", clock)?;
            let aside = restore(folder, file, clock.now())?;
            let known = brought_back(bring_back(folder, true, clock.now())?);
            let (file, folder) = (file.display(), folder.display());
            Ok(format!("restored {file} into {folder}\n{known}{}", kept(aside)))
        }
        StateCommand::Rescue => {
            let _lock = at_rest(folder, "state rescue", clock)?;
            let text = rescued(rescue(folder, clock.now())?, folder);
            Ok(text + &brought_back(bring_back(folder, true, clock.now())?))
        }
        StateCommand::New { again } => {
            let _lock = at_rest(folder, "state new", clock)?;
            let aside = set_aside(folder, clock.now())?;
            let known = brought_back(bring_back(folder, !again, clock.now())?);
            Ok(format!("{}the next run begins a new state\n{known}", kept(aside)))
        }
        StateCommand::Adopt => {
            owner_of(config).adopt(folder)?;
            Ok(format!("the state in {} belongs to this configuration now\n", folder.display()))
        }
        StateCommand::Import { file } => import(file, folder, clock),
    }
}

/// The lock of a state that nobody works on.
fn at_rest(folder: &Path, purpose: &str, clock: &Clock) -> Result<RunLock, CommandError> {
    prepare_folder(folder)?;
    if SchedulerMark::is_set(folder) {
        return Err(CommandError::NotNow(format!(
            "a heartbeat service runs on {}\n  hint: stop it first",
            folder.display()
        )));
    }
    Ok(RunLock::acquire(folder, purpose, None, clock)?)
}

async fn backup(file: &Path, folder: &Path) -> Result<String, CommandError> {
    let store = Store::open_for_reading(folder)?.ok_or_else(|| {
        CommandError::NotFound(format!("there is no state to back up in {}", folder.display()))
    })?;
    store.backup(file).await?;
    Ok(format!("backed up {} to {}, checked\n", folder.display(), file.display()))
}

fn kept(aside: Option<PathBuf>) -> String {
    aside.map_or_else(String::new, |to| format!("the state before is kept in {}\n", to.display()))
}

fn brought_back(back: BroughtBack) -> String {
    let BroughtBack { items, spent } = back;
    match back == BroughtBack::default() {
        true => String::new(),
        false => {
            format!("it knows again: {items} finished items, {spent} spent in the last days\n")
        }
    }
}

fn rescued(rescued: Rescued, folder: &Path) -> String {
    let Rescued { rows, torn, kept: aside } = rescued;
    let mut text = format!("saved {rows} rows into {}\n", folder.display());
    for (table, rows) in torn {
        text.push_str(&format!("{table} is damaged: {rows} rows of it were saved\n"));
    }
    text + &kept(aside)
}

fn import(file: &Path, folder: &Path, clock: &Clock) -> Result<String, CommandError> {
    let unreadable = CommandError::io(format!("cannot read {}", file.display()));
    if !is_database(file).map_err(unreadable)? {
        return Err(CommandError::Usage(format!(
            "{} is not a heartbeat.db\n  hint: `heartbeat state restore` takes backups",
            file.display()
        )));
    }
    prepare_folder(folder)?;
    let _lock = RunLock::acquire(folder, "state import", None, clock)?;
    let TakenOver { rows, kept } = take_over(folder, file)?;
    let folder = folder.display();
    Ok(format!("imported {rows} rows into {folder}; the old state is kept in {}\n", kept.display()))
}
