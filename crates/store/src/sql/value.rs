//! Converts values of parameters and rows to each database's own types.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use rusqlite::{
    ToSql,
    types::{FromSql, FromSqlError, ToSqlOutput, Value as Stored, ValueRef},
};
use sqlx::{
    Arguments as _, Row as _,
    postgres::{PgArguments, PgRow},
    sqlite::{SqliteArguments, SqliteRow},
};

use recapd_core::domain::time::Timestamp;

/// A parameter. `None` is a NULL of that type.
#[derive(Clone, Debug)]
pub(crate) enum Value<'q> {
    /// `INTEGER` in SQLite, `bigint` in PostgreSQL.
    Int(Option<i64>),
    /// Floating point.
    Real(Option<f64>),
    Text(Option<Cow<'q, str>>),
    /// 0 or 1 in SQLite, `boolean` in PostgreSQL.
    Flag(Option<bool>),
    /// Milliseconds since 1970 UTC in SQLite, `timestamptz` in PostgreSQL.
    Time(Option<Timestamp>),
}

impl Value<'_> {
    pub(super) fn add_to_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), sqlx::Error> {
        let added = match self {
            Self::Int(value) => arguments.add(value),
            Self::Real(value) => arguments.add(value),
            Self::Text(value) => arguments.add(value.as_deref()),
            Self::Flag(value) => arguments.add(value),
            Self::Time(value) => arguments.add(value.map(|at| at.0)),
        };
        added.map_err(sqlx::Error::Encode)
    }

    pub(super) fn add_to_postgres(&self, arguments: &mut PgArguments) -> Result<(), sqlx::Error> {
        let added = match self {
            Self::Int(value) => arguments.add(value),
            Self::Real(value) => arguments.add(value),
            Self::Text(value) => arguments.add(value.as_deref().map(without_nul)),
            Self::Flag(value) => arguments.add(value),
            Self::Time(value) => arguments.add(value.map(date_time)),
        };
        added.map_err(sqlx::Error::Encode)
    }
}

/// Replaces U+0000, which a text in PostgreSQL can't hold, with U+FFFD.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// PostgreSQL's earliest time: 24 November 4714 BC.
const EARLIEST_MS: i64 = -210_866_803_200_000;

/// Converts a time. Clamps it to the range that both PostgreSQL and chrono can hold: from 4714 BC to the year 262,142.
fn date_time(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at.0.max(EARLIEST_MS)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Returns the value that PostgreSQL gives back for this time.
pub(crate) fn in_postgres(at: Timestamp) -> Timestamp {
    Timestamp(date_time(at).timestamp_millis())
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Int(value) => value.map(ValueRef::Integer),
            Self::Real(value) => value.map(ValueRef::Real),
            Self::Text(value) => value.as_deref().map(|text| ValueRef::Text(text.as_bytes())),
            Self::Flag(value) => value.map(|flag| ValueRef::Integer(i64::from(flag))),
            Self::Time(value) => value.map(|at| ValueRef::Integer(at.0)),
        };
        Ok(ToSqlOutput::Borrowed(value.unwrap_or(ValueRef::Null)))
    }
}

macro_rules! values {
    ($($kind:ident: $type:ty),+ $(,)?) => {$(
        impl<'q> From<$type> for Value<'q> {
            fn from(value: $type) -> Self {
                Self::$kind(Some(value.into()))
            }
        }
        impl<'q> From<Option<$type>> for Value<'q> {
            fn from(value: Option<$type>) -> Self {
                Self::$kind(value.map(Into::into))
            }
        }
    )+};
}
values!(Int: i64, Real: f64, Text: &'q str, Text: String, Text: Cow<'q, str>, Flag: bool, Time: Timestamp);

/// A row that SQLite returned without sqlx, read completely.
#[derive(Debug)]
pub(crate) struct DirectRow(pub(super) Vec<Stored>);

impl DirectRow {
    pub(super) fn try_get<T: FromSql>(&self, column: usize) -> Result<T, sqlx::Error> {
        let value = self
            .0
            .get(column)
            .ok_or_else(|| sqlx::Error::ColumnIndexOutOfBounds { index: column, len: self.0.len() })?;
        T::column_result(ValueRef::from(value)).map_err(|source| decode_error(column, source))
    }
}

fn decode_error(column: usize, source: FromSqlError) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_string(), source: Box::new(source) }
}

#[derive(Debug)]
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Direct(DirectRow),
    Postgres(PgRow),
}

impl Row {
    pub(crate) fn try_get<T: Column>(&self, column: usize) -> Result<T, sqlx::Error> {
        T::get(self, column)
    }
}

pub(crate) trait Column: Sized {
    fn get(row: &Row, column: usize) -> Result<Self, sqlx::Error>;
}

macro_rules! columns {
    ($($type:ty),+ $(,)?) => {$(
        impl Column for $type {
            fn get(row: &Row, column: usize) -> Result<Self, sqlx::Error> {
                match row {
                    Row::Sqlite(row) => row.try_get(column),
                    Row::Direct(row) => row.try_get(column),
                    Row::Postgres(row) => row.try_get(column),
                }
            }
        }
    )+};
}
columns!(i64, Option<i64>, f64, Option<f64>, String, Option<String>, bool, Option<bool>, Vec<u8>);

impl Column for Option<Timestamp> {
    fn get(row: &Row, column: usize) -> Result<Self, sqlx::Error> {
        match row {
            Row::Sqlite(row) => Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp)),
            Row::Direct(row) => Ok(row.try_get::<Option<i64>>(column)?.map(Timestamp)),
            Row::Postgres(row) => Ok(row
                .try_get::<Option<DateTime<Utc>>, _>(column)?
                .map(|at| Timestamp(at.timestamp_millis()))),
        }
    }
}

impl Column for Timestamp {
    fn get(row: &Row, column: usize) -> Result<Self, sqlx::Error> {
        match row {
            Row::Sqlite(row) => row.try_get(column).map(Timestamp),
            Row::Direct(row) => row.try_get(column).map(Timestamp),
            Row::Postgres(row) => {
                row.try_get::<DateTime<Utc>, _>(column).map(|at| Timestamp(at.timestamp_millis()))
            }
        }
    }
}
