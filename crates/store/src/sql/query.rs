//! Builds statements with their parameters, and runs them on either database.

use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use sqlx::{AssertSqlSafe, Executor as _, SqlStr, postgres::PgArguments, sqlite::SqliteArguments};

use super::{
    connection::{Connection, DriverConnection},
    direct,
    statement::{SqlDialect, Statement},
    value::{Column, Row, Value},
};
use crate::postgres::PgQuery;

pub(crate) struct Query<'q> {
    text: SqlText,
    values: Vec<Value<'q>>,
}

enum SqlText {
    Fixed(&'static Statement),
    /// The text before the rows, the rows, and the text after them.
    Rows(&'static Statement, String, &'static Statement),
    /// Composed at run time.
    Made(String),
}

pub(crate) fn query<'q>(statement: &'static Statement) -> Query<'q> {
    Query { text: SqlText::Fixed(statement), values: Vec::new() }
}

/// Returns a statement whose text is composed at run time. It may contain only names from the schema.
pub(crate) fn query_made<'q>(sql: String) -> Query<'q> {
    Query { text: SqlText::Made(sql), values: Vec::new() }
}

/// Returns an `INSERT` of several rows. `head` is the text before the rows, `tail` the text after them.
pub(crate) fn insert<'q>(
    head: &'static Statement,
    rows: Vec<Vec<Value<'q>>>,
    tail: &'static Statement,
) -> Query<'q> {
    let mut next = 1..;
    let tuples: Vec<String> = rows
        .iter()
        .map(|row| {
            let placeholders: Vec<String> =
                next.by_ref().take(row.len()).map(|number| format!("${number}")).collect();
            format!("({})", placeholders.join(", "))
        })
        .collect();
    Query { text: SqlText::Rows(head, tuples.join(", "), tail), values: rows.into_iter().flatten().collect() }
}

impl<'q> Query<'q> {
    pub(crate) fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    fn text(&self, dialect: SqlDialect) -> SqlStr {
        use sqlx::SqlSafeStr as _;
        match &self.text {
            SqlText::Fixed(statement) => statement.text(dialect).into_sql_str(),
            SqlText::Rows(head, tuples, tail) => {
                let (head, tail) = (head.text(dialect), tail.text(dialect));
                AssertSqlSafe(format!("{head} VALUES {tuples} {tail}")).into_sql_str()
            }
            SqlText::Made(text) => AssertSqlSafe(text.clone()).into_sql_str(),
        }
    }

    fn for_sqlite(&self) -> Result<sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        self.values.iter().try_for_each(|value| value.add_to_sqlite(&mut arguments))?;
        Ok(sqlx::query_with(self.text(SqlDialect::Sqlite), arguments))
    }

    fn run_directly(
        &self,
        connection: &mut rusqlite::Connection,
        rows_max: usize,
    ) -> Result<direct::StatementResult, sqlx::Error> {
        direct::run(connection, self.text(SqlDialect::Sqlite).as_str(), &self.values, rows_max)
    }

    fn for_postgres(&self) -> Result<PgQuery, sqlx::Error> {
        let mut arguments = PgArguments::default();
        self.values.iter().try_for_each(|value| value.add_to_postgres(&mut arguments))?;
        Ok(sqlx::query_with(self.text(SqlDialect::Postgres), arguments))
    }

    /// Runs the statement. Returns how many rows it changed.
    pub(crate) async fn execute(self, connection: &mut Connection) -> Result<u64, sqlx::Error> {
        match connection.driver() {
            DriverConnection::Direct(direct) => Ok(self.run_directly(direct, usize::MAX)?.changed),
            DriverConnection::Sqlite(sqlite) => Ok(sqlite.execute(self.for_sqlite()?).await?.rows_affected()),
            // Boxed, because otherwise every future that runs a statement would reserve space for this one.
            DriverConnection::Postgres(postgres) => Box::pin(postgres.execute(self.for_postgres()?)).await,
        }
    }

    pub(crate) async fn fetch_optional(
        self,
        connection: &mut Connection,
    ) -> Result<Option<Row>, sqlx::Error> {
        match connection.driver() {
            DriverConnection::Direct(direct) => Ok(self.run_directly(direct, 1)?.rows.pop().map(Row::Direct)),
            DriverConnection::Sqlite(sqlite) => {
                Ok(sqlite.fetch_optional(self.for_sqlite()?).await?.map(Row::Sqlite))
            }
            DriverConnection::Postgres(postgres) => {
                let found = Box::pin(postgres.fetch_optional(self.for_postgres()?)).await?;
                Ok(found.map(Row::Postgres))
            }
        }
    }

    /// Returns the first row. Fails if there is none.
    pub(crate) async fn fetch_one(self, connection: &mut Connection) -> Result<Row, sqlx::Error> {
        self.fetch_optional(connection).await?.ok_or(sqlx::Error::RowNotFound)
    }

    pub(crate) async fn fetch_all(self, connection: &mut Connection) -> Result<Vec<Row>, sqlx::Error> {
        self.fetch(connection)?.try_collect().await
    }

    /// Returns the first column of all rows.
    pub(crate) async fn fetch_column<T: Column>(
        self,
        connection: &mut Connection,
    ) -> Result<Vec<T>, sqlx::Error> {
        let rows = self.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    /// Returns the rows one by one.
    pub(crate) fn fetch(
        self,
        connection: &mut Connection,
    ) -> Result<BoxStream<'_, Result<Row, sqlx::Error>>, sqlx::Error> {
        Ok(match connection.driver() {
            DriverConnection::Direct(direct) => {
                let rows = self.run_directly(direct, usize::MAX)?.rows;
                stream::iter(rows.into_iter().map(|row| Ok(Row::Direct(row)))).boxed()
            }
            DriverConnection::Sqlite(sqlite) => sqlite.fetch(self.for_sqlite()?).map_ok(Row::Sqlite).boxed(),
            DriverConnection::Postgres(postgres) => {
                postgres.fetch(self.for_postgres()?)?.map_ok(Row::Postgres).boxed()
            }
        })
    }
}
