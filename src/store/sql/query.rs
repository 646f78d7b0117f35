//! Running statements.

use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use sqlx::{AssertSqlSafe, Either, Executor as _, SqlStr, postgres::PgArguments, sqlite::SqliteArguments};

use super::{
    connection::{Connection, Half},
    statement::{Dialect, Statement},
    value::{Column, Row, Value},
    waiting::Waiting,
};

/// A statement and what it is given.
pub(in crate::store) struct Query<'q> {
    text: Text,
    values: Vec<Value<'q>>,
}

enum Text {
    Fixed(&'static Statement),
    Rows(&'static Statement, String, &'static Statement),
    Made(String),
}

/// A statement to be run.
pub(in crate::store) fn query<'q>(statement: &'static Statement) -> Query<'q> {
    Query {
        text: Text::Fixed(statement),
        values: Vec::new(),
    }
}

/// A statement whose text is made as it is needed, out of the schema's own names and nothing else.
pub(in crate::store) fn query_made<'q>(sql: String) -> Query<'q> {
    Query {
        text: Text::Made(sql),
        values: Vec::new(),
    }
}

/// An `INSERT` of several rows: `head` ends before, `tail` begins behind the rows.
pub(in crate::store) fn insert<'q>(
    head: &'static Statement,
    rows: Vec<Vec<Value<'q>>>,
    tail: &'static Statement,
) -> Query<'q> {
    let mut next = 1..;
    let tuples: Vec<String> = rows
        .iter()
        .map(|row| {
            let places: Vec<String> = next
                .by_ref()
                .take(row.len())
                .map(|place| format!("${place}"))
                .collect();
            format!("({})", places.join(", "))
        })
        .collect();
    Query {
        text: Text::Rows(head, tuples.join(", "), tail),
        values: rows.into_iter().flatten().collect(),
    }
}

impl<'q> Query<'q> {
    /// Gives the next parameter its value.
    pub(in crate::store) fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    fn text(&self, dialect: Dialect) -> SqlStr {
        use sqlx::SqlSafeStr as _;
        match &self.text {
            Text::Fixed(statement) => statement.text(dialect).into_sql_str(),
            Text::Rows(head, tuples, tail) => {
                let (head, tail) = (head.text(dialect), tail.text(dialect));
                AssertSqlSafe(format!("{head} VALUES {tuples} {tail}")).into_sql_str()
            }
            Text::Made(text) => AssertSqlSafe(text.clone()).into_sql_str(),
        }
    }

    fn for_sqlite(
        &self,
        before: Waiting,
    ) -> Result<sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>, sqlx::Error> {
        let (text, arguments) = before.with(self.text(Dialect::Sqlite), &self.values)?;
        Ok(sqlx::query_with(text, arguments))
    }

    fn for_postgres(&self) -> Result<sqlx::query::Query<'static, sqlx::Postgres, PgArguments>, sqlx::Error> {
        let mut arguments = PgArguments::default();
        self.values
            .iter()
            .try_for_each(|value| value.add_to_postgres(&mut arguments))?;
        Ok(sqlx::query_with(self.text(Dialect::Postgres), arguments))
    }

    /// Runs it before the next statement of this connection at the latest: whoever gives it needs no answer. On SQLite it
    /// goes together with that one ([`Waiting`]), which then fails with what it fails with.
    pub(in crate::store) async fn execute_soon(self, connection: &mut Connection) -> Result<(), sqlx::Error> {
        match connection.dialect() {
            Dialect::Sqlite => {
                let text = self.text(Dialect::Sqlite);
                connection.waiting().add(text.as_str(), &self.values)
            }
            Dialect::Postgres => self.execute(connection).await.map(drop),
        }
    }

    /// Runs it. Returns how many rows it changed.
    pub(in crate::store) async fn execute(self, connection: &mut Connection) -> Result<u64, sqlx::Error> {
        let before = connection.take_waiting();
        match connection.half() {
            Half::Sqlite(sqlite) => {
                // Of several statements the last is the one that is asked about.
                let mut results = sqlite.fetch_many(self.for_sqlite(before)?);
                let mut changed = 0;
                while let Some(result) = results.try_next().await? {
                    if let Either::Left(done) = result {
                        changed = done.rows_affected();
                    }
                }
                Ok(changed)
            }
            Half::Postgres(postgres) => Ok(postgres.execute(self.for_postgres()?).await?.rows_affected()),
        }
    }

    /// The first row, if there is one.
    pub(in crate::store) async fn fetch_optional(
        self,
        connection: &mut Connection,
    ) -> Result<Option<Row>, sqlx::Error> {
        let before = connection.take_waiting();
        match connection.half() {
            Half::Sqlite(sqlite) => Ok(sqlite
                .fetch_optional(self.for_sqlite(before)?)
                .await?
                .map(Row::Sqlite)),
            Half::Postgres(postgres) => {
                let found = postgres.fetch_optional(self.for_postgres()?).await?;
                Ok(found.map(Row::Postgres))
            }
        }
    }

    /// The first row; that there is none is an error.
    pub(in crate::store) async fn fetch_one(self, connection: &mut Connection) -> Result<Row, sqlx::Error> {
        self.fetch_optional(connection)
            .await?
            .ok_or(sqlx::Error::RowNotFound)
    }

    /// All rows.
    pub(in crate::store) async fn fetch_all(
        self,
        connection: &mut Connection,
    ) -> Result<Vec<Row>, sqlx::Error> {
        self.fetch(connection)?.try_collect().await
    }

    /// The first column of all rows.
    pub(in crate::store) async fn fetch_column<T: Column>(
        self,
        connection: &mut Connection,
    ) -> Result<Vec<T>, sqlx::Error> {
        let rows = self.fetch_all(connection).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    /// One row after the other.
    pub(in crate::store) fn fetch(
        self,
        connection: &mut Connection,
    ) -> Result<BoxStream<'_, Result<Row, sqlx::Error>>, sqlx::Error> {
        let before = connection.take_waiting();
        Ok(match connection.half() {
            Half::Sqlite(sqlite) => sqlite.fetch(self.for_sqlite(before)?).map_ok(Row::Sqlite).boxed(),
            Half::Postgres(postgres) => postgres.fetch(self.for_postgres()?).map_ok(Row::Postgres).boxed(),
        })
    }
}
