//! Moving a state to another machine: every table as JSON lines, and back into an empty state.
//!
//! The first line names the format and the schema, each further line is one row, and the last one
//! says how many there are: what was cut off is not taken for the whole. Rows of live
//! sessions stay behind: their processes do not move. What they were about is given back by the
//! next run, like after a crash.

use std::io::{self, BufRead, Write};

use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Transaction, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::subjects::Reader;
use super::{SCHEMA_VERSION, Sql, Store, StoreError};

/// Every table that moves, in an order that can be read back.
const TABLES: [&str; 12] = [
    "facts",
    "cursors",
    "breaker",
    "provider",
    "ticks",
    "runs",
    "heartbeat_state",
    "sessions",
    "attempts",
    "findings",
    "budget",
    "events",
];

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    /// The form of the lines. Exports that say nothing of it have no last line.
    #[serde(default)]
    version: u32,
    schema: u32,
}

const FORMAT: &str = "heartbeat state";
const VERSION: u32 = 2;

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    /// Rows before it.
    end: u64,
}

/// How it begins, unlike any row.
const END: &str = "{\"end\":";

/// One row.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    table: String,
    row: Map<String, Value>,
}

/// Why a state could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file.
    #[error("cannot read or write the export: {0}")]
    Io(#[from] io::Error),
    /// What is in the file.
    #[error("line {line} of the export is invalid: {why}; nothing was imported")]
    Line {
        /// Counted from 1.
        line: u64,
        /// In a few words.
        why: String,
    },
    /// The last line is missing, or does not fit what came before it.
    #[error("the export is incomplete: {why}; nothing was imported. Export the state again")]
    NotWhole {
        /// In a few words.
        why: String,
    },
    /// There is something already.
    #[error(
        "this state is not empty, and an import would mix two histories; choose an empty folder \
         with --state-dir"
    )]
    NotEmpty,
}

impl Store {
    /// Writes everything; returns the number of rows. One snapshot, whatever goes on beside it.
    pub async fn export(&self, mut to: impl Write + Send + 'static) -> Result<u64, TransferError> {
        let written = self.read(move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            Ok(export_all(&snapshot, &mut to))
        });
        written.await?
    }

    /// Reads an export into this empty state; all of it, or nothing.
    pub async fn import(&self, from: impl BufRead + Send + 'static) -> Result<u64, TransferError> {
        let store = self.clone();
        let imported = tokio::task::spawn_blocking(move || {
            let mut refused = None;
            let rows = store.transact_here(|transaction| match import_all(transaction, from) {
                Ok(rows) => Ok(rows),
                Err(Refused::Sql(error)) => Err(error),
                Err(Refused::Told(told)) => {
                    refused = Some(told);
                    // Any error takes the whole transaction back.
                    Err(rusqlite::Error::QueryReturnedNoRows)
                }
            });
            match refused {
                Some(told) => Err(told),
                None => Ok(rows?),
            }
        });
        imported.await.map_err(|error| StoreError::Worker(error.to_string()))?
    }
}

fn export_all(connection: &Connection, to: &mut impl Write) -> Result<u64, TransferError> {
    write_line(to, &Header { format: FORMAT.into(), version: VERSION, schema: SCHEMA_VERSION })?;
    let mut rows = 0;
    for table in TABLES {
        rows += export_table(connection, table, to)?;
    }
    write_line(to, &End { end: rows })?;
    to.flush()?;
    Ok(rows)
}

fn export_table(
    connection: &Connection,
    table: &str,
    to: &mut impl Write,
) -> Result<u64, TransferError> {
    let unreadable = |error: rusqlite::Error| StoreError::Unreadable(error.to_string());
    let mut statement =
        connection.prepare(&format!("SELECT * FROM {table}")).map_err(unreadable)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = statement.query([]).map_err(unreadable)?;
    let mut rows = 0;
    while let Some(row) = found.next().map_err(unreadable)? {
        let mut fields = Map::new();
        for (index, name) in names.iter().enumerate() {
            fields.insert(name.clone(), to_json(row.get_ref(index).map_err(unreadable)?));
        }
        write_line(to, &Line { table: table.into(), row: fields })?;
        rows += 1;
    }
    Ok(rows)
}

fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *to, line)?;
    to.write_all(b"\n")
}

fn to_json(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) | ValueRef::Blob(text) => String::from_utf8_lossy(text).into(),
    }
}

fn from_json(value: Value) -> Option<Cell> {
    match value {
        Value::Null => Some(Cell::Null),
        Value::Number(number) => number.as_i64().map(Cell::Integer),
        Value::String(text) => Some(Cell::Text(text)),
        _ => None,
    }
}

/// Why an import stops: the database, or something to tell.
enum Refused {
    Sql(rusqlite::Error),
    Told(TransferError),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

fn told(line: u64, why: impl Into<String>) -> Refused {
    Refused::Told(TransferError::Line { line, why: why.into() })
}

fn import_all(transaction: &Transaction<'_>, from: impl BufRead) -> Result<u64, Refused> {
    let columns = columns(transaction)?;
    let used: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM heartbeat_state) OR EXISTS (SELECT 1 FROM runs)",
        [],
        |row| row.get(0),
    )?;
    if used {
        return Err(Refused::Told(TransferError::NotEmpty));
    }
    let (mut rows, mut end) = (0, None);
    for (number, line) in (1_u64..).zip(from.lines()) {
        let line = line.map_err(|error| told(number, error.to_string()))?;
        if number == 1 {
            check_header(&line)?;
            continue;
        }
        if end.is_some() {
            return Err(told(number, "it comes after the last line"));
        }
        if line.starts_with(END) {
            let last: End =
                serde_json::from_str(&line).map_err(|error| told(number, error.to_string()))?;
            end = Some(last.end);
            continue;
        }
        let line: Line =
            serde_json::from_str(&line).map_err(|error| told(number, error.to_string()))?;
        import_row(transaction, &columns, line).map_err(|refused| match refused {
            Refused::Sql(error) => told(number, error.to_string()),
            Refused::Told(TransferError::Line { why, .. }) => told(number, why),
            other @ Refused::Told(_) => other,
        })?;
        rows += 1;
    }
    match end {
        Some(end) if end == rows => Ok(rows),
        Some(end) => Err(not_whole(format!("it says {end} rows and has {rows}"))),
        None => Err(not_whole(format!("its last line is missing, after {rows} rows"))),
    }
}

fn not_whole(why: String) -> Refused {
    Refused::Told(TransferError::NotWhole { why })
}

fn check_header(line: &str) -> Result<(), Refused> {
    match serde_json::from_str::<Header>(line) {
        Ok(header) if header.format == FORMAT && header.version != VERSION => Err(told(
            1,
            format!(
                "it has format {} and this heartbeat reads {VERSION}; export it with the same \
                 version of heartbeat",
                header.version
            ),
        )),
        Ok(header) if header.format == FORMAT && header.schema == SCHEMA_VERSION => Ok(()),
        Ok(header) if header.format == FORMAT => Err(told(
            1,
            format!(
                "it has schema {} and this heartbeat {SCHEMA_VERSION}; export it with the same \
                 version of heartbeat",
                header.schema
            ),
        )),
        _ => Err(told(1, "it is not an export of a heartbeat state")),
    }
}

fn columns(connection: &Connection) -> Sql<Vec<(&'static str, Vec<String>)>> {
    let of = |table: &'static str| {
        let names = connection
            .prepare(&format!("SELECT * FROM {table} LIMIT 0"))?
            .column_names()
            .map(str::to_owned)
            .collect();
        Ok((table, names))
    };
    TABLES.into_iter().map(of).collect()
}

fn import_row(
    transaction: &Transaction<'_>,
    columns: &[(&'static str, Vec<String>)],
    line: Line,
) -> Result<(), Refused> {
    let Some((table, known)) = columns.iter().find(|(table, _)| *table == line.table) else {
        return Err(told(0, format!("there is no table {:?}", line.table)));
    };
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    for (name, value) in line.row {
        if !known.contains(&name) {
            return Err(told(0, format!("{table} has no column {name:?}")));
        }
        cells.push(from_json(value).ok_or_else(|| {
            told(
                0,
                format!(
                    "{name} is not a plain \
                                                                   value"
                ),
            )
        })?);
        names.push(name);
    }
    let places = vec!["?"; names.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    transaction.prepare_cached(&sql)?.execute(params_from_iter(cells))?;
    Ok(())
}
