//! Pairs the tables of two databases column by column, as their schemas define them.

use std::collections::BTreeMap;

use super::{
    super::{
        StoreResult,
        sql::{Connection, query, query_made, sql, statement::SqlDialect},
    },
    CopyError,
};

/// The tables that aren't copied, by the beginnings of their names: the record of migrations, counters, the recall index, which
/// is built again, and SQLite's own tables.
const LEFT_OUT: [&str; 4] = ["_sqlx_migrations", "counters", "recall_", "sqlite_"];
/// Columns that only one of the databases has.
const OWN_COLUMNS: [(&str, &str); 1] = [("message_log", "id")];

/// The kind of values in a column, which both databases have in different types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnKind {
    Int,
    Real,
    Text,
    Json,
    Flag,
    Time,
}

/// A table that both databases have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) columns: Vec<(String, ColumnKind)>,
    /// The column that PostgreSQL numbers automatically.
    numbered: Option<String>,
}

impl Pair {
    /// Returns SQL that reads all rows of the table, in storage order.
    pub(super) fn select(&self, dialect: SqlDialect) -> String {
        let column = |(name, kind): &(String, ColumnKind)| match (dialect, kind) {
            (SqlDialect::Postgres, ColumnKind::Json) => format!("CAST(\"{name}\" AS text)"),
            (SqlDialect::Postgres, ColumnKind::Int) => format!("CAST(\"{name}\" AS bigint)"),
            _ => format!("\"{name}\""),
        };
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        format!("-- sql/copy.read\nSELECT {} FROM \"{}\"", columns.join(", "), self.name)
    }

    /// Returns the beginning of an `INSERT` that also sets numbers which the target would otherwise assign itself.
    pub(super) fn insert(&self, dialect: SqlDialect) -> String {
        let columns: Vec<String> = self.columns.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let keep = match dialect {
            SqlDialect::Sqlite => "",
            SqlDialect::Postgres => "OVERRIDING SYSTEM VALUE",
        };
        format!("-- sql/copy.write\nINSERT INTO \"{}\" ({}) {keep}", self.name, columns.join(", "))
    }

    pub(super) async fn count(&self, connection: &mut Connection) -> StoreResult<u64> {
        let sql = format!("-- sql/copy.count\nSELECT count(*) FROM \"{}\"", self.name);
        let count: i64 = query_made(sql).fetch_one(connection).await?.try_get(0)?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Makes PostgreSQL continue the numbers of new rows after the existing ones.
    pub(super) async fn continue_numbering(&self, target: &mut Connection) -> StoreResult<()> {
        let Some(column) = &self.numbered else {
            return Ok(());
        };
        let table = &self.name;
        let sql = format!(
            "-- postgres/copy.number\nSELECT setval(pg_get_serial_sequence('\"{table}\"', '{column}'), \
             coalesce(max(\"{column}\"), 1), max(\"{column}\") IS NOT NULL) FROM \"{table}\""
        );
        query_made(sql).execute(target).await?;
        Ok(())
    }
}

/// Returns the tables to copy. A table comes after those that it refers to.
pub(super) async fn pairs(source: &mut Connection, target: &mut Connection) -> Result<Vec<Pair>, CopyError> {
    let from = tables(source).await.map_err(CopyError::Source)?;
    let mut to = tables(target).await.map_err(CopyError::Target)?;
    let mut pairs = Vec::new();
    for (name, columns) in from {
        let target_columns = to.remove(&name).ok_or_else(|| mismatch(&name, "table"))?;
        pairs.push(pair(&name, columns, target_columns)?);
    }
    if let Some((name, _)) = to.pop_first() {
        return Err(mismatch(&name, "table"));
    }
    let references = references(target).await.map_err(CopyError::Target)?;
    Ok(in_order(pairs, &references))
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    type_name: String,
    is_numbered: bool,
}

fn pair(name: &str, from: Vec<Column>, mut to: Vec<Column>) -> Result<Pair, CopyError> {
    let is_own = |column: &Column| OWN_COLUMNS.contains(&(name, column.name.as_str()));
    let mut pair = Pair { name: name.to_owned(), columns: Vec::new(), numbered: None };
    for column in from {
        if is_own(&column) {
            continue;
        }
        let full_name = format!("{name}.{}", column.name);
        let Some(index) = to.iter().position(|other| other.name == column.name) else {
            return Err(mismatch(&full_name, "column"));
        };
        let other = to.swap_remove(index);
        let kind = shared_kind(&column.type_name, &other.type_name).ok_or_else(|| {
            mismatch(&format!("{full_name} ({}, {})", column.type_name, other.type_name), "column")
        })?;
        if other.is_numbered {
            pair.numbered = Some(column.name.clone());
        }
        pair.columns.push((column.name, kind));
    }
    // A checksum depends on the order of the columns, which the two databases may store differently.
    pair.columns.sort_by(|(one, _), (other, _)| one.cmp(other));
    match to.iter().find(|column| !is_own(column)) {
        Some(column) => Err(mismatch(&format!("{name}.{}", column.name), "column")),
        None => Ok(pair),
    }
}

fn mismatch(name: &str, what: &str) -> CopyError {
    CopyError::Unlike(format!("{what} {name}"))
}

fn kind(type_name: &str) -> Option<ColumnKind> {
    Some(match type_name.to_ascii_lowercase().as_str() {
        "integer" | "bigint" | "smallint" => ColumnKind::Int,
        "real" | "double precision" => ColumnKind::Real,
        "text" => ColumnKind::Text,
        "json" | "jsonb" => ColumnKind::Json,
        "boolean" => ColumnKind::Flag,
        "timestamp with time zone" => ColumnKind::Time,
        _ => return None,
    })
}

/// Returns the kind of a column with these two types. PostgreSQL has more types than SQLite, so its type decides.
fn shared_kind(one: &str, other: &str) -> Option<ColumnKind> {
    match (kind(one)?, kind(other)?) {
        (one, other) if one == other => Some(one),
        (ColumnKind::Int, kind @ (ColumnKind::Flag | ColumnKind::Time))
        | (kind @ (ColumnKind::Flag | ColumnKind::Time), ColumnKind::Int) => Some(kind),
        (ColumnKind::Text, ColumnKind::Json) | (ColumnKind::Json, ColumnKind::Text) => Some(ColumnKind::Json),
        _ => None,
    }
}

async fn tables(connection: &mut Connection) -> StoreResult<BTreeMap<String, Vec<Column>>> {
    // Leaves out generated columns, and partitions, which belong to their table.
    let sql = sql!(
        sqlite: "-- sql/copy.tables\nSELECT m.name, c.name, c.type, 0 FROM sqlite_schema m, \
                 pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid",
        postgres: "-- sql/copy.tables\nSELECT CAST(c.relname AS text), CAST(a.attname AS text), \
                   format_type(a.atttypid, a.atttypmod), a.attidentity <> '' \
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                   JOIN pg_attribute a ON a.attrelid = c.oid \
                   WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND NOT c.relispartition \
                   AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY 1, a.attnum",
    );
    let mut tables: BTreeMap<String, Vec<Column>> = BTreeMap::new();
    for row in query(sql).fetch_all(connection).await? {
        let table: String = row.try_get(0)?;
        if LEFT_OUT.iter().any(|prefix| table.starts_with(prefix)) {
            continue;
        }
        tables.entry(table).or_default().push(Column {
            name: row.try_get(1)?,
            type_name: row.try_get(2)?,
            is_numbered: row.try_get(3)?,
        });
    }
    Ok(tables)
}

async fn references(connection: &mut Connection) -> StoreResult<Vec<(String, String)>> {
    let sql = sql!(
        sqlite: "-- sql/copy.references\nSELECT m.name, f.\"table\" FROM sqlite_schema m, \
                 pragma_foreign_key_list(m.name) f WHERE m.type = 'table'",
        postgres: "-- sql/copy.references\nSELECT CAST(c.relname AS text), CAST(p.relname AS text) \
                   FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_class p ON p.oid = k.confrelid \
                   WHERE k.contype = 'f'",
    );
    let rows = query(sql).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Puts referenced tables first. Tables in a cycle keep their order; their references must be deferrable.
fn in_order(mut pairs: Vec<Pair>, references: &[(String, String)]) -> Vec<Pair> {
    let mut ordered: Vec<Pair> = Vec::new();
    while !pairs.is_empty() {
        let is_free = |pair: &Pair| {
            !references.iter().any(|(table, parent)| {
                *table == pair.name && *parent != pair.name && pairs.iter().any(|other| other.name == *parent)
            })
        };
        let next = pairs.iter().position(is_free).unwrap_or(0);
        ordered.push(pairs.remove(next));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgresql_types_decide_the_kind_of_a_number() {
        assert_eq!(shared_kind("INTEGER", "bigint"), Some(ColumnKind::Int));
        assert_eq!(shared_kind("INTEGER", "boolean"), Some(ColumnKind::Flag));
        assert_eq!(shared_kind("timestamp with time zone", "INTEGER"), Some(ColumnKind::Time));
        assert_eq!(shared_kind("TEXT", "json"), Some(ColumnKind::Json));
        assert_eq!(shared_kind("TEXT", "bigint"), None);
        assert_eq!(shared_kind("BLOB", "bytea"), None);
    }

    #[test]
    fn referenced_tables_come_first() {
        let pair = |name: &str| Pair { name: name.to_owned(), columns: Vec::new(), numbered: None };
        let refers = |table: &str, parent: &str| (table.to_owned(), parent.to_owned());
        let references = [refers("a", "c"), refers("b", "a"), refers("c", "c")];
        let ordered = in_order(["a", "b", "c", "d"].map(pair).to_vec(), &references);
        let names: Vec<&str> = ordered.iter().map(|pair| pair.name.as_str()).collect();
        assert_eq!(names, ["c", "a", "b", "d"]);
    }
}
