//! Translates statements into the form that each database needs.
//!
//! SQL is written once. Where the two databases use different words for the same thing, the text has a placeholder ([`WORDS`]).
//! Where they need different statements, both are written next to each other. Parameters are `$1`, `$2`, …

use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlDialect {
    Sqlite,
    Postgres,
}

/// Placeholder, SQLite's word, PostgreSQL's word.
const WORDS: [(&str, &str, &str); 19] = [
    // The greater of two values, and the lesser. Neither may be NULL, because the databases treat NULL differently.
    ("{max}", "max", "greatest"),
    ("{min}", "min", "least"),
    // A text parameter as JSON.
    ("{::json}", "", "::json"),
    ("{::jsonb}", "", "::jsonb"),
    // An array's elements, in a column `value`. `CAST(value AS bigint)` reads a number, and `CAST(value ->> 0 AS bigint)` reads
    // one from a nested array.
    ("{each}", "json_each", "jsonb_array_elements"),
    ("{each_text}", "json_each", "jsonb_array_elements_text"),
    ("{array}", "json_array", "json_build_array"),
    ("{array_of}", "json_group_array", "json_agg"),
    // Flags are numbers in SQLite, also in the conditions of partial indexes.
    ("{true}", "1", "true"),
    ("{false}", "0", "false"),
    // After a number of milliseconds that is added to a time.
    ("{ms}", "", "* interval '1 millisecond'"),
    // In a CROSS JOIN, SQLite keeps the order of the tables, whatever its statistics say.
    ("{join}", "CROSS JOIN", "JOIN"),
    // SQLite has one writer, so a row can't change between its reading and the commit.
    ("{for_update}", "", "FOR NO KEY UPDATE"),
    // Keeps the row from being deleted. With several tables, the row of `a`.
    ("{for_share}", "", "FOR KEY SHARE"),
    ("{a_for_share}", "", "FOR KEY SHARE OF a"),
    // Skips rows that another transaction is writing. With several tables, rows of `v` or of `a`.
    ("{skip_locked}", "", "FOR UPDATE SKIP LOCKED"),
    ("{v_skip_locked}", "", "FOR UPDATE OF v SKIP LOCKED"),
    ("{a_skip_locked}", "", "FOR NO KEY UPDATE OF a SKIP LOCKED"),
    // Stands before the insertion of messages of agent `$1`: marks the agent for indexing. SQLite's index goes by the messages'
    // ids instead.
    (
        "{noting}",
        "",
        "/* noted */ WITH noted AS (INSERT INTO recall_pending (agent_id) VALUES ($1) ON CONFLICT (agent_id) DO NOTHING) ",
    ),
];

pub(crate) struct Statement {
    sqlite: &'static str,
    postgres: &'static str,
    texts: [OnceLock<String>; 2],
}

impl Statement {
    pub(crate) const fn new(sql: &'static str) -> Self {
        Self::different(sql, sql)
    }

    pub(crate) const fn different(sqlite: &'static str, postgres: &'static str) -> Self {
        Self { sqlite, postgres, texts: [const { OnceLock::new() }; 2] }
    }

    pub(crate) fn text(&'static self, dialect: SqlDialect) -> &'static str {
        let [sqlite, postgres] = &self.texts;
        match dialect {
            SqlDialect::Sqlite => sqlite.get_or_init(|| translate(self.sqlite, dialect)),
            SqlDialect::Postgres => postgres.get_or_init(|| translate(self.postgres, dialect)),
        }
    }
}

fn translate(sql: &str, dialect: SqlDialect) -> String {
    let replace = |text: String, (word, sqlite, postgres): &(&str, &str, &str)| match dialect {
        SqlDialect::Sqlite => text.replace(word, sqlite),
        SqlDialect::Postgres => text.replace(word, postgres),
    };
    WORDS.iter().fold(sql.to_owned(), replace)
}

/// Makes a static statement: `sql!("…")`, with one or more parts that are joined, or `sql!(sqlite: "…", postgres: "…")`.
macro_rules! sql {
    (sqlite: $sqlite:expr, postgres: $postgres:expr $(,)?) => {{
        static STATEMENT: $crate::sql::statement::Statement =
            $crate::sql::statement::Statement::different($sqlite, $postgres);
        &STATEMENT
    }};
    ($($part:tt)+) => {{
        static STATEMENT: $crate::sql::statement::Statement =
            $crate::sql::statement::Statement::new(concat!($($part)+));
        &STATEMENT
    }};
}
pub(crate) use sql;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_gets_its_words() {
        let sql = "SELECT {max}(a, $1) FROM {each}($2) WHERE flag = {true} {for_update}";
        let sqlite = "SELECT max(a, $1) FROM json_each($2) WHERE flag = 1 ";
        assert_eq!(translate(sql, SqlDialect::Sqlite), sqlite);
        let postgres =
            "SELECT greatest(a, $1) FROM jsonb_array_elements($2) WHERE flag = true FOR NO KEY UPDATE";
        assert_eq!(translate(sql, SqlDialect::Postgres), postgres);
    }
}
