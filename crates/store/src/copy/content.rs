//! Reads, adapts, hashes and writes the rows of a copy.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::{
    super::{
        StoreResult,
        sql::{Connection, Row, Value, query_made, statement::SqlDialect, value::in_postgres},
    },
    table::{ColumnKind, Pair},
};
use recapd_core::domain::time::Timestamp;

/// Limits the values of one statement: SQLite accepts 32,766, PostgreSQL 65,535.
const VALUES_MAX: usize = 16_000;
/// Limits the bytes of one statement's values.
const BYTES_MAX: usize = 4 << 20;
/// How many rows are read back between two reports of progress.
pub(super) const ROWS_REPORTED: u64 = 1_000;

/// The values of a row, in the order of the pair's columns.
#[derive(Clone, Debug)]
pub(super) struct Record(Vec<Value<'static>>);

impl Record {
    /// Reads a row of [`Pair::select`].
    pub(super) fn read(row: &Row, pair: &Pair) -> Result<Self, sqlx::Error> {
        let value = |(index, (_, kind)): (usize, &(String, ColumnKind))| {
            Ok(match kind {
                ColumnKind::Int => Value::Int(row.try_get(index)?),
                ColumnKind::Real => Value::Real(row.try_get(index)?),
                ColumnKind::Flag => Value::Flag(row.try_get(index)?),
                ColumnKind::Time => Value::Time(row.try_get::<Option<Timestamp>>(index)?),
                ColumnKind::Text | ColumnKind::Json => {
                    Value::Text(row.try_get::<Option<String>>(index)?.map(Into::into))
                }
            })
        };
        pair.columns.iter().enumerate().map(value).collect::<Result<_, _>>().map(Self)
    }

    /// Changes values that the target can't hold. Returns how many texts it changed.
    pub(super) fn fit(&mut self, target: SqlDialect) -> u64 {
        if target == SqlDialect::Sqlite {
            return 0;
        }
        let mut changed = 0;
        for value in &mut self.0 {
            match value {
                Value::Text(Some(text)) if text.contains('\0') => {
                    *text = text.replace('\0', "\u{fffd}").into();
                    changed += 1;
                }
                Value::Time(Some(at)) => *at = in_postgres(*at),
                _ => {}
            }
        }
        changed
    }

    fn bytes(&self) -> usize {
        let bytes = |value: &Value<'_>| match value {
            Value::Text(Some(text)) => text.len(),
            _ => size_of::<i64>(),
        };
        self.0.iter().map(bytes).sum()
    }
}

/// A checksum of rows that doesn't depend on their order: their number, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checksum {
    pub(super) rows: u64,
    sum: u128,
}

impl Checksum {
    pub(super) fn add(&mut self, record: &Record) {
        let mut hash = Sha256::new();
        for value in &record.0 {
            // A tag before each value distinguishes types, and a length separates texts.
            match value {
                // SQLite doesn't distinguish numbers, times and flags.
                Value::Int(Some(number)) | Value::Time(Some(Timestamp(number))) => {
                    add_integer(&mut hash, *number);
                }
                Value::Flag(Some(flag)) => add_integer(&mut hash, i64::from(*flag)),
                Value::Real(Some(number)) => {
                    hash.update([2]);
                    hash.update(number.to_bits().to_le_bytes());
                }
                Value::Text(Some(text)) => {
                    hash.update([4]);
                    hash.update(text.len().to_le_bytes());
                    hash.update(text.as_bytes());
                }
                Value::Int(None)
                | Value::Time(None)
                | Value::Real(None)
                | Value::Flag(None)
                | Value::Text(None) => {
                    hash.update([0]);
                }
            }
        }
        let mut first = [0; 16];
        first.copy_from_slice(hash.finalize().split_at(16).0);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(u128::from_le_bytes(first));
    }
}

fn add_integer(hash: &mut Sha256, number: i64) {
    hash.update([1]);
    hash.update(number.to_le_bytes());
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.sum)
    }
}

/// Rows that one statement writes.
pub(super) struct RowBatch<'p> {
    pair: &'p Pair,
    records: Vec<Record>,
    bytes: usize,
}

impl<'p> RowBatch<'p> {
    pub(super) fn new(pair: &'p Pair) -> Self {
        Self { pair, records: Vec::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, record: Record) {
        self.bytes += record.bytes();
        self.records.push(record);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX || (self.records.len() + 1) * self.pair.columns.len() > VALUES_MAX
    }

    /// Writes the collected rows and clears them. Returns how many it wrote.
    pub(super) async fn write(&mut self, target: &mut Connection) -> StoreResult<u64> {
        let records = std::mem::take(&mut self.records);
        self.bytes = 0;
        if records.is_empty() {
            return Ok(0);
        }
        let dialect = target.dialect();
        let mut numbers = 1..;
        let tuple = || {
            let placeholders = self.pair.columns.iter().zip(&mut numbers);
            let placeholders: Vec<String> = placeholders
                .map(|((_, kind), number)| match (dialect, kind) {
                    (SqlDialect::Postgres, ColumnKind::Json) => format!("${number}::json"),
                    _ => format!("${number}"),
                })
                .collect();
            format!("({})", placeholders.join(", "))
        };
        let tuples: Vec<String> = std::iter::repeat_with(tuple).take(records.len()).collect();
        let sql = format!("{} VALUES {}", self.pair.insert(dialect), tuples.join(", "));
        let values = records.into_iter().flat_map(|record| record.0);
        let mut query = query_made(sql);
        for value in values {
            query = query.bind(value);
        }
        Ok(query.execute(target).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(records: &[Record]) -> Checksum {
        let mut sum = Checksum::default();
        for record in records {
            sum.add(record);
        }
        sum
    }

    fn texts(texts: [&str; 2]) -> Record {
        Record(texts.map(|text| Value::Text(Some(text.to_owned().into()))).to_vec())
    }

    #[test]
    fn a_checksum_depends_on_the_rows_and_not_on_their_order() {
        let (one, other) = (texts(["a", "bc"]), texts(["d", ""]));
        assert_eq!(sum(&[one.clone(), other.clone()]), sum(&[other.clone(), one.clone()]));
        assert_ne!(sum(std::slice::from_ref(&one)), sum(&[texts(["ab", "c"])]));
        assert_ne!(sum(&[one.clone(), one.clone()]), sum(&[one.clone(), other.clone()]));
        let nothing = Record(vec![Value::Text(None), Value::Text(None)]);
        assert_ne!(sum(&[nothing]), sum(&[texts(["", ""])]));
    }

    #[test]
    fn postgresql_gets_no_nul() {
        let mut record = texts(["a\0b\0", "c"]);
        assert_eq!(record.fit(SqlDialect::Sqlite), 0);
        assert_eq!(record.fit(SqlDialect::Postgres), 1);
        assert_eq!(sum(&[record]), sum(&[texts(["a\u{fffd}b\u{fffd}", "c"])]));
    }
}
