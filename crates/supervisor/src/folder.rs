//! The size of a session's folder: an agent that writes without end must not fill the disk that the
//! state is on.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes on disk that a session may have in its folder.
const MAX_BYTES: u64 = 1 << 30;
/// Files and folders in it.
const MAX_ENTRIES: u64 = 50_000;

/// Watches a folder beside the loop of its session.
#[derive(Debug)]
pub struct FolderWatch {
    max_bytes: u64,
    max_entries: u64,
    is_over: Arc<AtomicBool>,
    is_measuring: Arc<AtomicBool>,
}

impl Default for FolderWatch {
    fn default() -> Self {
        Self::of(MAX_BYTES, MAX_ENTRIES)
    }
}

impl FolderWatch {
    pub fn of(max_bytes: u64, max_entries: u64) -> Self {
        let (is_over, is_measuring) = Default::default();
        Self { max_bytes, max_entries, is_over, is_measuring }
    }

    /// Whether a finished measurement found too much; begins the next one. `nameless_kib` are files
    /// that were removed from it and are still open.
    pub fn is_over(&self, folder: &Path, nameless_kib: u64) -> bool {
        if nameless_kib > self.max_bytes / 1024 {
            return true;
        }
        if !self.is_measuring.swap(true, Ordering::AcqRel) {
            let folder = folder.to_path_buf();
            let (max_bytes, max_entries) = (self.max_bytes, self.max_entries);
            let (over, measuring) = (Arc::clone(&self.is_over), Arc::clone(&self.is_measuring));
            // A large folder takes long to read, and the loop has other work.
            tokio::task::spawn_blocking(move || {
                if exceeds(folder, max_bytes, max_entries) {
                    over.store(true, Ordering::Release);
                }
                measuring.store(false, Ordering::Release);
            });
        }
        self.is_over.load(Ordering::Acquire)
    }
}

/// Reads no further than needed for the answer. Links are not followed; what disappears meanwhile
/// is not counted.
fn exceeds(folder: PathBuf, most_bytes: u64, most_entries: u64) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    let mut folders = vec![folder];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            entries += 1;
            let Ok(data) = entry.metadata() else { continue };
            // Blocks: a file with holes takes less than its length.
            bytes = bytes.saturating_add(data.blocks().saturating_mul(512));
            if bytes > most_bytes || entries > most_entries {
                return true;
            }
            if data.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_entries_count_at_any_depth_and_holes_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b/c");
        fs::create_dir_all(&inside).unwrap();
        fs::write(inside.join("file"), vec![1; 100_000]).unwrap();
        fs::File::create(inside.join("hole")).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/", inside.join("link")).unwrap();
        let over = |bytes, entries| exceeds(folder.path().into(), bytes, entries);
        assert!(!over(200_000, 6));
        assert!(over(50_000, 6));
        assert!(over(200_000, 5));
        assert!(!exceeds(folder.path().join("missing"), 0, 0));
    }
}
