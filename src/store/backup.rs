//! Copies of a state: made by SQLite in one read transaction, beside a running service, and put
//! back in its place.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};

use super::error::explain;
use super::{
    BUSY_TIMEOUT, DATABASE, Sql, Store, StoreError, beside, create_private_file, migrate, place,
    unwritable,
};

/// The side files of a database in use.
const SIDES: [&str; 2] = ["-wal", "-shm"];

impl Store {
    /// Writes the whole state as of this moment into a new file, and checks the copy.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if to.exists() {
            let why = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            let hint = "Name a file that does not exist yet";
            return Err(StoreError::Folder { path: to.into(), source: why, hint });
        }
        let (from, copy) = (self.folder().join(DATABASE), to.to_path_buf());
        let make = move || {
            copy_database(&from, &copy, false)?;
            check(&copy).map_err(|error| explain(&copy, error))
        };
        let found = tokio::task::spawn_blocking(make).await.map_err(StoreError::from).flatten();
        match found {
            Ok(found) if found == "ok" => Ok(()),
            Ok(found) => Err(StoreError::Damaged { path: to.into(), found }),
            Err(error) => {
                // Half a backup is none.
                drop(fs::remove_file(to));
                Err(error)
            }
        }
    }
}

fn check(copy: &Path) -> Sql<String> {
    Connection::open(copy)?.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}

fn vacuum_into(connection: &Connection, to: &Path) -> Sql<()> {
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map(drop)
}

/// Copies a database in one read transaction. Nothing is written to the original, and with
/// `at_rest` no side file is created either: then nobody may write to it meanwhile.
pub(super) fn copy_database(from: &Path, to: &Path, at_rest: bool) -> Result<(), StoreError> {
    create_private_file(to)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let address = address(from, at_rest);
    let copy = || {
        let connection = Connection::open_with_flags(&address, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        vacuum_into(&connection, to)
    };
    copy().map_err(|error| explain(from, error))
}

/// As SQLite's address of a file, in which some characters have a meaning.
fn address(path: &Path, at_rest: bool) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                address.push(char::from(*byte));
            }
            // Writing to a string cannot fail.
            other => drop(write!(address, "%{other:02X}")),
        }
    }
    address + if at_rest { "?immutable=1" } else { "" }
}

/// The write-ahead log and its index exist while a process has the database open, and after a
/// crash.
pub(super) fn is_in_use(database: &Path) -> bool {
    SIDES.iter().any(|side| beside(database, side).exists())
}

/// Puts the state in `backup` in the place of that in `folder`, which is set aside. Returns where
/// that is, if there was one. The caller holds the lock of the run, and no service is running.
pub fn restore(
    folder: &Path,
    backup: &Path,
    now: Timestamp,
) -> Result<Option<PathBuf>, StoreError> {
    place::prepare_folder(folder)?;
    let (database, new) = (folder.join(DATABASE), folder.join("heartbeat.db.new"));
    // Left by a restore that was interrupted.
    remove(&new)?;
    copy_database(backup, &new, !is_in_use(backup))?;
    let connection = Connection::open(&new).map_err(|error| explain(&new, error))?;
    migrate::refuse_other_versions(&connection, backup)?;
    drop(connection);
    let aside = set_aside(folder, now)?;
    fs::rename(&new, &database).map_err(|error| unwritable(&database, error))?;
    place::mark_used(folder)?;
    Ok(aside)
}

/// Moves the state in `folder` to a folder beside its files, so that the next start is a new one.
/// Returns where it is, if there was one. The caller holds the lock of the run.
pub fn set_aside(folder: &Path, now: Timestamp) -> Result<Option<PathBuf>, StoreError> {
    let database = folder.join(DATABASE);
    // Two within one second: a rename would replace what the first one kept.
    let second = folder.join("aside").join(now.strftime("%Y%m%d-%H%M%S").to_string());
    let later = (2..).map(|number| second.with_extension(number.to_string()));
    let mut free = std::iter::once(second.clone()).chain(later).filter(|path| !path.exists());
    let aside = free.next().unwrap_or_else(|| second.clone());
    let names = [DATABASE.to_owned(), "runs".to_owned()];
    let sides = SIDES.map(|side| format!("{DATABASE}{side}"));
    let mut moved = None;
    for name in names.into_iter().chain(sides) {
        let from = folder.join(&name);
        if !from.exists() {
            continue;
        }
        crate::private::create_folder(&aside).map_err(|error| unwritable(&aside, error))?;
        fs::rename(&from, aside.join(&name)).map_err(|error| unwritable(&from, error))?;
        moved = Some(aside.clone());
    }
    place::mark_unused(folder).map_err(|error| unwritable(&database, error))?;
    Ok(moved)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unwritable(path, error)),
        _ => Ok(()),
    }
}
