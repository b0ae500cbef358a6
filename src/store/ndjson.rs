//! Completes `events.ndjson` of a crashed run from the database.
//!
//! The file is a copy for readers, written after each commit. A crash in between, a full disk or a
//! torn last line leave it incomplete; the next start replaces it at once, so that a reader never
//! sees half of it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::journal::{EVENTS_FILE, run_folder};
use super::{Store, StoreError};
use crate::event::Recorded;
use crate::model::RunId;

/// Adds the events that the file of `run` lacks; returns their number. The run must be over.
pub async fn catch_up(store: &Store, run: RunId) -> Result<usize, StoreError> {
    let stored = store.events().in_run(run).await?;
    let folder = run_folder(store.folder(), run);
    let completed = tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || complete(&folder, &stored)
    })
    .await?;
    completed.map_err(|source| StoreError::Folder {
        path: folder,
        source,
        hint: "Check that the state folder and the disk can be written",
    })
}

fn complete(folder: &Path, stored: &[Recorded]) -> io::Result<usize> {
    let file = folder.join(EVENTS_FILE);
    let text = match fs::read(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        // A folder that was removed is not created again.
        Err(_) if !folder.is_dir() => return Ok(0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut lines: BTreeMap<i64, String> = whole_lines(&text).collect();
    let torn = !text.is_empty() && !text.ends_with('\n');
    let missing: Vec<&Recorded> =
        stored.iter().filter(|event| !lines.contains_key(&event.seq)).collect();
    if missing.is_empty() && !torn {
        return Ok(0);
    }
    let added = missing.len();
    for event in missing {
        lines.insert(event.seq, serde_json::to_string(event)?);
    }
    replace(&file, lines.values().map(String::as_str))?;
    Ok(added)
}

/// Lines that are events, with their number; anything else is skipped.
fn whole_lines(text: &str) -> impl Iterator<Item = (i64, String)> + '_ {
    text.lines().filter_map(|line| {
        let recorded: Recorded = serde_json::from_str(line).ok()?;
        Some((recorded.seq, line.to_owned()))
    })
}

fn replace<'a>(file: &Path, lines: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let temporary = file.with_extension("ndjson.new");
    let mut new =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    for line in lines {
        writeln!(new, "{line}")?;
    }
    new.sync_all()?;
    fs::rename(&temporary, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::event::{Event, Sink, Trigger};
    use crate::store::Journal;

    async fn run_of(folder: &Path, events: u64) -> (Store, RunId) {
        let store = Store::open(folder).unwrap();
        let run = RunId(uuid::Uuid::now_v7());
        let journal = Journal::open(store.clone(), Clock::system(), Some(run)).unwrap();
        journal.runs().begin(run, Trigger::Manual, 3).await.unwrap();
        for items in 0..events {
            journal.emit(Event::FetchProgressed { items });
        }
        journal.flush().await.unwrap();
        (store, run)
    }

    fn read(store: &Store, run: RunId) -> String {
        fs::read_to_string(run_folder(store.folder(), run).join(EVENTS_FILE)).unwrap()
    }

    #[tokio::test]
    async fn a_torn_and_short_file_becomes_whole_again() {
        let folder = tempfile::tempdir().unwrap();
        let (store, run) = run_of(folder.path(), 5).await;
        let whole = read(&store, run);
        let file = run_folder(store.folder(), run).join(EVENTS_FILE);
        for length in [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            fs::write(&file, &whole.as_bytes()[..length]).unwrap();
            let added = catch_up(&store, run).await.unwrap();
            // Without its last character the file lacks only a newline, not an event.
            assert_eq!(added > 0, length < whole.len() - 1, "{length}");
            assert_eq!(read(&store, run), whole, "cut at {length}");
        }
        assert_eq!(catch_up(&store, run).await.unwrap(), 0, "nothing is left to add");
        assert_eq!(store.runs().unfinished().await.unwrap(), [run]);
    }

    #[tokio::test]
    async fn a_gap_in_the_middle_is_filled_and_rubbish_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (store, run) = run_of(folder.path(), 5).await;
        let whole = read(&store, run);
        let file = run_folder(store.folder(), run).join(EVENTS_FILE);
        let mut lines: Vec<&str> = whole.lines().collect();
        lines.remove(2);
        lines.insert(1, "\0\0\0 no event");
        fs::write(&file, lines.join("\n")).unwrap();
        assert_eq!(catch_up(&store, run).await.unwrap(), 1);
        assert_eq!(read(&store, run), whole);
    }

    #[tokio::test]
    async fn a_removed_folder_stays_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (store, run) = run_of(folder.path(), 1).await;
        fs::remove_dir_all(run_folder(store.folder(), run)).unwrap();
        assert_eq!(catch_up(&store, run).await.unwrap(), 0);
        assert!(!run_folder(store.folder(), run).exists());
    }
}
