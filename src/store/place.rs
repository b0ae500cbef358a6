//! Checks whether a folder is suitable for a state.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::sys::statfs::statfs;
use nix::unistd::geteuid;

use super::lock::LOCK;
use super::scheduler::SCHEDULER_FILE;
use super::twin::{FINISHED, SPENT};
use super::{DATABASE, StoreError};
use crate::private;

/// File systems that several machines may share, by the kernel's number. File locks do not work
/// between machines there, and a write-ahead log needs shared memory.
const NETWORK: [(i64, &str); 10] = [
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x517B, "SMB"),
    (0x0102_1997, "9P"),
    (0x00C3_6400, "Ceph"),
    (0x5346_414F, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0116_1970, "GFS2"),
];

/// Rejects a folder on a network file system; an unknown kind is accepted.
pub(super) fn refuse_network(folder: &Path) -> Result<(), StoreError> {
    let Ok(found) = statfs(folder) else { return Ok(()) };
    match network_kind(kind_number(&found)) {
        Some(kind) => Err(StoreError::NetworkFolder { path: folder.into(), kind }),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn kind_number(found: &nix::sys::statfs::Statfs) -> i64 {
    // The kernel's number has 32 bits, whatever type the C library uses.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let number = found.filesystem_type().0 as u32;
    i64::from(number)
}

#[cfg(not(target_os = "linux"))]
fn kind_number(_: &nix::sys::statfs::Statfs) -> i64 {
    0
}

fn network_kind(number: i64) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
}

/// Written once the database is there, so a missing database is a lost one. Its content says which
/// configuration the state belongs to.
pub(super) const USED: &str = "state.json";

/// Files that heartbeat creates in a state folder.
const OWN: [&str; 20] = [
    DATABASE,
    USED,
    SPENT,
    FINISHED,
    "heartbeat.db-wal",
    "heartbeat.db-shm",
    LOCK,
    SCHEDULER_FILE,
    "live.json",
    "live.json.new",
    "runs",
    "scratch",
    "slots",
    "index",
    "agents",
    "backtest",
    "parcel",
    "dashboard-address",
    "dashboard-token",
    "dashboard.html",
];

/// Rejects a folder with another use, since making it private would lock out its users. A missing
/// folder is accepted.
pub fn refuse_foreign(folder: &Path) -> Result<(), StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unusable(folder, error)),
    };
    let not_ours = |why| StoreError::NotOurs { path: folder.into(), why };
    if mode(folder)? & 0o1000 != 0 {
        return Err(not_ours("it is shared by several users".into()));
    }
    if fs::metadata(folder).is_ok_and(|found| found.uid() != geteuid().as_raw()) {
        // Its owner could place a token or a link there that heartbeat would trust.
        return Err(not_ours(
            "it belongs to another user; chown it if it is meant for heartbeat".into(),
        ));
    }
    // While the folder was open to others, one of them may have put a link or a file here.
    let is_foreign = |name: &&&str| {
        let found = fs::symlink_metadata(folder.join(name));
        found.is_ok_and(|found| found.uid() != geteuid().as_raw())
    };
    if let Some(name) = OWN.iter().find(is_foreign) {
        return Err(not_ours(format!("{name:?} in it belongs to another user; remove it")));
    }
    if [DATABASE, LOCK].iter().any(|mark| folder.join(mark).exists()) {
        return Ok(());
    }
    let foreign = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|name| !OWN.contains(&name.as_str()));
    match foreign {
        Some(name) => Err(not_ours(format!("it contains other files, such as {name:?}"))),
        None => Ok(()),
    }
}

/// Creates the folder, or takes one that is empty or already a state, and makes it private. The
/// lock file marks it as a state, even if other files are placed there before the first run.
pub fn prepare_folder(folder: &Path) -> Result<(), StoreError> {
    refuse_foreign(folder)?;
    private::create_folder(folder).map_err(|error| unusable(folder, error))?;
    if mode(folder)? & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(|source| {
            let hint = "Other users can access it and its mode cannot be changed: run chmod 700 \
                        on it";
            StoreError::Folder { path: folder.into(), source, hint }
        })?;
    }
    for name in [DATABASE, "heartbeat.db-wal", "heartbeat.db-shm"] {
        let path = folder.join(name);
        let open = fs::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o077 != 0);
        if open {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
                .map_err(|error| unusable(folder, error))?;
        }
    }
    super::create_private_file(&folder.join(LOCK))
}

fn mode(folder: &Path) -> Result<u32, StoreError> {
    let data = fs::metadata(folder).map_err(|error| unusable(folder, error))?;
    Ok(data.permissions().mode())
}

fn unusable(folder: &Path, source: io::Error) -> StoreError {
    let hint = "Choose a folder that can be used, with --state-dir or [state] dir";
    StoreError::Folder { path: folder.into(), source, hint }
}

/// Notes that this folder has a database.
pub(super) fn mark_used(folder: &Path) -> Result<(), StoreError> {
    let mark = folder.join(USED);
    if mark.exists() {
        return Ok(());
    }
    private::write(&mark, b"{}\n").map_err(|error| unusable(folder, error))
}

/// Forgets that note: the database was set aside on purpose.
pub(super) fn mark_unused(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(USED)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A missing or empty database next to traces of earlier runs has lost its content: SQLite would
/// silently start over, every item would be paid for again and today's spending be forgotten.
pub(super) fn refuse_lost(folder: &Path, database: &Path) -> Result<(), StoreError> {
    let length = |path: &Path| fs::metadata(path).ok().map(|data| data.len());
    let lost = length(database).unwrap_or(0) == 0;
    let log = length(&super::log_of(database)).is_some_and(|length| length > 0);
    let ran = fs::read_dir(folder.join("runs")).is_ok_and(|mut runs| runs.next().is_some());
    match lost && !log && (ran || folder.join(USED).exists()) {
        false => Ok(()),
        true if database.exists() => Err(StoreError::Emptied { path: database.into() }),
        true => Err(StoreError::Vanished { path: database.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_file_systems_are_known_by_their_number() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xFF53_4D42), Some("CIFS"));
        assert_eq!(network_kind(0xEF53), None, "ext4");
        assert_eq!(network_kind(0x0102_1994), None, "tmpfs");
    }

    #[test]
    fn an_entry_of_another_user_is_not_trusted_and_open_files_are_closed_again() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join(DATABASE);
        fs::write(&database, "").unwrap();
        fs::set_permissions(&database, fs::Permissions::from_mode(0o666)).unwrap();
        prepare_folder(folder.path()).unwrap();
        assert_eq!(mode(&database).unwrap() & 0o777, 0o600);

        let link = folder.path().join("scratch");
        std::os::unix::fs::symlink("/home", &link).unwrap();
        prepare_folder(folder.path()).unwrap();
        if !geteuid().is_root() {
            return;
        }
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        let error = prepare_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("\"scratch\" in it belongs to another user"), "{error}");
    }

    #[test]
    fn an_emptied_database_is_not_taken_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("heartbeat.db");
        refuse_lost(folder.path(), &database).unwrap();
        fs::write(&database, "").unwrap();
        refuse_lost(folder.path(), &database).unwrap();
        fs::create_dir_all(folder.path().join("runs/1")).unwrap();
        let error = refuse_lost(folder.path(), &database).unwrap_err();
        assert!(error.to_string().contains("is damaged: the file is empty"), "{error}");
    }
}
