//! Moving a state to another machine: every table as JSON lines, and back into an empty state.
//!
//! The first line names the format and the schema, each further line is one row, and the last one
//! says how many there are, so that an export that was cut off is refused. Rows of live sessions
//! are not exported: their processes do not move. The next run requeues their items, like after a
//! crash.

use std::io::{self, BufRead, Write};

use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Transaction, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::subjects::Reader;
use super::{SCHEMA_VERSION, Sql, Store, StoreError};

/// Every table that moves, in an order that can be read back.
const TABLES: [&str; 19] = [
    "facts",
    "cursors",
    "breaker",
    "provider_record",
    "ticks",
    "runs",
    "heartbeat_state",
    "readings",
    "duplicates",
    "sessions",
    "transcripts",
    "attempts",
    "findings",
    "feedback",
    "fixes",
    "stale_findings",
    "budget",
    "outbox",
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

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    table: String,
    row: Map<String, Value>,
}

/// Why a state could not be moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read or write the export: {0}")]
    Io(#[from] io::Error),
    /// A row of this state that cannot be exported.
    #[error("cannot read the state: {0}")]
    Row(#[from] rusqlite::Error),
    #[error("line {line} of the export is invalid: {fault}; nothing was imported")]
    Line {
        /// Counted from 1.
        line: u64,
        #[source]
        fault: LineFault,
    },
    #[error(
        "the export is incomplete: it should have {stated} rows and has {found}; nothing was imported. \
         Export the state again"
    )]
    WrongCount { stated: u64, found: u64 },
    #[error(
        "the export is incomplete: its last line is missing, after {found} rows; nothing was \
         imported. Export the state again"
    )]
    CutOff { found: u64 },
    #[error(
        "this state is not empty, and an import would mix two histories; choose an empty folder \
         with --state-dir"
    )]
    NotEmpty,
}

/// What is wrong with one line of an export.
#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("there is more after the line that ends the export")]
    AfterTheEnd,
    #[error("it is not an export of a heartbeat state")]
    NotAnExport,
    #[error(
        "it has format {found} and this heartbeat reads {VERSION}; export it with the same \
         version of heartbeat"
    )]
    OtherForm { found: u32 },
    #[error(
        "it has schema {found} and this heartbeat {SCHEMA_VERSION}; export it with the same version \
         of heartbeat"
    )]
    OtherSchema { found: u32 },
    #[error("there is no table {0:?}")]
    UnknownTable(String),
    #[error("{table} has no column {column:?}")]
    UnknownColumn { table: &'static str, column: String },
    #[error("{0} is not a plain value")]
    NotPlain(String),
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
        let import = move || {
            let mut refused = None;
            let rows = store.transact_here(|transaction| {
                import_all(transaction, from).map_err(|error| {
                    refused = Some(error);
                    // Any error rolls the whole transaction back.
                    rusqlite::Error::QueryReturnedNoRows
                })
            });
            match refused {
                Some(error) => Err(error),
                None => Ok(rows?),
            }
        };
        tokio::task::spawn_blocking(import).await.map_err(StoreError::Worker)?
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
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}"))?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = statement.query([])?;
    let mut rows = 0;
    while let Some(row) = found.next()? {
        let mut fields = Map::new();
        for (index, name) in names.iter().enumerate() {
            fields.insert(name.clone(), to_json(row.get_ref(index)?));
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

fn import_all(transaction: &Transaction<'_>, from: impl BufRead) -> Result<u64, TransferError> {
    let columns = columns(transaction)?;
    let used: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM heartbeat_state) OR EXISTS (SELECT 1 FROM runs)",
        [],
        |row| row.get(0),
    )?;
    if used {
        return Err(TransferError::NotEmpty);
    }
    let (mut found, mut end) = (0, None);
    for (line, text) in (1_u64..).zip(from.lines()) {
        let read = || -> Result<Option<u64>, LineFault> {
            let text = text?;
            if line == 1 {
                return check_header(&text).map(|()| None);
            }
            if end.is_some() {
                return Err(LineFault::AfterTheEnd);
            }
            if text.starts_with(END) {
                return Ok(Some(serde_json::from_str::<End>(&text)?.end));
            }
            import_row(transaction, &columns, serde_json::from_str(&text)?)?;
            found += 1;
            Ok(None)
        };
        end = read().map_err(|fault| TransferError::Line { line, fault })?.or(end);
    }
    match end {
        Some(stated) if stated == found => Ok(found),
        Some(stated) => Err(TransferError::WrongCount { stated, found }),
        None => Err(TransferError::CutOff { found }),
    }
}

fn check_header(line: &str) -> Result<(), LineFault> {
    match serde_json::from_str::<Header>(line) {
        Ok(header) if header.format == FORMAT && header.version != VERSION => {
            Err(LineFault::OtherForm { found: header.version })
        }
        Ok(header) if header.format == FORMAT && header.schema != SCHEMA_VERSION => {
            Err(LineFault::OtherSchema { found: header.schema })
        }
        Ok(header) if header.format == FORMAT => Ok(()),
        _ => Err(LineFault::NotAnExport),
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
) -> Result<(), LineFault> {
    let Some((table, known)) = columns.iter().find(|(table, _)| *table == line.table) else {
        return Err(LineFault::UnknownTable(line.table));
    };
    let (mut names, mut cells) = (Vec::new(), Vec::new());
    for (column, value) in line.row {
        if !known.contains(&column) {
            return Err(LineFault::UnknownColumn { table, column });
        }
        let Some(cell) = from_json(value) else { return Err(LineFault::NotPlain(column)) };
        cells.push(cell);
        names.push(column);
    }
    let places = vec!["?"; names.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    transaction.prepare_cached(&sql)?.execute(params_from_iter(cells))?;
    Ok(())
}
