//! Calls SQLite on the current thread.
//!
//! sqlx runs each SQLite connection on a thread of its own, and passes every statement and result between threads. All writes
//! wait for the one writer, and there the passing takes longer than the statements. So the writer's thread calls SQLite directly.

use std::{borrow::Cow, error::Error, fmt, time::Duration};

use rusqlite::{CachedStatement, Connection, ffi};
use sqlx::error::{DatabaseError, ErrorKind};
use tokio::time::Instant;
use tracing::{trace, warn};

use super::value::{DirectRow, Value};

/// A statement that takes longer is logged, as sqlx does.
const SLOW: Duration = Duration::from_secs(1);

pub(super) struct StatementResult {
    /// At most `rows_max` rows.
    pub(super) rows: Vec<DirectRow>,
    pub(super) changed: u64,
}

/// Runs one statement until it has returned `rows_max` rows.
///
/// # Errors
/// The errors of SQLite, as sqlx's errors.
pub(super) fn run(
    connection: &mut Connection,
    sql: &str,
    values: &[Value<'_>],
    rows_max: usize,
) -> Result<StatementResult, sqlx::Error> {
    trace!(sql, "store.statement");
    let start = Instant::now();
    let rows = rows(connection, sql, values, rows_max).map_err(failure);
    let took = start.elapsed();
    if took >= SLOW {
        // The first line, the statement's label, identifies it.
        let statement = sql.lines().next().unwrap_or_default();
        warn!(statement, ?took, "store.slow_statement");
    }
    let changed = connection.changes();
    Ok(StatementResult { rows: rows?, changed })
}

fn rows(
    connection: &Connection,
    sql: &str,
    values: &[Value<'_>],
    rows_max: usize,
) -> rusqlite::Result<Vec<DirectRow>> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, values)?;
    let columns = statement.column_count();
    let mut found = statement.raw_query();
    let mut rows = Vec::new();
    while rows.len() < rows_max
        && let Some(row) = found.next()?
    {
        let values = (0..columns).map(|column| row.get(column));
        rows.push(DirectRow(values.collect::<rusqlite::Result<_>>()?));
    }
    Ok(rows)
}

/// Binds parameters by name. SQLite takes `$N` for a name and numbers names in order of appearance. So this binds the `N`th value
/// to `$N` explicitly.
fn bind(statement: &mut CachedStatement<'_>, values: &[Value<'_>]) -> rusqlite::Result<()> {
    for index in 1..=statement.parameter_count() {
        let name = statement.parameter_name(index);
        let number = name.and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let value = number.and_then(|number| values.get(number.checked_sub(1)?));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(values.len(), index))?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}

pub(crate) fn failure(error: rusqlite::Error) -> sqlx::Error {
    match error {
        rusqlite::Error::SqliteFailure(failed, message) => sqlx::Error::Database(Box::new(SqliteRefusal {
            code: failed.extended_code,
            message: message.unwrap_or_else(|| failed.to_string()),
        })),
        rusqlite::Error::Utf8Error(column, source) => {
            sqlx::Error::ColumnDecode { index: column.to_string(), source: Box::new(source) }
        }
        other => sqlx::Error::Protocol(other.to_string()),
    }
}

#[derive(Debug)]
struct SqliteRefusal {
    /// The extended result code; see sqlite.org/rescode.html.
    code: i32,
    message: String,
}

impl fmt::Display for SqliteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(code: {}) {}", self.code, self.message)
    }
}

impl Error for SqliteRefusal {}

impl DatabaseError for SqliteRefusal {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => ErrorKind::UniqueViolation,
            ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ErrorKind::ForeignKeyViolation,
            ffi::SQLITE_CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            ffi::SQLITE_CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::domain::time::Timestamp;

    fn memory() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE one (id INTEGER PRIMARY KEY, said TEXT NOT NULL, CHECK (id < 9))")
            .unwrap();
        connection
    }

    #[test]
    fn each_parameter_gets_its_own_value_wherever_it_stands() {
        let values: [Value<'_>; 5] =
            [1.into(), "two".into(), true.into(), Timestamp(4).into(), None::<f64>.into()];
        let ran = run(&mut memory(), "SELECT $5, $4, $3, $2, $1, $2", &values, usize::MAX).unwrap();
        let [row] = &ran.rows[..] else { panic!("{} rows", ran.rows.len()) };
        assert_eq!(row.try_get::<Option<f64>>(0).unwrap(), None);
        assert_eq!(row.try_get::<i64>(1).unwrap(), 4);
        assert!(row.try_get::<bool>(2).unwrap());
        assert_eq!(row.try_get::<String>(3).unwrap(), "two");
        assert_eq!(row.try_get::<i64>(4).unwrap(), 1);
        assert_eq!(row.try_get::<String>(5).unwrap(), "two");
        assert!(matches!(row.try_get::<i64>(3), Err(sqlx::Error::ColumnDecode { .. })));
        assert!(matches!(row.try_get::<i64>(6), Err(sqlx::Error::ColumnIndexOutOfBounds { .. })));
    }

    #[test]
    fn a_missing_value_is_an_error() {
        let failed = run(&mut memory(), "SELECT $1, $3", &[1.into(), 2.into()], usize::MAX);
        assert!(matches!(failed, Err(sqlx::Error::Protocol(_))));
    }

    #[test]
    fn a_statement_returns_the_requested_rows_and_does_all_its_work() {
        let mut connection = memory();
        let sql = "INSERT INTO one (id, said) VALUES (1, 'a'), (2, 'b'), (3, 'c') RETURNING id";
        let ran = run(&mut connection, sql, &[], 1).unwrap();
        assert_eq!((ran.rows.len(), ran.changed), (1, 3));
        let ran = run(&mut connection, "SELECT said FROM one", &[], usize::MAX).unwrap();
        assert_eq!(ran.rows.len(), 3);
    }

    #[test]
    fn refusals_have_sqlx_kinds() {
        let mut connection = memory();
        let mut kind_of = |sql: &str| match run(&mut connection, sql, &[], usize::MAX).map(drop) {
            Err(sqlx::Error::Database(refusal)) => (refusal.kind(), refusal.code().map(Cow::into_owned)),
            other => panic!("{other:?}"),
        };
        let code = |code: &str| Some(code.to_owned());
        assert_eq!(kind_of("INSERT INTO one VALUES (1, NULL)"), (ErrorKind::NotNullViolation, code("1299")));
        assert_eq!(kind_of("INSERT INTO one VALUES (9, 'a')"), (ErrorKind::CheckViolation, code("275")));
        assert_eq!(
            kind_of("INSERT INTO one VALUES (2, 'a'), (2, 'b')"),
            (ErrorKind::UniqueViolation, code("1555"))
        );
        assert_eq!(kind_of("INSERT INTO two VALUES (1)"), (ErrorKind::Other, code("1")));
    }
}
