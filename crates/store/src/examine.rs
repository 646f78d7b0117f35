//! Examines a database. A file must accept writes and be undamaged (that it can be read proves neither). The database of a server
//! must have the right encoding, and schemas in which other roles can't create objects.

use super::{
    DatabaseSettings, StoreResult, postgres, schema,
    sql::{query, sql},
    sqlite,
};

/// SQLite's answer if it finds no damage.
const NO_DAMAGE: &str = "ok";
/// Part of SQLite's answer if it couldn't check something.
const NOT_CHECKED: &str = "unable to validate";

/// Checks whether a file accepts writes, without changing anything. Does nothing for a server.
///
/// # Errors
/// Any error of a write.
pub async fn can_be_written(settings: &DatabaseSettings) -> StoreResult<()> {
    let DatabaseSettings::Sqlite(settings) = settings else {
        return Ok(());
    };
    let mut connection = sqlite::open_shared(settings).await?;
    let begin = sql!("-- sqlite/examine.begin\nBEGIN IMMEDIATE");
    query(begin).execute(&mut connection).await?;
    let undo = sql!("-- sqlite/examine.undo\nROLLBACK");
    query(undo).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

/// Returns the encoding of a server's database if it isn't UTF8.
///
/// # Errors
/// [`StoreError::Unavailable`](super::StoreError::Unavailable).
pub async fn non_utf8_encoding(settings: &DatabaseSettings) -> StoreResult<Option<String>> {
    let DatabaseSettings::Postgres(settings) = settings else {
        return Ok(None);
    };
    let mut connection = postgres::connect_single(settings, settings.statement_timeout_ms).await?;
    schema::non_utf8_encoding(&mut connection).await
}

/// Returns the schemas in a server's search path in which every role may create objects.
///
/// # Errors
/// [`StoreError::Unavailable`](super::StoreError::Unavailable).
pub async fn open_schemas(settings: &DatabaseSettings) -> StoreResult<Vec<String>> {
    let DatabaseSettings::Postgres(settings) = settings else {
        return Ok(Vec::new());
    };
    let mut connection = postgres::connect_single(settings, settings.statement_timeout_ms).await?;
    schema::open_schemas(&mut connection).await
}

/// Returns the first damage in a file, if there is any. Reads the whole file.
///
/// # Errors
/// Any error of a read, which may itself be caused by damage.
pub async fn damage(settings: &DatabaseSettings) -> StoreResult<Option<String>> {
    let DatabaseSettings::Sqlite(settings) = settings else {
        return Ok(None);
    };
    let mut connection = sqlite::open_unchanged(settings).await?;
    let sql = sql!("-- sqlite/examine.damage\nPRAGMA quick_check(1)");
    let found: String = query(sql).fetch_one(&mut connection).await?.try_get(0)?;
    connection.close().await?;
    let is_broken = found != NO_DAMAGE && !found.contains(NOT_CHECKED);
    Ok(is_broken.then_some(found))
}
