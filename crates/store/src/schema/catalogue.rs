//! Compares the tables, views, triggers and functions of a database with those that the migrations create.
//!
//! A planted trigger would run with the daemon's rights at each write, and a changed view could show agents the data of others.
//! SQLite's schema is compared with that of an empty database that the same migrations have created. A role that may only read
//! can't create a database on PostgreSQL, so there the schema is compared with a list (`migrations/postgres/catalogue.tsv`), and
//! a test compares this list with the migrations. The check ignores additions that don't affect recapd: indexes, privileges, row
//! policies, partitions, and other tables and views in the same schema.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use sqlx::{Connection as _, SqliteConnection, migrate::Migrator};

use super::{SqlDialect, migrator, read, run};
use crate::{
    DatabaseSettings, StoreResult, postgres,
    schema::failure,
    sql::{Connection, query, sql},
    sqlite,
};

/// The objects that the migrations create on PostgreSQL: kind, name and definition, one per line.
const POSTGRES: &str = include_str!("../../migrations/postgres/catalogue.tsv");
const STATEMENT_MS_MAX: u64 = 60_000;

/// An object in a schema that differs from what the migrations create.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SchemaFault {
    /// `table`, `view`, `trigger`, `index`, `column`, `constraint`, `function` or `rule`.
    pub kind: String,
    /// The object's name, after its table's name and a dot if it belongs to a table.
    pub name: String,
    pub fault: SchemaDifference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaDifference {
    /// The migrations create no such object.
    Planted,
    Changed,
    Missing,
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, fault } = self;
        match fault {
            SchemaDifference::Planted => write!(f, "{kind} {name} isn't one of recapd's"),
            SchemaDifference::Changed => write!(f, "{kind} {name} isn't as recapd made it"),
            SchemaDifference::Missing => write!(f, "{kind} {name} is missing"),
        }
    }
}

/// Definitions of objects, by kind and name.
type Catalogue = BTreeMap<(String, String), String>;

/// Returns every difference between a database and the migrations that it has applied. Changes nothing, and daemons may run.
///
/// # Errors
/// [`StoreError::Unavailable`](crate::StoreError::Unavailable), also when there is no such file.
pub async fn faults(settings: &DatabaseSettings) -> StoreResult<Vec<SchemaFault>> {
    match settings {
        DatabaseSettings::Sqlite(settings) => {
            let mut connection = sqlite::open_unchanged(settings).await?;
            let version = read(&mut connection).await?.version();
            let found = read_sqlite(&mut connection).await?;
            connection.close().await?;
            Ok(differences(&schema_of_migrations(version).await?, &found))
        }
        DatabaseSettings::Postgres(settings) => {
            let expected = parse_list(POSTGRES);
            let mut connection = postgres::connect_single(settings, STATEMENT_MS_MAX).await?;
            let found = read_postgres(&mut connection, Some(&expected)).await?;
            connection.close().await?;
            Ok(differences(&expected, &found))
        }
    }
}

/// Returns the catalogue of a server's database in the form of `migrations/postgres/catalogue.tsv`.
///
/// # Errors
/// [`StoreError::Unavailable`](crate::StoreError::Unavailable).
pub async fn listing(settings: &DatabaseSettings) -> StoreResult<String> {
    let DatabaseSettings::Postgres(settings) = settings else {
        return Ok(String::new());
    };
    let mut connection = postgres::connect_single(settings, STATEMENT_MS_MAX).await?;
    let found = read_postgres(&mut connection, None).await?;
    connection.close().await?;
    let line =
        |((kind, name), definition): (&(String, String), &String)| format!("{kind}\t{name}\t{definition}\n");
    Ok(found.iter().map(line).collect())
}

fn parse_list(list: &str) -> Catalogue {
    let fields = list.lines().filter_map(|line| {
        let mut fields = line.splitn(3, '\t').map(str::to_owned);
        Some(((fields.next()?, fields.next()?), fields.next()?))
    });
    fields.collect()
}

fn differences(expected: &Catalogue, found: &Catalogue) -> Vec<SchemaFault> {
    let fault = |(kind, name): &(String, String), fault| SchemaFault {
        kind: kind.clone(),
        name: name.clone(),
        fault,
    };
    let missing = expected.keys().filter(|key| !found.contains_key(*key));
    let missing = missing.map(|key| fault(key, SchemaDifference::Missing));
    let differences = found.iter().filter_map(|(key, definition)| match expected.get(key) {
        None => Some(fault(key, SchemaDifference::Planted)),
        Some(expected) if expected != definition && definition != INCOMPARABLE => {
            Some(fault(key, SchemaDifference::Changed))
        }
        Some(_) => None,
    });
    let mut faults: Vec<SchemaFault> = missing.chain(differences).collect();
    faults.sort_unstable();
    faults
}

/// Stands for a definition that versions of PostgreSQL word differently, so that it can't be compared.
const INCOMPARABLE: &str = "?";

/// Returns the schema that the migrations up to `version` create, in memory.
async fn schema_of_migrations(version: i64) -> StoreResult<Catalogue> {
    let mut connection: Connection = SqliteConnection::connect("sqlite::memory:").await?.into();
    let all = migrator(SqlDialect::Sqlite);
    let until = all.iter().filter(|migration| migration.version <= version);
    let mut migrator = Migrator::with_migrations(until.cloned().collect());
    migrator.set_locking(false);
    run(&mut connection, &migrator).await.map_err(failure)?;
    let catalogue = read_sqlite(&mut connection).await?;
    connection.close().await?;
    Ok(catalogue)
}

/// Reads a file's catalogue. Leaves out what SQLite and sqlx keep for themselves: statistics, counters, the list of migrations.
async fn read_sqlite(connection: &mut Connection) -> StoreResult<Catalogue> {
    let sql = sql!(
        "-- sqlite/catalogue.read\nSELECT type, name, coalesce(sql, '') FROM sqlite_schema \
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND tbl_name <> '_sqlx_migrations'"
    );
    let rows = query(sql).fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let definition: String = row.try_get(2)?;
            Ok(((row.try_get(0)?, row.try_get(1)?), normalized(&definition)))
        })
        .collect()
}

/// Removes white space and the quotation marks of names, because versions of SQLite place them differently in altered tables.
fn normalized(definition: &str) -> String {
    let is_significant = |c: &char| !c.is_whitespace() && *c != '"';
    definition.chars().filter(is_significant).collect()
}

/// Reads the relations and functions in `names`, and functions with the same name as one of PostgreSQL's own. `None` reads all.
async fn read_postgres(connection: &mut Connection, names: Option<&Catalogue>) -> StoreResult<Catalogue> {
    let names_of = |is_function: bool| {
        let keys = names?.keys().filter(move |(kind, _)| match kind.as_str() {
            "function" => is_function,
            "table" | "view" => !is_function,
            _ => false,
        });
        // Keeps a function's name without its parameter types.
        let names = keys.map(|(_, name)| name.split('(').next().unwrap_or_default());
        Some(serde_json::json!(names.collect::<Vec<_>>()).to_string())
    };
    let relations = sql!(
        "-- postgres/catalogue.relations\nWITH own AS (SELECT c.oid, c.relname, c.relkind FROM pg_class c \
         WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') \
         AND NOT c.relispartition AND c.relname <> '_sqlx_migrations' \
         AND ($1 IS NULL OR c.relname IN (SELECT jsonb_array_elements_text(CAST($1 AS jsonb))))) \
         SELECT CASE WHEN relkind IN ('v', 'm') THEN 'view' ELSE 'table' END, CAST(relname AS text), \
         CASE WHEN relkind IN ('v', 'm') THEN CASE WHEN current_setting('server_version_num') LIKE '15%' \
         THEN md5(replace(pg_get_viewdef(oid), quote_ident(current_schema()) || '.', '')) ELSE '?' END ELSE '' END FROM own \
         UNION ALL SELECT 'column', own.relname || '.' || a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod), \
         CASE WHEN a.attnotnull THEN 'not null' END, nullif(CAST(a.attidentity AS text), ''), \
         nullif(CAST(a.attgenerated AS text), ''), pg_get_expr(d.adbin, d.adrelid)) FROM own \
         JOIN pg_attribute a ON a.attrelid = own.oid AND a.attnum > 0 AND NOT a.attisdropped \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         UNION ALL SELECT 'constraint', own.relname || '.' || c.conname, pg_get_constraintdef(c.oid) FROM own \
         JOIN pg_constraint c ON c.conrelid = own.oid AND c.contype IN ('c', 'u', 'p', 'f') AND c.conparentid = 0 \
         UNION ALL SELECT 'trigger', own.relname || '.' || t.tgname, concat_ws(' ', t.tgtype, t.tgenabled, p.proname, \
         (SELECT string_agg(a.attname, ',' ORDER BY a.attname) FROM pg_attribute a WHERE a.attrelid = own.oid \
         AND a.attnum = ANY (CAST(t.tgattr AS int2[]))), \
         CASE WHEN t.tgqual IS NOT NULL THEN 'when' END) FROM own \
         JOIN pg_trigger t ON t.tgrelid = own.oid AND NOT t.tgisinternal JOIN pg_proc p ON p.oid = t.tgfoid \
         UNION ALL SELECT 'rule', own.relname || '.' || r.rulename, md5(pg_get_ruledef(r.oid)) FROM own \
         JOIN pg_rewrite r ON r.ev_class = own.oid AND r.rulename <> '_RETURN'"
    );
    let functions = sql!(
        "-- postgres/catalogue.functions\nSELECT 'function', p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', \
         concat_ws(' ', l.lanname, p.provolatile, CASE WHEN p.prosecdef THEN 'definer' END, array_to_string(p.proconfig, ' '), \
         md5(replace(p.prosrc, quote_ident(current_schema()) || '.', ''))) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang \
         WHERE p.pronamespace = CAST(current_schema() AS regnamespace) \
         AND ($1 IS NULL OR p.proname IN (SELECT jsonb_array_elements_text(CAST($1 AS jsonb))) \
         OR EXISTS (SELECT 1 FROM pg_proc o WHERE o.proname = p.proname AND o.pronamespace = CAST('pg_catalog' AS regnamespace))) \
         AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = CAST('pg_proc' AS regclass) AND d.objid = p.oid \
         AND d.deptype = 'e')"
    );
    let mut found = Catalogue::new();
    for (statement, names) in [(relations, names_of(false)), (functions, names_of(true))] {
        for row in query(statement).bind(names).fetch_all(&mut *connection).await? {
            let definition: String = row.try_get(2)?;
            let definition = definition.split_whitespace().collect::<Vec<_>>().join(" ");
            found.insert((row.try_get(0)?, row.try_get(1)?), definition);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let of = |objects: &[(&str, &str, &str)]| -> Catalogue {
            let object = |(kind, name, definition): &(&str, &str, &str)| {
                (((*kind).to_owned(), (*name).to_owned()), (*definition).to_owned())
            };
            objects.iter().map(object).collect()
        };
        let made = of(&[("table", "a", "x"), ("table", "b", "x"), ("view", "v", "x"), ("view", "w", "x")]);
        let found = of(&[
            ("table", "a", "y"),
            ("view", "v", INCOMPARABLE),
            ("view", "w", "x"),
            ("trigger", "a.t", "z"),
        ]);
        let texts: Vec<String> = differences(&made, &found).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["table a isn't as recapd made it", "table b is missing", "trigger a.t isn't one of recapd's",]
        );
        assert_eq!(differences(&made, &made), []);
    }

    #[tokio::test]
    async fn the_schema_of_each_version_can_be_made_in_memory() {
        let versions = sqlite::MIGRATIONS.iter().map(|(version, ..)| *version);
        let mut before = 0;
        for version in versions {
            let made = schema_of_migrations(version).await.unwrap();
            assert!(made.len() > 1, "{version}");
            before = made.len();
        }
        assert!(before > 50, "{before}");
    }

    #[test]
    fn the_list_for_postgresql_covers_each_kind_of_object() {
        let listed = parse_list(POSTGRES);
        for (kind, name) in [
            ("table", "message_log"),
            ("view", "agent_summary"),
            ("column", "message_log.payload"),
            ("function", "recapd_take_message()"),
        ] {
            assert!(listed.contains_key(&(kind.to_owned(), name.to_owned())), "{kind} {name}");
        }
        assert!(listed.keys().any(|(kind, _)| kind == "trigger"));
    }
}
