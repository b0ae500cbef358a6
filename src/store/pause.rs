//! Whether the schedule is paused. Stored in the state, so it survives a restart.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::rows::to_json;
use super::subjects::{Reader, Ticks};
use super::{Journal, StoreError};
use crate::event::Event;

/// Since when the schedule is paused, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub since: Timestamp,
    /// The user's reason; may be empty.
    #[serde(default)]
    pub note: String,
}

impl<R: Reader> Ticks<'_, R> {
    /// `None` if the schedule is not paused.
    pub async fn pause_state(self) -> Result<Option<Pause>, StoreError> {
        let sql = "SELECT value FROM facts WHERE name = 'paused'";
        let stored: Option<String> = self.first_row(sql, [], |row| row.get(0)).await?;
        stored.map(|text| serde_json::from_str(&text).map_err(StoreError::Unreadable)).transpose()
    }
}

impl Ticks<'_, Journal> {
    /// Starts no scheduled run until [`resume`](Self::resume). A run in progress continues. False
    /// if it was already paused; its reason is kept.
    pub async fn pause(self, note: String) -> Result<bool, StoreError> {
        let since = self.0.clock().now();
        self.0
            .commit(move |transaction, events| {
                let value = to_json(&Pause { since, note: note.clone() })?;
                let paused = transaction.execute(
                    "INSERT OR IGNORE INTO facts (name, value) VALUES ('paused', ?1)",
                    [value],
                )? == 1;
                if paused {
                    events.push(Event::SchedulePaused { note });
                }
                Ok(paused)
            })
            .await
    }

    /// Resumes the schedule. False if it was not paused.
    pub async fn resume(self) -> Result<bool, StoreError> {
        self.0
            .commit(move |transaction, events| {
                let resumed =
                    transaction.execute("DELETE FROM facts WHERE name = 'paused'", [])? == 1;
                if resumed {
                    events.push(Event::ScheduleResumed);
                }
                Ok(resumed)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::Clock;
    use crate::store::{Journal, Store};

    #[tokio::test]
    async fn a_pause_outlives_its_process_and_keeps_its_first_note() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let clock = Clock::manual("2026-11-16T08:00:00Z".parse().unwrap());
            Journal::open(Store::open(folder.path()).unwrap(), clock, None).unwrap()
        };
        assert!(!open().ticks().resume().await.unwrap(), "it is not paused");
        assert!(open().ticks().pause("release".into()).await.unwrap());
        assert!(!open().ticks().pause("again".into()).await.unwrap());
        let pause = open().ticks().pause_state().await.unwrap().unwrap();
        assert_eq!(
            (pause.since.to_string(), &*pause.note),
            ("2026-11-16T08:00:00Z".into(), "release")
        );
        assert!(open().ticks().resume().await.unwrap());
        assert_eq!(open().ticks().pause_state().await.unwrap(), None);
        let events = open().store().events().after(0, 10).await.unwrap();
        assert_eq!(events.len(), 2, "one pause, one resume: {events:?}");
    }
}
