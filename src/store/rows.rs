//! Conversions between types and table columns.

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Error, Row, RowIndex};
use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};

use super::Sql;
use crate::model::{ItemKey, RunId, SessionId, Usd};

/// A time column: milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ms(pub Timestamp);

impl ToSql for Ms {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_millisecond().into())
    }
}

impl FromSql for Ms {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Timestamp::from_millisecond(value.as_i64()?)
            .map(Ms)
            .map_err(|e| FromSqlError::Other(Box::new(e)))
    }
}

macro_rules! text_column {
    ($type:ty, $parse:expr) => {
        impl ToSql for $type {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.to_string().into())
            }
        }
        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let parse: fn(&str) -> Result<$type, Box<dyn std::error::Error + Send + Sync>> =
                    $parse;
                parse(value.as_str()?).map_err(FromSqlError::Other)
            }
        }
    };
}

text_column!(RunId, |text| Ok(text.parse()?));
text_column!(SessionId, |text| Ok(text.parse()?));
text_column!(ItemKey, |text| Ok(Self::from_stored(text.into())));

impl ToSql for Usd {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.micros().into())
    }
}

impl FromSql for Usd {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self::from_micros)
    }
}

pub fn to_json<T: Serialize>(value: &T) -> Sql<String> {
    serde_json::to_string(value).map_err(|e| Error::ToSqlConversionFailure(Box::new(e)))
}

pub fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Sql<T> {
    parse(row.get_ref(column)?.as_str()?, false)
}

/// The value of a nullable JSON column.
pub fn from_optional_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: impl RowIndex,
) -> Sql<Option<T>> {
    row.get_ref(column)?.as_str_or_null()?.map(|text| parse(text, false)).transpose()
}

/// An enum stored by name.
pub fn from_word<T: DeserializeOwned>(row: &Row<'_>, column: impl RowIndex) -> Sql<T> {
    parse(row.get_ref(column)?.as_str()?, true)
}

/// An enum stored by name in a nullable column.
pub fn from_optional_word<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Sql<Option<T>> {
    row.get_ref(column)?.as_str_or_null()?.map(|text| parse(text, true)).transpose()
}

fn parse<T: DeserializeOwned>(text: &str, word: bool) -> Sql<T> {
    let parsed = if word {
        // Without an intermediate JSON value: this is read for every fetched item.
        T::deserialize(text.into_deserializer())
    } else {
        serde_json::from_str(text)
    };
    parsed.map_err(|e: serde_json::Error| {
        Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
    })
}

/// The time of a nullable column.
pub fn optional_time(row: &Row<'_>, column: &str) -> Sql<Option<Timestamp>> {
    Ok(row.get::<_, Option<Ms>>(column)?.map(|ms| ms.0))
}
