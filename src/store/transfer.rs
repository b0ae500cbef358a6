//! Moves a state to another machine: exports every table as JSON lines, and imports them into an
//! empty state.
//!
//! The first line has the format and the schema, each further line is one row, and the last one has
//! the number of rows, so that a truncated export is rejected. Rows of live sessions are not
//! exported, since their processes do not move. The next run requeues their items, as after a
//! crash.

use std::io::{self, BufRead, Write};

use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Transaction, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::subjects::Reader;
use super::{SCHEMA_VERSION, Sql, Store, StoreError};
use crate::model::Usd;

/// Every exported table, in an order that can be imported.
const TABLES: [&str; 24] = [
    "facts",
    "cursors",
    "breaker",
    "provider_record",
    "ticks",
    "runs",
    "heartbeat_state",
    "readings",
    "duplicates",
    "item_fields",
    "suggestions",
    "suggestion_figures",
    "corrections",
    "sessions",
    "transcripts",
    "attempts",
    "findings",
    "feedback",
    "fixes",
    "stale_findings",
    "verifications",
    "budget",
    "outbox",
    "events",
];

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    /// Format of the lines. Exports without it have no last line.
    #[serde(default)]
    version: u32,
    schema: u32,
}

const FORMAT: &str = "heartbeat state";
const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
struct End {
    /// Number of rows before it.
    end: u64,
}

/// The largest amount that an import accepts, in millionths of a dollar. The sum of many rows stays
/// within an integer.
const MAX_MICROS: i64 = 1_000_000_000_000_000;

/// Columns with a number of something.
const COUNTS: [&str; 12] = [
    "attempt",
    "attempts",
    "deferrals",
    "estimated",
    "excused",
    "hits",
    "missed",
    "named",
    "survivors",
    "suspect_among",
    "total",
    "triage_failures",
];

/// Prefix of the last line; no row begins with it.
const END: &str = "{\"end\":";

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    table: String,
    row: Map<String, Value>,
}

/// Why an export or import failed.
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

#[derive(Debug, thiserror::Error)]
pub enum LineFault {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error("there are lines after the end of the export")]
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
    #[error("{table} has the impossible figure {value} in {column}: {allowed}")]
    Impossible { table: &'static str, column: String, value: String, allowed: &'static str },
}

impl Store {
    /// Exports everything in one snapshot; returns the number of rows.
    pub async fn export(&self, mut to: impl Write + Send + 'static) -> Result<u64, TransferError> {
        let written = self.read(move |connection| {
            let snapshot = connection.unchecked_transaction()?;
            Ok(export_all(&snapshot, &mut to))
        });
        written.await?
    }

    /// Imports an export into this empty state; everything or nothing.
    pub async fn import(&self, from: impl BufRead + Send + 'static) -> Result<u64, TransferError> {
        let store = self.clone();
        let import = move || {
            let mut refused = None;
            let rows = store.transact_here(|transaction| {
                import_all(transaction, from).map_err(|error| {
                    refused = Some(error);
                    // Any error rolls back the transaction.
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
        Value::Number(number) => {
            number.as_i64().map(Cell::Integer).or_else(|| number.as_f64().map(Cell::Real))
        }
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

/// A figure that no state can have, as text, and what is allowed. Budgets add up amounts, so a
/// negative or very large one would disable them.
fn impossible(table: &str, column: &str, cell: &Cell) -> Option<(String, &'static str)> {
    let allowed_amount = "an amount is from 0 to 1,000,000,000 USD";
    match (table, column, cell) {
        (_, _, Cell::Null) => None,
        ("budget", "reserved" | "spent", cell) => match cell {
            Cell::Integer(0..=MAX_MICROS) => None,
            Cell::Integer(other) => Some((Usd::from_micros(*other).to_string(), allowed_amount)),
            _ => Some(("a text".into(), allowed_amount)),
        },
        ("sessions", "usage", Cell::Text(usage)) => {
            let cost = serde_json::from_str::<Value>(usage).ok()?.get("cost")?.as_f64()?;
            let most = Usd::from_micros(MAX_MICROS).dollars();
            (!(0.0..=most).contains(&cost)).then(|| (cost.to_string(), allowed_amount))
        }
        (_, column, Cell::Integer(number)) if COUNTS.contains(&column) && *number < 0 => {
            Some((number.to_string(), "a count is 0 or more"))
        }
        _ => None,
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
        if let Some((value, allowed)) = impossible(table, &column, &cell) {
            return Err(LineFault::Impossible { table, column, value, allowed });
        }
        cells.push(cell);
        names.push(column);
    }
    let places = vec!["?"; names.len()].join(", ");
    let sql = format!("INSERT INTO {table} ({}) VALUES ({places})", names.join(", "));
    transaction.prepare_cached(&sql)?.execute(params_from_iter(cells))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn import(row: &str) -> Result<u64, String> {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let header = Header { format: FORMAT.into(), version: VERSION, schema: SCHEMA_VERSION };
        let header = serde_json::to_string(&header).unwrap();
        let text = format!("{header}\n{row}\n{{\"end\":1}}\n");
        store.import(io::Cursor::new(text)).await.map_err(|error| error.to_string())
    }

    fn budget(reserved: &str, spent: &str) -> String {
        format!(
            r#"{{"table":"budget","row":{{"session":"s","run":"r","stage":"deep","day":"2026-11-16","reserved":{reserved},"spent":{spent}}}}}"#
        )
    }

    #[tokio::test]
    async fn impossible_amounts_and_counts_are_rejected() {
        for (reserved, spent) in [("0", "null"), ("2500000", "0"), ("1", "1000000000000000")] {
            assert_eq!(import(&budget(reserved, spent)).await, Ok(1), "{reserved} {spent}");
        }
        for (reserved, spent, column) in [
            ("1", "-50000000", "spent"),
            ("-1", "0", "reserved"),
            ("1", "\"-5\"", "spent"),
            ("9223372036854775807", "0", "reserved"),
        ] {
            let error = import(&budget(reserved, spent)).await.unwrap_err();
            let parts = ["line 2", "budget", column, "from 0 to", "nothing was imported"];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        let tick = |missed: i64| {
            format!(
                r#"{{"table":"ticks","row":{{"missed":{missed},"schedule":"s","nominal":1,"decided_at":1,"decision":"fired"}}}}"#
            )
        };
        let error = import(&tick(-1)).await.unwrap_err();
        assert!(error.contains("a count is 0 or more"), "{error}");
        let usage = r#"{"table":"sessions","row":{"usage":"{\"cost\":-3.5}"}}"#;
        let error = import(usage).await.unwrap_err();
        assert!(error.contains("-3.5") && error.contains("usage"), "{error}");
    }
}
