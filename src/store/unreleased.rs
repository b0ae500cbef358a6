//! Takes over a state from before the first release, once.
//!
//! The columns that both schemas have are copied, table by table, so this needs no knowledge of
//! either. The old file is kept.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::explain;
use super::{DATABASE, Sql, StoreError, connect, migrate, neighbours, prepare_folder};

/// What the old file is called after its content was taken over.
const KEPT: &str = "heartbeat.db.before-0.1.0";
/// The new database while it is filled: the old one stays in place until it is complete.
const NEW: &str = "heartbeat.db.new";

/// What was taken over.
#[derive(Debug)]
pub struct TakenOver {
    pub rows: usize,
    /// Where the old database is now.
    pub kept: PathBuf,
}

/// True if the file is a database of SQLite.
pub fn is_database(file: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    let mut start = Vec::new();
    fs::File::open(file)?.take(16).read_to_end(&mut start)?;
    Ok(start == b"SQLite format 3\0")
}

/// Fills the state in `folder` from the database `old` of an unreleased heartbeat. `old` may be the
/// folder's own database; else the folder must not have one. The caller holds the lock of the run.
pub fn take_over(folder: &Path, old: &Path) -> Result<TakenOver, StoreError> {
    prepare_folder(folder)?;
    let (database, new) = (folder.join(DATABASE), folder.join(NEW));
    let io = |source| StoreError::Folder {
        path: folder.into(),
        source,
        hint: "Check that the folder and the disk can be written",
    };
    let in_place = match (database.canonicalize(), old.canonicalize()) {
        (Ok(database), Ok(old)) => database == old,
        _ => false,
    };
    if database.exists() && !in_place {
        return Err(StoreError::NotOurs {
            path: folder.into(),
            why: "it already has a state, and an import would mix two histories".into(),
        });
    }
    settle(old)?;
    // Left by an import that was interrupted.
    for name in [NEW.to_owned(), format!("{NEW}-wal"), format!("{NEW}-shm")] {
        fs::remove_file(folder.join(name)).or_else(ignore_missing).map_err(io)?;
    }
    let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(&new, create)?;
    migrate(&mut connection, &new)?;
    let rows = copy(&mut connection, old).map_err(|error| explain(old, error))?;
    neighbours::fill(&mut connection).map_err(|error| explain(&new, error))?;
    // Without a log the database is one file and can be renamed.
    connection
        .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .map_err(|error| explain(&new, error))?;
    drop(connection);
    let mut kept = old.to_path_buf();
    if in_place {
        kept = folder.join(KEPT);
        fs::hard_link(&database, &kept).map_err(io)?;
    }
    fs::rename(&new, &database).map_err(io)?;
    Ok(TakenOver { rows, kept })
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Checks that it is an unreleased state, and brings what its log has into the one file.
fn settle(old: &Path) -> Result<(), StoreError> {
    let connection = connect(old, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    match migrate::refuse_other_versions(&connection, old) {
        Err(StoreError::Unreleased { .. }) => {}
        Err(error) => return Err(error),
        Ok(()) => {
            return Err(StoreError::NotOurs {
                path: old.into(),
                why: "it is a state of this heartbeat, which needs no import; `heartbeat \
                      state restore` puts it into a state folder"
                    .into(),
            });
        }
    }
    connection
        .query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .map_err(|error| explain(old, error))
}

fn copy(connection: &mut Connection, old: &Path) -> Sql<usize> {
    connection.execute("ATTACH DATABASE ?1 AS old", [old.to_string_lossy()])?;
    let transaction = connection.transaction()?;
    // The index of words is made again from the titles.
    let tables = names(
        &transaction,
        "SELECT name FROM pragma_table_list
         WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%'
             AND name <> 'indexed_items'
             AND name IN (SELECT name FROM pragma_table_list WHERE schema = 'old')",
        [],
    )?;
    let mut rows = 0;
    for table in tables {
        let columns = names(
            &transaction,
            "SELECT name FROM pragma_table_info(?1, 'main')
             WHERE name IN (SELECT name FROM pragma_table_info(?1, 'old'))",
            [&table],
        )?;
        let columns = format!("\"{}\"", columns.join("\", \""));
        rows += transaction.execute(
            &format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM old.{table}"),
            [],
        )?;
    }
    transaction.commit()?;
    connection.execute("DETACH DATABASE old", [])?;
    Ok(rows)
}

fn names(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Sql<Vec<String>> {
    connection.prepare(sql)?.query_map(params, |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ItemId, ItemKey, Opinion, Outcome, Phase, Verdict};
    use crate::store::rows::from_json;
    use crate::store::{FirstRunFact, Store};

    const OLD: &str = include_str!("../../tests/data/migrations/before_0.1.0.sql");

    fn an_old_state(folder: &Path) -> PathBuf {
        let database = folder.join(DATABASE);
        let connection = Connection::open(&database).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        connection.execute_batch(OLD).unwrap();
        database
    }

    #[tokio::test]
    async fn an_unreleased_state_is_refused_untouched_and_taken_over_whole() {
        let folder = tempfile::tempdir().unwrap();
        let old = an_old_state(folder.path());
        let before = fs::read(&old).unwrap();
        let error = Store::open(folder.path()).unwrap_err();
        assert!(matches!(error, StoreError::Unreleased { .. }), "{error}");
        let error = Store::open_for_reading(folder.path()).unwrap_err();
        assert!(error.to_string().contains("heartbeat state import"), "{error}");
        assert_eq!(fs::read(&old).unwrap(), before);

        let taken = take_over(folder.path(), &old).unwrap();
        assert_eq!(taken.kept, folder.path().join(KEPT));
        let kept = Connection::open(&taken.kept).unwrap();
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            kept.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize
        };
        let all = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
                   AND name NOT LIKE 'sqlite_%' AND name <> 'indexed_items'";
        let rows: usize = names(&kept, all, []).unwrap().iter().map(|table| count(table)).sum();
        assert_eq!(taken.rows, rows, "every row of every table");

        let store = Store::open(folder.path()).unwrap();
        assert_everything_is_there(&store).await;
        let again = take_over(folder.path(), &old).unwrap_err().to_string();
        assert!(again.contains("needs no import"), "{again}");
    }

    #[tokio::test]
    async fn it_can_be_taken_over_into_an_empty_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let old = an_old_state(folder.path());
        let other = folder.path().join("other");
        let taken = take_over(&other, &old).unwrap();
        assert_eq!(taken.kept, old);
        assert_everything_is_there(&Store::open(&other).unwrap()).await;
        let again = take_over(&other, &old).unwrap_err().to_string();
        assert!(again.contains("mix two histories"), "{again}");
    }

    async fn assert_everything_is_there(store: &Store) {
        let key = |id| ItemKey::new("ado", ItemId(id));
        let item = store.items().get(key(2)).await.unwrap().unwrap();
        assert_eq!((item.phase, item.deferrals), (Phase::Pending, 2));
        assert!(item.verdict.is_some());
        let findings = store.findings().of_item(key(1)).await.unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].feedback.as_ref().unwrap().opinion, Opinion::Useful);
        assert!(findings[0].score().unwrap().confirmed());
        assert_eq!(findings[0].stale.as_ref().unwrap().commits[0].subject, "Round once");
        assert_eq!(item.area_path, None, "not read yet");
        let first = store.items().get(key(1)).await.unwrap().unwrap();
        assert_eq!(first.area_path.as_deref(), Some("Shop\\Web"));
        let first_run = store.sources().first_run("ado".into()).await.unwrap();
        assert_eq!(first_run, Some(FirstRunFact::Over));
        let spent = store.budget().by_stage_since("2026-11-16".into()).await.unwrap();
        assert_eq!(spent[0].money.estimated.micros(), 1_500_000, "the one without a cost");
        let messages = store.outbox().of_item(key(1)).await.unwrap();
        assert_eq!((messages[0].attempts, messages[0].revision), (1, Some(4)));
        let sql = "SELECT verdict FROM readings";
        let reading = store.read_here(|c| c.query_row(sql, [], |row| from_json(row, "verdict")));
        assert_eq!(reading.map(|verdict: Verdict| verdict.reason).unwrap(), "A wish.");
        let session = "00000000-0000-7000-8000-000000000001".parse().unwrap();
        let transcript = store.sessions().transcript(session).await.unwrap().unwrap();
        assert_eq!(transcript.lines[0].text, "src/total.ts");
        let undelivered = store.sessions().undelivered().await.unwrap();
        assert_eq!(undelivered[0].token, [1, 2]);
        assert_eq!(undelivered[0].end.outcome, Outcome::TimedOut);
    }
}
