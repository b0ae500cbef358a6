//! Checks the database for damage at the start of the service and once a day, outside runs.

use jiff::{SignedDuration, Timestamp};

use crate::store::Store;

/// Interval of the checks.
const EVERY: SignedDuration = SignedDuration::from_hours(24);
/// The same while it is damaged: somebody may have restored a backup.
const EVERY_WHEN_DAMAGED: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Default)]
pub struct IntegrityCheck {
    checked_at: Option<Timestamp>,
    damage: Option<String>,
}

impl IntegrityCheck {
    /// Checks if it is due: damage in a rarely read page could otherwise stay unnoticed for weeks.
    /// Returns the damage, for `/health`.
    pub async fn run_if_due(&mut self, store: &Store, now: Timestamp) -> Option<&String> {
        let every = if self.damage.is_some() { EVERY_WHEN_DAMAGED } else { EVERY };
        // A clock that was set back must not put it off.
        if self.checked_at.is_none_or(|at| now.duration_since(at).abs() >= every) {
            self.checked_at = Some(now);
            let damage = store.check_integrity().await.err().map(|error| error.to_string());
            if let Some(damage) =
                damage.as_ref().filter(|found| self.damage.as_ref() != Some(*found))
            {
                tracing::error!(damage, "the database is damaged; no run is started");
            }
            self.damage = damage;
        }
        self.damage.as_ref()
    }

    pub fn damage(&self) -> Option<&String> {
        self.damage.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn damage_inside_the_file_is_found_once_a_day_and_named_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut check = IntegrityCheck::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(check.run_if_due(&store, now).await, None);
        drop(store);
        let path = folder.path().join("heartbeat.db");
        let database = rusqlite::Connection::open(&path).unwrap();
        database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'heartbeat_state'";
        let page: u32 = database.query_row(root, [], |row| row.get(0)).unwrap();
        let size: u32 = database.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
        drop(database);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[((page - 1) * size) as usize..][..64].fill(0x5a);
        std::fs::write(&path, bytes).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let soon = now + SignedDuration::from_hours(1);
        assert_eq!(check.run_if_due(&store, soon).await, None, "not due");
        let damage = check.run_if_due(&store, now + EVERY).await.unwrap().clone();
        assert!(damage.contains("heartbeat.db") && damage.contains("state rescue"), "{damage}");
        assert_eq!(check.damage(), Some(&damage));
    }
}
