//! `live.json`: the run as it stands now, for whoever watches from outside. Always whole: it is
//! replaced, never written in place.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::event::fold::RunView;
use crate::event::{Event, Recorded};
use crate::store::Journal;

/// The file's name in the state folder.
pub const LIVE_FILE: &str = "live.json";
/// Changes that come faster than this are written together.
const SETTLE: Duration = Duration::from_millis(100);

/// What is in the file.
#[derive(Debug, Serialize)]
struct LiveFile<'a> {
    /// When it was written. A watcher compares it with its own clock: while a session is alive,
    /// it is never older than the configured interval of the signs of life.
    written_at: Timestamp,
    /// The process that writes it.
    pid: u32,
    #[serde(flatten)]
    view: &'a RunView,
}

/// Keeps the file up to date until the run has ended.
pub async fn keep(mut events: Receiver<Recorded>, journal: Journal, folder: PathBuf) {
    loop {
        let mut over = match events.recv().await {
            Ok(recorded) => matches!(recorded.event, Event::RunEnded { .. }),
            // What was missed is in the view.
            Err(RecvError::Lagged(_)) => false,
            Err(RecvError::Closed) => return,
        };
        if !over {
            tokio::time::sleep(SETTLE).await;
        }
        loop {
            match events.try_recv() {
                Ok(recorded) => over |= matches!(recorded.event, Event::RunEnded { .. }),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let view = journal.view();
        if let Err(error) = replace(&folder, &view, journal.clock().now()) {
            tracing::warn!(%error, "live.json could not be written");
        }
        if over {
            return;
        }
    }
}

fn replace(folder: &Path, view: &RunView, written_at: Timestamp) -> io::Result<()> {
    let live = LiveFile { written_at, pid: std::process::id(), view };
    let beside = folder.join(format!(".{LIVE_FILE}.{}", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(&serde_json::to_vec(&live)?)?;
    fs::rename(&beside, folder.join(LIVE_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::event::{RunOutcome, RunSummary, Sink, Trigger};
    use crate::model::RunId;
    use crate::store::Store;

    #[tokio::test]
    async fn the_file_is_whole_at_every_moment_and_ends_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let run = RunId(uuid::Uuid::now_v7());
        let journal = Journal::open(store, Clock::system(), Some(run)).unwrap();
        let keeping = keep(journal.follow(), journal.clone(), folder.path().into());
        let keeping = tokio::spawn(keeping);
        journal.begin_run(run, Trigger::Manual, 3).await.unwrap();
        let file = folder.path().join(LIVE_FILE);
        let mut seen = 0;
        while seen < 20 {
            journal.emit(Event::FetchProgressed { items: 3 });
            journal.flush().await.unwrap();
            if let Ok(text) = fs::read(&file) {
                let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
                assert_eq!(value["run"], run.to_string());
                seen += 1;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        journal.end_run(run, RunOutcome::Completed, RunSummary::default()).await.unwrap();
        keeping.await.unwrap();
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!((&value["step"], &value["outcome"]), (&"ended".into(), &"completed".into()));
        assert_eq!(value["fetched"], 3);
    }
}
