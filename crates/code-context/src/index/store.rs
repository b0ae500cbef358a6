//! The folder of one repository's index: immutable segments and a catalogue that names them.
//!
//! A builder holds the lock, writes new segments, then replaces the catalogue in one rename; a
//! crash at any point leaves the old catalogue intact. A reader opens its segments while it holds
//! the lock; open ones stay readable when a later builder removes their names.
//!
//! Nothing is synced to disk: after a crash of the machine, missing data does not match its
//! checksum, and the code index is rebuilt.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use crate::ContextError;
use crate::git::history::History;
use crate::index::catalog::Catalog;
use crate::index::scan::Stamp;
use crate::private_files;
use crate::text::bytes::Malformed;

const CATALOG: &str = "catalog";
const HISTORY: &str = "history";
/// Written at every use, so that its time tells the last one.
const LOCK: &str = "lock";

/// The folder of one repository's index.
#[derive(Debug, Clone)]
pub(crate) struct IndexStore {
    folder: PathBuf,
    root: String,
}

impl IndexStore {
    /// The folder for `root` below `cache`; created if missing, private.
    pub(crate) fn open(cache: &Path, root: &Path) -> Result<Self, ContextError> {
        let root_text = root.to_string_lossy().into_owned();
        let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let key: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name: String = root
            .file_name()
            .map(|name| {
                name.to_string_lossy()
                    .chars()
                    .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
                    .take(40)
                    .collect()
            })
            .unwrap_or_default();
        let folder = cache.join(format!("{name}-{key}"));
        if folder.starts_with(root) {
            return Err(ContextError::CacheInsideRepository { cache: cache.to_owned() });
        }
        private_files::create_folder(&folder)
            .map_err(|source| ContextError::Store { path: folder.clone(), source })?;
        Ok(Self { folder, root: root_text })
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn error(&self, file: &str) -> impl FnOnce(std::io::Error) -> ContextError {
        let path = self.path(file);
        move |source| ContextError::Store { path, source }
    }

    /// Waits until no other builder works here; the lock is released on drop.
    ///
    /// The second value is the file system's current time, to compare file times with.
    pub(crate) fn lock(&self) -> Result<(File, i64), ContextError> {
        let lock = || -> std::io::Result<(File, i64)> {
            let mut file = private_files::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(self.path(LOCK))?;
            file.lock()?;
            file.write_all(b"\n")?;
            let now = Stamp::of(&file.metadata()?).changed;
            Ok((file, now))
        };
        lock().map_err(self.error(LOCK))
    }

    /// The repository's root, as written in the catalogue.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The catalogue; `None` if there is none yet, an error if this version cannot read it.
    pub(crate) fn catalog(&self) -> Result<Option<Catalog>, Malformed> {
        match fs::read(self.path(CATALOG)) {
            Ok(bytes) => Catalog::from_bytes(&bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(_) => Err(Malformed),
        }
    }

    /// Makes `catalog` the current one, then removes segments it does not name.
    pub(crate) fn publish(&self, catalog: &Catalog) -> Result<(), ContextError> {
        self.replace(CATALOG, &catalog.to_bytes())?;
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let named = catalog.segments.iter().any(|segment| segment.file == name);
            if name.starts_with("segment-") && !named {
                // What cannot be removed now is removed by the next build.
                let _left_for_later = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    pub(crate) fn history(&self) -> Option<History> {
        History::from_bytes(&fs::read(self.path(HISTORY)).ok()?).ok()
    }

    pub(crate) fn publish_history(&self, history: &History) -> Result<(), ContextError> {
        self.replace(HISTORY, &history.to_bytes())
    }

    /// Replaces a file atomically.
    fn replace(&self, name: &str, content: &[u8]) -> Result<(), ContextError> {
        let replace = || -> std::io::Result<()> {
            let next = self.path(&format!("{name}.next"));
            let mut file = private_files::create_file(&next)?;
            file.write_all(content)?;
            fs::rename(&next, self.path(name))
        };
        replace().map_err(self.error(name))
    }
}

/// Removes the indexes below `cache` that were not used since `before`; returns how many. They are
/// rebuilt when needed.
pub fn remove_unused(cache: &Path, before: SystemTime) -> usize {
    let Ok(entries) = fs::read_dir(cache) else { return 0 };
    let is_unused = |folder: &Path| {
        let used = fs::metadata(folder.join(LOCK)).and_then(|data| data.modified());
        used.is_ok_and(|used| used < before)
    };
    let folders = entries.flatten().map(|entry| entry.path());
    folders
        .filter(|folder| is_unused(folder))
        .filter(|folder| {
            let builder = File::open(folder.join(LOCK));
            let is_free = builder.as_ref().is_ok_and(|lock| lock.try_lock().is_ok());
            is_free && fs::remove_dir_all(folder).is_ok()
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_nobody_uses_goes_and_one_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, root) = (folder.path(), Path::new("/somewhere"));
        let stores = ["old", "held", "new"].map(|name| {
            let store = IndexStore::open(cache, &root.join(name)).unwrap();
            drop(store.lock().unwrap());
            store
        });
        let long_ago = SystemTime::UNIX_EPOCH;
        for store in &stores[..2] {
            let lock = File::options().write(true).open(store.path(LOCK)).unwrap();
            lock.set_modified(long_ago).unwrap();
        }
        let held = File::open(stores[1].path(LOCK)).unwrap();
        held.try_lock().unwrap();
        let before = long_ago + std::time::Duration::from_secs(1);
        assert_eq!(remove_unused(cache, before), 1);
        assert_eq!(stores.each_ref().map(|store| store.folder.exists()), [false, true, true]);
        drop(held);
        assert_eq!(remove_unused(cache, before), 1);
        assert_eq!(remove_unused(&cache.join("none"), before), 0);
    }
}
