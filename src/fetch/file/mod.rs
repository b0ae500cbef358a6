//! A file or a folder as a source: the export of any tracker, in the form of [`export`].
//!
//! The file is read whole by every run; dedupe decides what is new by the items' texts, so an export
//! that is written anew each night wakes only what changed. An item that says when it changed is
//! offered if that is recent; one that does not, or that names a time to come, has the time of its
//! file. There is no cursor: items may be appended in any order of their times. What is no item is
//! left out and named; the others are read without it. Nothing is ever written back: there is
//! nobody to write to.

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
/// Places that are no items and are named; the rest is counted.
const MAX_NAMED: usize = 5;

#[derive(Clone)]
pub(super) struct FileSource {
    config: settings::Source,
    pub(super) notebook: Arc<Notebook>,
    clock: Clock,
}

/// What the files hold.
#[derive(Default)]
struct Contents {
    items: BTreeMap<ItemId, WorkItem>,
    /// What could not be read, with its place and the reason. Any item may be among it.
    unreadable: Vec<String>,
}

impl Contents {
    fn add(&mut self, item: WorkItem) {
        self.items.insert(item.id, item);
    }

    /// Nothing at all could be read: another form of file.
    fn usable(self) -> Result<Self, FetchError> {
        match self.unreadable.first() {
            Some(first) if self.items.is_empty() => {
                let message = format!("{first}; an item needs at least \"id\" and \"title\"");
                Err(FetchError::new(FailureClass::BadQuery, message))
            }
            _ => Ok(self),
        }
    }

    fn report_unreadable(&self) {
        for place in self.unreadable.iter().take(MAX_NAMED) {
            tracing::error!("{place}; the other items are read without it");
        }
        if let more @ 1.. = self.unreadable.len().saturating_sub(MAX_NAMED) {
            tracing::error!(more, "further lines of the file are no items");
        }
    }
}

impl FileSource {
    pub fn connect(config: &settings::Source, connection: Connection) -> Self {
        let notebook = Notebook::new(connection.memory, &config.name);
        Self { config: config.clone(), notebook, clock: connection.clock }
    }

    fn read(&self) -> Result<Contents, FetchError> {
        let mut contents = Contents::default();
        for path in self.files()? {
            self.read_file(&path, &mut contents)?;
        }
        contents.usable()
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

    fn read_file(&self, path: &Path, contents: &mut Contents) -> Result<(), FetchError> {
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
        for (line, value) in export::values(&text) {
            let parsed = value.and_then(|value| export::item(value, &self.config.text_fields));
            let mut item = match parsed {
                Ok(item) => item,
                Err(error) => {
                    let place = format!("{}, item or line {line}: {error}", path.display());
                    contents.unreadable.push(place);
                    continue;
                }
            };
            item.key = ItemKey::new(&self.config.name, item.id);
            if item.changed_at == Timestamp::UNIX_EPOCH {
                (item.changed_at, item.rev) = (written, written.as_millisecond());
            }
            if item.changed_at > now {
                item.changed_at = written;
            }
            if filters::admits(&self.config, &item) {
                contents.add(item);
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
    async fn contents(&self) -> Result<Contents, FetchError> {
        // Reading files is quick, but the disk may not be.
        let file = self.clone();
        let read = tokio::task::spawn_blocking(move || file.read()).await;
        read.unwrap_or_else(|panicked| {
            Err(FetchError::new(FailureClass::Transient, panicked.to_string()))
        })
    }

    /// All items, by number, for a question about single ones. If some are on lines that cannot be
    /// read, an answer would say of them that they are gone.
    async fn all_items(&self) -> Result<BTreeMap<ItemId, WorkItem>, FetchError> {
        let Contents { items, unreadable } = self.contents().await?;
        match unreadable.into_iter().next() {
            Some(place) => Err(FetchError::new(FailureClass::BadQuery, place)),
            None => Ok(items),
        }
    }

    pub async fn check(&self) -> Result<(), FetchError> {
        self.contents().await.map(drop)
    }

    /// A corrected file is a corrected configuration: its time says that somebody tried.
    pub fn configuration_fingerprint(&self) -> String {
        let path = &self.config.path;
        let changed = std::fs::metadata(path).and_then(|data| data.modified()).ok();
        format!("{} {changed:?}", path.display())
    }

    pub(super) fn listing(self: Arc<Self>, _request: &FetchRequest) -> WholeFile {
        WholeFile { file: self, is_read: false }
    }

    pub async fn still_matching(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, FetchError> {
        let all = self.all_items().await?;
        Ok(ids.iter().copied().filter(|id| all.contains_key(id)).collect())
    }

    pub async fn current_states(&self, ids: &[ItemId]) -> Result<Vec<CurrentState>, FetchError> {
        let mut all = self.all_items().await?;
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
        let contents = self.contents().await?;
        contents.report_unreadable();
        Ok(contents.items.len())
    }
}

/// All that changed is one page, with the items that are requested by number.
pub(super) struct WholeFile {
    file: Arc<FileSource>,
    is_read: bool,
}

impl Listing for WholeFile {
    fn page_size(&self) -> usize {
        usize::MAX
    }

    async fn begin(&mut self) -> Result<(), FetchError> {
        Ok(())
    }

    async fn named(&mut self, ids: Vec<ItemId>) -> Result<Batch, FetchError> {
        let Contents { mut items, unreadable } = self.file.contents().await?;
        let mut batch = Batch::default();
        for id in ids {
            match items.remove(&id) {
                Some(item) => batch.items.push(item),
                None if unreadable.is_empty() => batch.vanished.push(id),
                None => batch.failed.push(id),
            }
        }
        Ok(batch)
    }

    async fn changes(
        &mut self,
        delivered: &mut HashSet<ItemId>,
    ) -> Result<Option<Read>, FetchError> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(None);
        }
        let contents = self.file.contents().await?;
        contents.report_unreadable();
        let now = self.file.clock.now();
        let look_back = now.checked_sub(self.file.config.look_back);
        let since = look_back.unwrap_or(Timestamp::UNIX_EPOCH);
        let mut items: Vec<WorkItem> = contents.items.into_values().collect();
        items.retain(|item| item.changed_at >= since && delivered.insert(item.id));
        items.sort_by_key(|item| (item.changed_at, item.id));
        Ok(Some((Page { items, ..Page::default() }, None)))
    }
}

fn nobody_to_write_to() -> FetchError {
    FetchError::new(
        FailureClass::Config,
        "a source of kind \"file\" cannot be written to; set source.write_back = false",
    )
}
