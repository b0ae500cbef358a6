//! `live.json`: the current state of a run in the state folder, for monitors without a connection.
//!
//! The file is replaced atomically at every change of stage, when a session begins or ends, and at
//! every liveness interval. The age of `written_at` shows whether heartbeat is alive.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::event::fold::RunView;
use crate::event::{Event, Recorded};
use crate::private;
use crate::store::Journal;

/// Name of the file in the state folder.
pub const FILE: &str = "live.json";

#[derive(Debug, Serialize)]
struct Live<'a> {
    /// At most one liveness interval old while heartbeat is alive.
    written_at: Timestamp,
    /// Number of writes in this run, from 1.
    beat: u64,
    /// heartbeat's own process.
    pid: u32,
    /// Maximum interval between two writes.
    interval_ms: u64,
    #[serde(flatten)]
    view: &'a RunView,
}

/// Keeps a run's `live.json` up to date until the run has ended. `events` must have been subscribed
/// from `journal` before the run began.
pub async fn keep(
    journal: Journal,
    mut events: Receiver<Recorded>,
    folder: PathBuf,
    every: Duration,
) {
    let mut timer = tokio::time::interval(every.max(Duration::from_millis(10)));
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut beat = 0;
    let mut written = RunView::default();
    loop {
        let due = tokio::select! {
            _ = timer.tick() => true,
            received = events.recv() => match received {
                Ok(recorded) => matches!(recorded.event, Event::RunEnded { .. }),
                // The fold is complete; only the notification was missed.
                Err(RecvError::Lagged(_)) => true,
                Err(RecvError::Closed) => return,
            },
        };
        let view = journal.view();
        if due || is_another_stage(&written, &view) {
            beat += 1;
            let ended = view.outcome.is_some();
            write(journal.clock().now(), &folder, every, beat, &view).await;
            if ended {
                return;
            }
            written = view;
        }
    }
}

/// Writes the final view of a run that crashed.
pub async fn write_final(written_at: Timestamp, folder: &Path, every: Duration, view: &RunView) {
    write(written_at, folder, every, 1, view).await;
}

async fn write(written_at: Timestamp, folder: &Path, every: Duration, beat: u64, view: &RunView) {
    let interval_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
    let pid = std::process::id();
    let live = Live { written_at, beat, pid, interval_ms, view };
    if let Err(error) = replace(folder, &live).await {
        tracing::warn!(%error, folder = %folder.display(), "could not write live.json");
    }
}

/// Whether something changed that a monitor should see at once.
fn is_another_stage(before: &RunView, now: &RunView) -> bool {
    before.step != now.step
        || before.outcome != now.outcome
        || before.ended_sessions != now.ended_sessions
        || !before.sessions.keys().eq(now.sessions.keys())
}

async fn replace(folder: &Path, live: &Live<'_>) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(live)?;
    let file = folder.join(FILE);
    tokio::task::spawn_blocking(move || private::replace(&file, &text))
        .await
        .map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::event::{LiveVerdict, Liveness, RunOutcome, RunSummary, Sink, Trigger};
    use crate::model::{RunId, SessionId, Stage};
    use crate::store::{Digest, Store, run_folder};

    const EVERY: Duration = Duration::from_millis(20);

    fn read(folder: &Path) -> Option<serde_json::Value> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Waits for an expected state; the test runner's time limit ends a failed wait.
    async fn until(folder: &Path, right: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        loop {
            if let Some(live) = read(folder).filter(&right) {
                return live;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[tokio::test]
    async fn a_quiet_stage_is_written_at_every_interval_and_the_end_is_the_last_word() {
        let state = tempfile::tempdir().unwrap();
        let (run, session) = (RunId(uuid::Uuid::now_v7()), SessionId(uuid::Uuid::now_v7()));
        let store = Store::open(state.path()).unwrap();
        let journal = Journal::open(store, Clock::system(), Some(run)).unwrap();
        let folder = run_folder(state.path(), run);
        let keeping = tokio::spawn(keep(journal.clone(), journal.follow(), folder.clone(), EVERY));
        journal.runs().begin(run, Trigger::Manual, 3).await.unwrap();
        journal.emit(Event::TriageStarted { items: 1, sessions: 1 });
        journal.emit(Event::SessionRegistered {
            session,
            stage: Stage::Triage,
            item: None,
            attempt: 1,
            keeper_pid: 1,
            tier: "subreaper".into(),
            limit_ms: 1000,
            worst_case: crate::model::Usd::ZERO,
        });
        journal.flush().await.unwrap();
        let id = session.to_string();
        let live = until(&folder, |live| live["sessions"][&id].is_object()).await;
        assert_eq!(live["step"], "triaging", "{live}");
        // No event arrives, yet the file is written again.
        let first = live["beat"].as_u64().unwrap();
        until(&folder, |live| live["beat"].as_u64() >= Some(first + 3)).await;
        let liveness = Liveness {
            beat: 1,
            verdict: LiveVerdict::Quiet,
            evidence: "no output for 3 m".into(),
            elapsed_ms: 1,
            deadline_in_ms: 1,
            since_progress_ms: 1,
            since_output_ms: 1,
            stdout_bytes: 0,
            lines: 0,
            open_tool: None,
            processes: 2,
            new_processes: 0,
            cpu_leader_ms: 0,
            cpu_tools_ms: 0,
            rss_kib: 0,
        };
        journal.emit(Event::SessionLiveness { session, liveness });
        journal.flush().await.unwrap();
        until(&folder, |live| live["sessions"][session.to_string()]["verdict"] == "quiet").await;
        journal
            .runs()
            .end(run, RunOutcome::Completed, RunSummary::default(), Digest::None)
            .await
            .unwrap();
        keeping.await.unwrap();
        let last = read(&folder).unwrap();
        assert_eq!(last["outcome"], "completed");
        assert_eq!(last["run"], run.to_string());
        assert!(!folder.join("live.json.new").exists());
    }
}
