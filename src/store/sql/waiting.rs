//! Statements that wait for the next one, on SQLite.
//!
//! Each statement goes to the thread of its connection and back, which costs as much as writing some rows. Those whose
//! answer nobody needs are kept, and go together with the next one that somebody waits for.

use sqlx::{SqlStr, sqlite::SqliteArguments};

use super::value::Value;

/// Their texts, one behind the other, and what they are given.
#[derive(Default)]
pub(in crate::store) struct Waiting {
    text: String,
    arguments: SqliteArguments,
    given: usize,
}

impl Waiting {
    /// Adds a statement, whose parameters are numbered from 1.
    pub(super) fn add(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), sqlx::Error> {
        if !self.text.is_empty() {
            self.text.push_str(";\n");
        }
        push_renumbered(&mut self.text, sql, self.given);
        self.given += values.len();
        values
            .iter()
            .try_for_each(|value| value.add_to_sqlite(&mut self.arguments))
    }

    /// All of them with `sql` behind them, as one statement.
    pub(super) fn with(
        mut self,
        sql: SqlStr,
        values: &[Value<'_>],
    ) -> Result<(SqlStr, SqliteArguments), sqlx::Error> {
        use sqlx::{AssertSqlSafe, SqlSafeStr as _};
        if self.text.is_empty() {
            values
                .iter()
                .try_for_each(|value| value.add_to_sqlite(&mut self.arguments))?;
            return Ok((sql, self.arguments));
        }
        self.add(sql.as_str(), values)?;
        Ok((AssertSqlSafe(self.text).into_sql_str(), self.arguments))
    }
}

/// Writes `sql` behind `text`, each `$N` as the parameter so many places later. A `$` before anything but a number, as in
/// JSON's paths, stays.
fn push_renumbered(text: &mut String, sql: &str, later: usize) {
    let mut parts = sql.split('$');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        text.push('$');
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        match number.parse::<usize>() {
            Ok(number) => text.push_str(&(number + later).to_string()),
            Err(_) => text.push_str(number),
        }
        text.push_str(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_their_own_statement() {
        let mut waiting = Waiting::default();
        waiting
            .add("UPDATE a SET b = $2 WHERE c = $1", &[1.into(), 2.into()])
            .unwrap();
        waiting.add("DELETE FROM a", &[]).unwrap();
        let sql = sqlx::SqlSafeStr::into_sql_str("SELECT json_extract($1, '$.d') || $10");
        let (sql, arguments) = waiting.with(sql, &[3.into()]).unwrap();
        assert_eq!(
            sql.as_str(),
            "UPDATE a SET b = $2 WHERE c = $1;\nDELETE FROM a;\nSELECT json_extract($3, '$.d') || $12"
        );
        assert_eq!(sqlx::Arguments::len(&arguments), 3);
    }

    #[test]
    fn a_statement_by_itself_stays_as_it_is() {
        let sql = sqlx::SqlSafeStr::into_sql_str("SELECT $1");
        let (sql, arguments) = Waiting::default().with(sql, &[1.into()]).unwrap();
        assert_eq!(sql.as_str(), "SELECT $1");
        assert_eq!(sqlx::Arguments::len(&arguments), 1);
    }
}
