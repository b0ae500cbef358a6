//! The folder of one repository's index: immutable segments and a catalogue that names them.
//!
//! A builder holds the lock, writes new segments, then replaces the catalogue in one rename; a
//! crash at any point leaves the old catalogue whole. A reader opens its segments while it holds the
//! lock; what it has opened stays readable when a later builder removes its name.
//!
//! Nothing waits for the disk: should the machine itself go down, what is missing then does not
//! agree with its sum, and the index is built anew.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::ContextError;
use super::bytes::Malformed;
use super::catalog::Catalog;
use super::history::History;
use super::scan::Stamp;

const CATALOG: &str = "catalog";
const HISTORY: &str = "history";

/// The folder of one repository's index.
#[derive(Debug, Clone)]
pub(super) struct Store {
    folder: PathBuf,
    root: String,
}

impl Store {
    /// The folder for `root` below `cache`; made if it is missing, closed to others.
    pub(super) fn open(cache: &Path, root: &Path) -> Result<Self, ContextError> {
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
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .recursive(true)
            .create(&folder)
            .map_err(|source| ContextError::Store { path: folder.clone(), source })?;
        Ok(Self { folder, root: root_text })
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn error(&self, file: &str) -> impl FnOnce(std::io::Error) -> ContextError {
        let path = self.path(file);
        move |source| ContextError::Store { path, source }
    }

    /// Waits until no other builder works here; the lock ends with the value.
    ///
    /// The second value is the file system's present time, by which file times can be judged.
    pub(super) fn lock(&self) -> Result<(File, i64), ContextError> {
        let lock = || -> std::io::Result<(File, i64)> {
            let mut file =
                File::options().create(true).truncate(false).write(true).open(self.path("lock"))?;
            file.lock()?;
            file.write_all(b"\n")?;
            let now = Stamp::of(&file.metadata()?).changed;
            Ok((file, now))
        };
        lock().map_err(self.error("lock"))
    }

    /// The repository's root, as the catalogue writes it.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The catalogue, none if there is none yet, or an error if this version cannot read it.
    pub(super) fn catalog(&self) -> Result<Option<Catalog>, Malformed> {
        match fs::read(self.path(CATALOG)) {
            Ok(bytes) => Catalog::from_bytes(&bytes).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(_) => Err(Malformed),
        }
    }

    /// Makes `catalog` the present one, then removes the segments it does not name.
    pub(super) fn publish(&self, catalog: &Catalog) -> Result<(), ContextError> {
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

    pub(super) fn history(&self) -> Option<History> {
        History::from_bytes(&fs::read(self.path(HISTORY)).ok()?).ok()
    }

    pub(super) fn publish_history(&self, history: &History) -> Result<(), ContextError> {
        self.replace(HISTORY, &history.to_bytes())
    }

    /// Replaces a file in one step.
    fn replace(&self, name: &str, content: &[u8]) -> Result<(), ContextError> {
        let replace = || -> std::io::Result<()> {
            let next = self.path(&format!("{name}.next"));
            fs::write(&next, content)?;
            fs::rename(&next, self.path(name))
        };
        replace().map_err(self.error(name))
    }
}
