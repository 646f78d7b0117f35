//! Whether a file can be written, and whether it is whole: a database that can be read may be neither. And whether a server's
//! database holds texts as recapd needs them.

use super::{
    DatabaseSettings, StoreResult, postgres, schema,
    sql::{query, sql},
    sqlite,
};

/// SQLite's answer where it finds nothing.
const WHOLE: &str = "ok";
/// What its answer has where it couldn't look.
const UNSEEN: &str = "unable to validate";

/// Tries whether a file takes writes, and changes nothing. Of a server only its own log knows.
///
/// # Errors
/// What a write would fail with.
pub async fn can_be_written(settings: &DatabaseSettings) -> StoreResult<()> {
    let DatabaseSettings::Sqlite(settings) = settings else {
        return Ok(());
    };
    let mut connection = sqlite::beside(settings).await?;
    let begin = sql!("-- sqlite/examine.begin\nBEGIN IMMEDIATE");
    query(begin).execute(&mut connection).await?;
    let undo = sql!("-- sqlite/examine.undo\nROLLBACK");
    query(undo).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

/// The encoding of a server's database, if it is another than UTF8.
///
/// # Errors
/// [`StoreError::Unavailable`](super::StoreError::Unavailable).
pub async fn other_encoding(settings: &DatabaseSettings) -> StoreResult<Option<String>> {
    let DatabaseSettings::Postgres(settings) = settings else {
        return Ok(None);
    };
    let mut connection = postgres::alone(settings, settings.statement_timeout_ms).await?;
    schema::other_encoding(&mut connection).await
}

/// The schemas of a server that every role may create in, though recapd finds names there.
///
/// # Errors
/// [`StoreError::Unavailable`](super::StoreError::Unavailable).
pub async fn open_schemas(settings: &DatabaseSettings) -> StoreResult<Vec<String>> {
    let DatabaseSettings::Postgres(settings) = settings else {
        return Ok(Vec::new());
    };
    let mut connection = postgres::alone(settings, settings.statement_timeout_ms).await?;
    schema::open_schemas(&mut connection).await
}

/// The first thing that is broken in a file, if anything is. Reads all of it.
///
/// # Errors
/// What reading fails with, which may be a damage, too.
pub async fn damage(settings: &DatabaseSettings) -> StoreResult<Option<String>> {
    let DatabaseSettings::Sqlite(settings) = settings else {
        return Ok(None);
    };
    let mut connection = sqlite::looking(settings).await?;
    let sql = sql!("-- sqlite/examine.damage\nPRAGMA quick_check(1)");
    let found: String = query(sql).fetch_one(&mut connection).await?.try_get(0)?;
    connection.close().await?;
    let is_broken = found != WHOLE && !found.contains(UNSEEN);
    Ok(is_broken.then_some(found))
}
