//! Classifies why the database is unusable for now, by the drivers' error codes, because their texts differ by version and
//! language.

use std::{fmt, io};

use sqlx::{error::DatabaseError, postgres::PgDatabaseError};

/// SQLite's primary result codes, see sqlite.org/rescode.html. Extended codes have one of them as their lowest byte.
const SQLITE_BUSY: i32 = 5;
const SQLITE_LOCKED: i32 = 6;
const SQLITE_CORRUPT: i32 = 11;
const SQLITE_FULL: i32 = 13;
const SQLITE_NOTADB: i32 = 26;
/// The bits of SQLite's codes that hold the primary result code.
const SQLITE_RESULT: i32 = 0xff;
/// PostgreSQL's `disk_full`, for any kind of disk use.
const DISK_FULL: &str = "53100";
/// PostgreSQL's `query_canceled`: a statement took too long.
const TOO_LONG: &str = "57014";
/// PostgreSQL's `invalid_sql_statement_name` and `duplicate_prepared_statement`. recapd's own statements cause these errors only
/// if a pooler gives each transaction another connection.
const POOLED: [&str; 2] = ["26000", "42P05"];
/// The text for this error: its cause and its cure.
const POOLER: &str = "a pooler in transaction mode stands before the server: let it pool sessions, or name the server itself \
                      (database.url; docs/postgres.md)";
/// PostgreSQL's `data_corrupted` and `index_corrupted`.
const DAMAGED: [&str; 2] = ["XX001", "XX002"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub kind: OutageKind,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageKind {
    /// There is no space.
    Full,
    /// Others hold the database or all connections to it, or a statement took too long.
    Busy,
    /// The stored data is damaged, or the file is no database.
    Corrupt,
    Io,
}

impl OutageKind {
    /// Returns the label in `recapd_db_errors_total`.
    pub fn class(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Busy => "busy",
            Self::Corrupt => "corrupt",
            Self::Io => "io",
        }
    }
}

impl Outage {
    /// Puts `what`, the thing that failed, before the reason.
    pub(super) fn of(self, what: impl fmt::Display) -> Self {
        Self { reason: format!("{what}: {}", self.reason), ..self }
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl From<String> for Outage {
    fn from(reason: String) -> Self {
        let kind = OutageKind::Io;
        Self { kind, reason }
    }
}

impl From<&str> for Outage {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl From<&sqlx::Error> for Outage {
    fn from(error: &sqlx::Error) -> Self {
        let kind = match error {
            sqlx::Error::PoolTimedOut => OutageKind::Busy,
            sqlx::Error::Io(error) => kind_of_io(error),
            _ => error.as_database_error().map_or(OutageKind::Io, kind_of_refusal),
        };
        let reason = error.to_string();
        let outage = Self { kind, reason };
        if is_pooled(error) { outage.of(POOLER) } else { outage }
    }
}

fn is_pooled(error: &sqlx::Error) -> bool {
    let refusal = error.as_database_error();
    refusal.is_some_and(|refusal| refusal.code().is_some_and(|code| POOLED.contains(&code.as_ref())))
}

impl From<&io::Error> for Outage {
    fn from(error: &io::Error) -> Self {
        let (kind, reason) = (kind_of_io(error), error.to_string());
        Self { kind, reason }
    }
}

fn kind_of_io(error: &io::Error) -> OutageKind {
    match error.kind() {
        io::ErrorKind::StorageFull => OutageKind::Full,
        _ => OutageKind::Io,
    }
}

fn kind_of_refusal(refusal: &(dyn DatabaseError + 'static)) -> OutageKind {
    if let Some(refusal) = refusal.try_downcast_ref::<PgDatabaseError>() {
        return match refusal.code() {
            DISK_FULL => OutageKind::Full,
            TOO_LONG => OutageKind::Busy,
            code if DAMAGED.contains(&code) => OutageKind::Corrupt,
            _ => OutageKind::Io,
        };
    }
    let code = refusal.code().and_then(|code| code.parse::<i32>().ok());
    match code.map(|code| code & SQLITE_RESULT) {
        Some(SQLITE_BUSY | SQLITE_LOCKED) => OutageKind::Busy,
        Some(SQLITE_FULL) => OutageKind::Full,
        Some(SQLITE_CORRUPT | SQLITE_NOTADB) => OutageKind::Corrupt,
        _ => OutageKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreError, sql::direct};

    #[test]
    fn sqlite_codes_give_the_kind_of_an_outage() {
        for (code, class) in [
            (5, "busy"),
            (261, "busy"),
            (517, "busy"),
            (6, "busy"),
            (262, "busy"),
            (13, "full"),
            (11, "corrupt"),
            (267, "corrupt"),
            (26, "corrupt"),
            (10, "io"),
            (778, "io"),
            (14, "io"),
            (275, "constraint"),
        ] {
            let said = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            let error = StoreError::from(direct::failure(said));
            assert_eq!(error.class(), Some(class), "{error}");
        }
    }

    #[test]
    fn errors_of_pools_and_files_have_kinds_and_plain_text_counts_as_io() {
        let of_file = |kind: io::ErrorKind| Outage::from(&sqlx::Error::Io(kind.into())).kind;
        assert_eq!(of_file(io::ErrorKind::StorageFull), OutageKind::Full);
        assert_eq!(of_file(io::ErrorKind::ConnectionReset), OutageKind::Io);
        let named = Outage::from(&io::Error::from(io::ErrorKind::StorageFull)).of("some.db.lock");
        assert_eq!(named.kind, OutageKind::Full);
        assert!(named.reason.starts_with("some.db.lock: "), "{named}");
        assert_eq!(Outage::from(&sqlx::Error::PoolTimedOut).kind, OutageKind::Busy);
        assert_eq!(Outage::from("(code: 13) No space left").kind, OutageKind::Io);
    }
}
