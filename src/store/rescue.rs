//! Saves what can still be read of a damaged database, with the SQLite that is built in: the
//! `.recover` of the machine's `sqlite3` depends on its version and knows no later schema.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::backup::set_aside;
use super::error::explain;
use super::{DATABASE, Sql, StoreError, connect, migrate, neighbours, place, unwritable};

/// What a rescue found.
#[derive(Debug)]
pub struct Rescued {
    pub rows: usize,
    /// Tables that could not be read to their end, with the number of rows that were read.
    pub torn: Vec<(String, usize)>,
    /// Where the damaged database is now.
    pub kept: Option<PathBuf>,
}

/// Makes a new database of what can be read of the one in `folder`, which is set aside. The caller
/// holds the lock of the run, and no service is running.
pub fn rescue(folder: &Path, now: Timestamp) -> Result<Rescued, StoreError> {
    let (database, new) = (folder.join(DATABASE), folder.join("heartbeat.db.new"));
    if !database.exists() {
        return Err(StoreError::Vanished { path: database });
    }
    for side in ["", "-wal", "-shm"] {
        // Left by a rescue that was interrupted; missing files are fine.
        drop(fs::remove_file(super::beside(&new, side)));
    }
    let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut to = connect(&new, create)?;
    migrate(&mut to, &new)?;
    let (mut rows, mut torn) = (0, Vec::new());
    {
        let from = Connection::open(&database).map_err(|error| explain(&database, error))?;
        for (table, columns) in tables(&to).map_err(|error| explain(&new, error))? {
            let (copied, whole) =
                copy(&from, &mut to, &table, &columns).map_err(|error| explain(&new, error))?;
            rows += copied;
            if !whole {
                torn.push((table, copied));
            }
        }
    }
    neighbours::fill(&mut to).map_err(|error| explain(&new, error))?;
    // Without a log the database is one file and can be renamed.
    to.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        .map_err(|error| explain(&new, error))?;
    drop(to);
    let kept = set_aside(folder, now)?;
    fs::rename(&new, &database).map_err(|error| unwritable(&database, error))?;
    place::mark_used(folder)?;
    Ok(Rescued { rows, torn, kept })
}

/// Tables with content of their own, and their columns. The index of words is made again.
fn tables(connection: &Connection) -> Sql<Vec<(String, Vec<String>)>> {
    let names: Vec<String> = connection
        .prepare(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
             AND name NOT LIKE 'sqlite_%' AND name <> 'indexed_items' ORDER BY name",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<Sql<_>>()?;
    let with_columns = |table: String| {
        let columns = connection
            .prepare("SELECT name FROM pragma_table_info(?1)")?
            .query_map([&table], |row| row.get(0))?
            .collect::<Sql<_>>()?;
        Ok((table, columns))
    };
    names.into_iter().map(with_columns).collect()
}

/// Copies a table from its start to the first damage, and then from its end. Returns the rows that
/// were copied, and whether there was no damage.
fn copy(
    from: &Connection,
    to: &mut Connection,
    table: &str,
    columns: &[String],
) -> Sql<(usize, bool)> {
    let names = format!("\"{}\"", columns.join("\", \""));
    let places = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})");
    let transaction = to.transaction()?;
    let (mut copied, mut whole) = (0, true);
    // A table without row numbers has its key as its order.
    let order =
        if from.prepare(&format!("SELECT rowid FROM {table}")).is_ok() { "rowid" } else { "1" };
    for direction in ["ASC", "DESC"] {
        let sql = format!("SELECT {names} FROM {table} NOT INDEXED ORDER BY {order} {direction}");
        let mut read = || -> Sql<()> {
            let mut statement = from.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let cells =
                    (0..columns.len()).map(|at| row.get(at)).collect::<Sql<Vec<Value>>>()?;
                copied += transaction.execute(&insert, params_from_iter(cells))?;
            }
            Ok(())
        };
        match read() {
            Ok(()) => break,
            Err(error) => {
                tracing::warn!(table, direction, %error, "rescue: damage");
                whole = false;
            }
        }
    }
    transaction.commit()?;
    Ok((copied, whole))
}
