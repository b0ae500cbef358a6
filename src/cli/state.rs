//! `heartbeat state export|import`: a state on its way to another machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::error::CommandError;
use crate::clock::Clock;
use crate::process::own_identity;
use crate::store::{RunLock, Store, TransferError};

/// What to do with the state.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Write everything that is known, as JSON lines
    Export {
        /// The file to write [default: standard output]
        file: Option<PathBuf>,
    },
    /// Read an export into an empty state
    Import {
        /// The file to read
        file: PathBuf,
    },
}

/// Does it and says what was done.
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
        CommandError::NotFound(format!("there is no state in {} to export", folder.display()))
    })?;
    let to: Box<dyn Write + Send> = match file {
        // It holds titles and findings: for this user only.
        Some(file) => Box::new(
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(file)
                .map_err(CommandError::io(format!("{} cannot be written", file.display())))?,
        ),
        None => Box::new(io::stdout()),
    };
    let rows = store.export(BufWriter::new(to)).await.map_err(transfer)?;
    Ok(file.map_or_else(String::new, |file| format!("{rows} rows written to {}\n", file.display())))
}

async fn import(file: &Path, folder: &Path, clock: &Clock) -> Result<String, CommandError> {
    let from =
        File::open(file).map_err(CommandError::io(format!("{} cannot be read", file.display())))?;
    let store = Store::open(folder)?;
    let _lock = RunLock::acquire(folder, own_identity(), "state import", None, clock)?;
    let rows = store.import(BufReader::new(from)).await.map_err(transfer)?;
    Ok(format!("{rows} rows read into {}\n", folder.display()))
}

fn transfer(error: TransferError) -> CommandError {
    match error {
        TransferError::Store(error) => error.into(),
        TransferError::Io(error) => CommandError::io("the export failed")(error),
        told @ (TransferError::Line { .. }
        | TransferError::NotWhole { .. }
        | TransferError::NotEmpty) => CommandError::Usage(told.to_string()),
    }
}
