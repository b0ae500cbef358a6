//! A file or a folder as a source: the export of any tracker, in the form of [`export`].
//!
//! The file is read whole by every run; dedupe decides what is new by the items' texts, so an export
//! that is written anew each night wakes only what changed. An item that says when it changed is
//! offered if that is recent; one that does not has the time of its file. Nothing is ever written
//! back: there is nobody to write to.

pub mod export;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Connection, CurrentState, Details, FetchError, FetchRequest, FieldWrite, Notebook, Page, Pages,
    Probe, Source, Tracker, WriteBack, Written, filters,
};
use crate::clock::Clock;
use crate::model::{BoxFuture, FailureClass, ItemId, ItemKey, WorkItem};
use crate::settings;

/// Files of a folder that are read; more is a mistake in `source.path`.
const MAX_FILES: usize = 10_000;

#[derive(Clone)]
pub struct FileSource(Arc<Inner>);

struct Inner {
    config: settings::Source,
    notebook: Arc<Notebook>,
    clock: Clock,
}

impl FileSource {
    pub fn connect(config: &settings::Source, connection: Connection) -> Self {
        let notebook = Notebook::new(connection.memory, &config.name);
        Self(Arc::new(Inner { config: config.clone(), notebook, clock: connection.clock }))
    }

    /// All items, by number. Reading files is quick, but the disk may not be.
    async fn items(&self) -> Result<BTreeMap<ItemId, WorkItem>, FetchError> {
        let inner = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || inner.read()).await;
        read.unwrap_or_else(|panicked| {
            Err(FetchError::new(FailureClass::Transient, panicked.to_string()))
        })
    }
}

impl Inner {
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

impl Source for FileSource {
    fn open(&self, request: FetchRequest) -> BoxFuture<'_, Result<Box<dyn Pages>, FetchError>> {
        let source = self.clone();
        Box::pin(async move { Ok(Box::new(FilePages { source, request, done: false }) as _) })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), FetchError>> {
        Box::pin(async { self.items().await.map(drop) })
    }

    fn configuration_fingerprint(&self) -> BoxFuture<'_, Option<String>> {
        // A corrected file is a corrected configuration: its time says that somebody tried.
        let changed = std::fs::metadata(&self.0.config.path).and_then(|data| data.modified()).ok();
        let path = self.0.config.path.clone();
        Box::pin(async move { Some(format!("{} {changed:?}", path.display())) })
    }
}

struct FilePages {
    source: FileSource,
    request: FetchRequest,
    done: bool,
}

impl Pages for FilePages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Page>, FetchError>> {
        Box::pin(async move {
            if std::mem::replace(&mut self.done, true) {
                return Ok(None);
            }
            let mut all = self.source.items().await?;
            let also: Vec<ItemId> = self.request.also.clone();
            let vanished = also.iter().copied().filter(|id| !all.contains_key(id)).collect();
            let cursor = all.values().map(|item| item.changed_at).max();
            let look_back = self.source.0.config.look_back;
            let since = self.request.changed_since.unwrap_or_else(|| {
                self.source.0.clock.now().checked_sub(look_back).unwrap_or(Timestamp::UNIX_EPOCH)
            });
            all.retain(|id, item| item.changed_at >= since || also.contains(id));
            let mut items: Vec<WorkItem> = all.into_values().collect();
            items.sort_by_key(|item| (item.changed_at, item.id));
            Ok(Some(Page { items, vanished, undelivered: Vec::new(), cursor }))
        })
    }

    fn requests(&self) -> u64 {
        0
    }
}

impl Details for FileSource {
    fn still_matching(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<ItemId>>, FetchError>> {
        Box::pin(async move {
            let all = self.items().await?;
            Ok(Some(ids.into_iter().filter(|id| all.contains_key(id)).collect()))
        })
    }

    fn current_states(
        &self,
        ids: Vec<ItemId>,
    ) -> BoxFuture<'_, Result<Option<Vec<CurrentState>>, FetchError>> {
        Box::pin(async move {
            let all = self.items().await?;
            let state = |item: &WorkItem| CurrentState {
                id: item.id,
                rev: item.rev,
                state: item.state.clone(),
                finished: item.finished,
                changed_at: item.changed_at,
            };
            Ok(Some(ids.iter().filter_map(|id| all.get(id)).map(state).collect()))
        })
    }
}

impl Tracker for FileSource {
    fn notebook(&self) -> Arc<Notebook> {
        Arc::clone(&self.0.notebook)
    }

    fn requests(&self) -> u64 {
        0
    }

    fn write_back<'a>(
        &'a self,
        _write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<Written, FetchError>> {
        Box::pin(async { Err(nobody_to_write_to()) })
    }

    fn validate_write_back<'a>(
        &'a self,
        _write: &'a WriteBack<'a>,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async { Err(nobody_to_write_to()) })
    }

    fn set_fields<'a>(
        &'a self,
        _write: &'a FieldWrite,
    ) -> BoxFuture<'a, Result<Written, FetchError>> {
        Box::pin(async { Err(nobody_to_write_to()) })
    }

    fn probe(&self) -> BoxFuture<'_, Probe> {
        Box::pin(async move {
            let files = self.0.files();
            let name = self.0.config.path.display().to_string();
            Probe {
                account: files.map(|files| format!("reader of {} files", files.len())),
                project: Ok(name),
                matching: self.items().await.map(|items| items.len()),
            }
        })
    }
}

fn nobody_to_write_to() -> FetchError {
    FetchError::new(
        FailureClass::Config,
        "a source of kind \"file\" cannot be written to; set source.write_back = false",
    )
}
