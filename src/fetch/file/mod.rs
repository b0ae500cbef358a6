//! A file or a folder as a source: the export of any tracker, in the form of [`export`].
//!
//! The file is read whole by every run; dedupe decides what is new by the items' texts, so an export
//! that is written anew each night wakes only what changed. An item that says when it changed is
//! offered if that is recent; one that does not has the time of its file. Nothing is ever written
//! back: there is nobody to write to.

pub mod export;

use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::pages::{Batch, Listing, Read};
use super::{
    Connection, CurrentState, FetchError, FetchRequest, FieldChange, Notebook, Page, WriteBack,
    Written, filters,
};
use crate::clock::Clock;
use crate::model::{Attachment, FailureClass, ItemId, ItemKey, WorkItem};
use crate::settings;

/// Files of a folder that are read; more is a mistake in `source.path`.
const MAX_FILES: usize = 10_000;

#[derive(Clone)]
pub(super) struct FileSource {
    config: settings::Source,
    pub(super) notebook: Arc<Notebook>,
    clock: Clock,
}

impl FileSource {
    pub fn connect(config: &settings::Source, connection: Connection) -> Self {
        let notebook = Notebook::new(connection.memory, &config.name);
        Self { config: config.clone(), notebook, clock: connection.clock }
    }

    fn read(&self) -> Result<BTreeMap<ItemId, WorkItem>, FetchError> {
        let mut items = BTreeMap::new();
        for path in self.files()? {
            self.read_file(&path, &mut items)?;
        }
        Ok(items)
    }

    /// The file, or the `.json`, `.jsonl` and `.ndjson` files of the folder.
    fn files(&self) -> Result<Vec<PathBuf>, FetchError> {
        let path = &self.config.path;
        let wrong = |error: &std::io::Error| cannot_read(path, error);
        if !std::fs::metadata(path).map_err(|error| wrong(&error))?.is_dir() {
            return Ok(vec![path.clone()]);
        }
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|error| wrong(&error))? {
            let file = entry.map_err(|error| wrong(&error))?.path();
            let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if ["json", "jsonl", "ndjson"].contains(&ending) && file.is_file() {
                files.push(file);
            }
        }
        if files.len() > MAX_FILES {
            let message = format!(
                "{} has {} files, more than {MAX_FILES}; put the items into one file with an item \
                 per line",
                path.display(),
                files.len()
            );
            return Err(FetchError::new(FailureClass::TooMany, message));
        }
        // Of an item that is in several files, the last one by name counts.
        files.sort_unstable();
        Ok(files)
    }

    fn read_file(
        &self,
        path: &Path,
        items: &mut BTreeMap<ItemId, WorkItem>,
    ) -> Result<(), FetchError> {
        let file = std::fs::File::open(path).map_err(|error| cannot_read(path, &error))?;
        let written = file.metadata().and_then(|data| data.modified()).ok();
        let written = written.and_then(|time| Timestamp::try_from(time).ok());
        // A file from a machine whose clock is ahead must not hide later changes.
        let now = self.clock.now();
        let written = written.map_or(now, |time| time.min(now));
        let mut text = String::new();
        let limit = self.config.max_body;
        let read = file.take(limit + 1).read_to_string(&mut text);
        let length = read.map_err(|error| cannot_read(path, &error))?;
        if u64::try_from(length).unwrap_or(u64::MAX) > limit {
            let message = format!(
                "{} is larger than source.max_body ({limit} bytes); raise it, or put the items into \
                 several files of one folder",
                path.display()
            );
            return Err(FetchError::new(FailureClass::TooMany, message));
        }
        let wrong = |(line, error): (usize, serde_json::Error)| {
            let message = format!(
                "{}, item or line {line}: {error}; an item needs at least \"id\" and \"title\"",
                path.display()
            );
            FetchError::new(FailureClass::BadQuery, message)
        };
        for (line, value) in export::values(&text).map_err(wrong)? {
            let parsed = export::item(value, &self.config.text_fields);
            let mut item = parsed.map_err(|error| wrong((line, error)))?;
            item.key = ItemKey::new(&self.config.name, item.id);
            if item.changed_at == Timestamp::UNIX_EPOCH {
                (item.changed_at, item.rev) = (written, written.as_millisecond());
            }
            if filters::admits(&self.config, &item) {
                items.insert(item.id, item);
            }
        }
        Ok(())
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> FetchError {
    let message = format!(
        "source.path: cannot read {}: {error}; write the path of a JSON Lines file, a JSON array, or a \
         folder of such files",
        path.display()
    );
    // An export that is being replaced is missing for a moment.
    let class = match error.kind() {
        std::io::ErrorKind::PermissionDenied => FailureClass::Denied,
        std::io::ErrorKind::InvalidData => FailureClass::BadQuery,
        _ => FailureClass::Transient,
    };
    FetchError::new(class, message)
}

impl FileSource {
    /// All items, by number.
    async fn items(&self) -> Result<BTreeMap<ItemId, WorkItem>, FetchError> {
        // Reading files is quick, but the disk may not be.
        let file = self.clone();
        let read = tokio::task::spawn_blocking(move || file.read()).await;
        read.unwrap_or_else(|panicked| {
            Err(FetchError::new(FailureClass::Transient, panicked.to_string()))
        })
    }

    pub async fn check(&self) -> Result<(), FetchError> {
        self.items().await.map(drop)
    }

    /// A corrected file is a corrected configuration: its time says that somebody tried.
    pub fn configuration_fingerprint(&self) -> String {
        let path = &self.config.path;
        let changed = std::fs::metadata(path).and_then(|data| data.modified()).ok();
        format!("{} {changed:?}", path.display())
    }

    pub(super) fn listing(self: Arc<Self>, request: &FetchRequest) -> WholeFile {
        WholeFile { file: self, request: Some(request.clone()) }
    }

    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, FetchError> {
        let all = self.items().await?;
        Ok(ids.iter().copied().filter(|id| all.contains_key(id)).collect())
    }

    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, FetchError> {
        let mut all = self.items().await?;
        Ok(ids.iter().filter_map(|id| all.remove(id)).map(CurrentState::from).collect())
    }

    pub async fn attachment(&self, file: &Attachment, _limit: u64) -> Result<Vec<u8>, FetchError> {
        let message = format!("the source cannot read attached files, such as {:?}", file.name);
        Err(FetchError::new(FailureClass::Config, message))
    }

    pub async fn write(&self, _write: &WriteBack<'_>) -> Result<Written, FetchError> {
        Err(nobody_to_write_to())
    }

    pub async fn validate(&self, _write: &WriteBack<'_>) -> Result<(), FetchError> {
        Err(nobody_to_write_to())
    }

    pub async fn current(&self, _id: ItemId) -> Result<WorkItem, FetchError> {
        Err(nobody_to_write_to())
    }

    pub async fn write_fields(
        &self,
        _item: &WorkItem,
        _changes: &[&FieldChange],
    ) -> Result<i64, FetchError> {
        Err(nobody_to_write_to())
    }

    pub async fn account(&self) -> Result<String, FetchError> {
        Ok(format!("reader of {} files", self.files()?.len()))
    }

    pub async fn project_name(&self) -> Result<String, FetchError> {
        Ok(self.config.path.display().to_string())
    }

    pub async fn matching(&self) -> Result<usize, FetchError> {
        Ok(self.items().await?.len())
    }
}

/// All that changed is one page, with the items that are requested by number.
pub(super) struct WholeFile {
    file: Arc<FileSource>,
    request: Option<FetchRequest>,
}

impl Listing for WholeFile {
    fn page_size(&self) -> usize {
        usize::MAX
    }

    async fn begin(&mut self) -> Result<(), FetchError> {
        Ok(())
    }

    async fn named(&mut self, ids: Vec<ItemId>) -> Result<Batch, FetchError> {
        let mut all = self.file.items().await?;
        let mut batch = Batch::default();
        for id in ids {
            match all.remove(&id) {
                Some(item) => batch.items.push(item),
                None => batch.vanished.push(id),
            }
        }
        Ok(batch)
    }

    async fn changes(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> Result<Option<Read>, FetchError> {
        let Some(request) = self.request.take() else { return Ok(None) };
        let all = self.file.items().await?;
        let cursor = all.values().map(|item| item.changed_at).max();
        let now = self.file.clock.now();
        let since = request.changed_since.unwrap_or_else(|| {
            now.checked_sub(self.file.config.look_back).unwrap_or(Timestamp::UNIX_EPOCH)
        });
        let mut items: Vec<WorkItem> = all.into_values().collect();
        items.retain(|item| item.changed_at >= since && delivered.insert(item.id));
        items.sort_by_key(|item| (item.changed_at, item.id));
        Ok(Some((Page { items, cursor, ..Page::default() }, None)))
    }
}

fn nobody_to_write_to() -> FetchError {
    FetchError::new(
        FailureClass::Config,
        "a source of kind \"file\" cannot be written to; set source.write_back = false",
    )
}
