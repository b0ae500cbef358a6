//! `heartbeat state export|import`: moves a state to another machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::error::CommandError;
use crate::clock::Clock;
use crate::store::{
    DATABASE, RunLock, Store, StoreError, TakenOver, TransferError, is_database, prepare_folder,
    take_over,
};

#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Export the whole state as JSON lines
    Export {
        /// File to write [default: standard output]
        file: Option<PathBuf>,
    },
    /// Import an export into an empty state, or take over a state from before 0.1.0
    Import {
        /// An export, or the heartbeat.db of the old state
        file: PathBuf,
    },
}

/// Runs the command and returns its output.
pub async fn run(
    command: &StateCommand,
    folder: &Path,
    clock: &Clock,
) -> Result<String, CommandError> {
    match command {
        StateCommand::Export { file } => export(file.as_deref(), folder).await,
        StateCommand::Import { file } => import(file, folder, clock).await,
    }
}

async fn export(file: Option<&Path>, folder: &Path) -> Result<String, CommandError> {
    let store = Store::open_for_reading(folder)?.ok_or_else(|| {
        CommandError::NotFound(format!("there is no state to export in {}", folder.display()))
    })?;
    let to: Box<dyn Write + Send> = match file {
        // Contains titles and findings: readable only by this user.
        Some(file) => Box::new(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(file)
                .map_err(CommandError::io(format!("cannot write {}", file.display())))?,
        ),
        None => Box::new(io::stdout()),
    };
    let rows = store.export(BufWriter::new(to)).await.map_err(|error| transfer(folder, error))?;
    Ok(file
        .map_or_else(String::new, |file| format!("exported {rows} rows to {}\n", file.display())))
}

async fn import(file: &Path, folder: &Path, clock: &Clock) -> Result<String, CommandError> {
    let unreadable = || CommandError::io(format!("cannot read {}", file.display()));
    if is_database(file).map_err(unreadable())? {
        return import_database(file, folder, clock);
    }
    let from = File::open(file).map_err(unreadable())?;
    let store = Store::open(folder)?;
    let _lock = RunLock::acquire(folder, "state import", None, clock)?;
    let rows = store.import(BufReader::new(from)).await.map_err(|error| transfer(folder, error))?;
    Ok(format!("imported {rows} rows into {}\n", folder.display()))
}

fn import_database(file: &Path, folder: &Path, clock: &Clock) -> Result<String, CommandError> {
    prepare_folder(folder)?;
    let _lock = RunLock::acquire(folder, "state import", None, clock)?;
    let TakenOver { rows, kept } = take_over(folder, file)?;
    let folder = folder.display();
    Ok(format!("imported {rows} rows into {folder}; the old state is kept in {}\n", kept.display()))
}

fn transfer(folder: &Path, error: TransferError) -> CommandError {
    match error {
        TransferError::Store(error) => error.into(),
        TransferError::Io(error) => CommandError::io("the export failed")(error),
        TransferError::Row(source) => {
            StoreError::Sqlite { path: folder.join(DATABASE), source }.into()
        }
        refused => CommandError::Usage(refused.to_string()),
    }
}
