//! The folder of one repository's index: immutable segments and a manifest that names them.
//!
//! A builder holds the lock, writes new segments, then replaces the manifest in one rename; a
//! crash at any point leaves the old manifest whole. Readers take no lock: a segment they have
//! opened stays readable when a later builder removes its name.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::ContextError;
use super::history::History;
use super::scan::Stamp;

/// Raised whenever documents, terms or files change their form; an older index is built anew.
pub(super) const VERSION: u32 = 1;

const MANIFEST: &str = "manifest.json";
const HISTORY: &str = "history";

/// One segment the index consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentName {
    pub file: String,
    /// Documents of it that are gone or have a newer form in another segment.
    pub dead: Vec<u32>,
}

/// What the index consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub version: u32,
    pub root: String,
    /// Counts builds, so that no two segments share a name.
    pub generation: u64,
    /// The file system's time when the last build started to look.
    pub looked_at: i64,
    pub segments: Vec<SegmentName>,
}

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
            file.sync_data()?;
            let now = Stamp::of(&file.metadata()?).changed;
            Ok((file, now))
        };
        lock().map_err(self.error("lock"))
    }

    /// The manifest, if there is one this version understands.
    pub(super) fn manifest(&self) -> Option<Manifest> {
        let text = fs::read(self.path(MANIFEST)).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        let plain = manifest.segments.iter().all(|segment| !segment.file.contains(['/', '\\']));
        (manifest.version == VERSION && manifest.root == self.root && plain).then_some(manifest)
    }

    pub(super) fn empty_manifest(&self) -> Manifest {
        Manifest {
            version: VERSION,
            root: self.root.clone(),
            generation: 0,
            looked_at: 0,
            segments: Vec::new(),
        }
    }

    /// Makes `manifest` the present one, then removes the segments it does not name.
    pub(super) fn publish(&self, manifest: &Manifest) -> Result<(), ContextError> {
        let text =
            serde_json::to_vec(manifest).map_err(|error| self.error(MANIFEST)(error.into()))?;
        self.replace(MANIFEST, &text)?;
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let named = manifest.segments.iter().any(|segment| segment.file == name);
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

    /// Replaces a file in one step that survives a crash.
    fn replace(&self, name: &str, content: &[u8]) -> Result<(), ContextError> {
        let replace = || -> std::io::Result<()> {
            let next = self.path(&format!("{name}.next"));
            let mut file = File::create(&next)?;
            file.write_all(content)?;
            file.sync_data()?;
            fs::rename(&next, self.path(name))?;
            File::open(&self.folder)?.sync_all()
        };
        replace().map_err(self.error(name))
    }
}
