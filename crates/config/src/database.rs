//! `[database]`: where recapd stores its data.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The default file name of the database.
pub const DEFAULT_FILE: &str = "recapd.db";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseConfig {
    /// `sqlite:` and a path, or `postgres://USER@HOST/DATABASE`. If no source sets it, loading sets it to [`DEFAULT_FILE`] in the
    /// user's state folder.
    pub url: String,
    /// True if no database was configured, so that it is in the user's state folder, which is created if necessary.
    #[serde(skip)]
    pub is_in_state_folder: bool,
    /// PostgreSQL: a standby for reads that may be slightly stale; empty if there is none.
    pub read_url: String,
    /// PostgreSQL: how far the standby of `read_url` may be behind.
    pub read_lag_ms_max: u64,
    pub migrate: Migrate,
    pub connections: u32,
    pub statement_timeout_ms: u64,
    pub readers: u32,
    /// Limits the wait for a write lock (SQLite), or for a connection and locks (PostgreSQL).
    pub busy_timeout_ms: u64,
    pub synchronous: Synchronous,
}

impl DatabaseConfig {
    /// Returns true for PostgreSQL, a database that several daemons can share.
    pub fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    /// Returns the same settings for another database, given by its URL or a file's path.
    ///
    /// # Errors
    /// What is wrong with the URL. The text doesn't show the URL, which may contain a password.
    pub fn at(&self, location: &str) -> Result<Self, &'static str> {
        let url = url_of(location);
        match cure(&url) {
            Some(cure) => Err(cure),
            None => Ok(Self { url, is_in_state_folder: false, read_url: String::new(), ..self.clone() }),
        }
    }

    /// Puts a database that isn't configured into the user's state folder. Ignores a file in the working directory, because
    /// anybody may have put it there.
    pub(super) fn settle(&mut self, state_folder: Option<&Path>) {
        if let Some(folder) = state_folder.filter(|_| self.url.is_empty()) {
            self.url = url_of(&folder.join(DEFAULT_FILE).to_string_lossy());
            self.is_in_state_folder = true;
        }
    }

    /// Returns what is wrong with the URLs: for each wrong one its key, and what to do. Doesn't show a URL, which may contain a
    /// password.
    pub(super) fn unusable(&self) -> Vec<(&'static str, &'static str)> {
        let mut found = Vec::new();
        if !self.url.is_empty() {
            found.extend(cure(&self.url).map(|cure| ("database.url", cure)));
        }
        if !self.read_url.is_empty() {
            if !self.is_postgres() {
                found.push(("database.read_url", "needs a database.url of PostgreSQL"));
            } else if !is_postgres(&self.read_url) {
                found.push(("database.read_url", "must be `postgres://USER@HOST/DATABASE`, or empty"));
            } else {
                found.extend(cure(&self.read_url).map(|cure| ("database.read_url", cure)));
            }
        }
        found
    }
}

/// Returns the URL of a database that a command line names by its URL or a file's path.
pub fn url_of(location: &str) -> String {
    // A URL with an unknown scheme stays as it is, so that its check reports the scheme.
    let has_scheme =
        location.split_once("://").is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains('/'));
    if has_scheme || location.starts_with("sqlite:") {
        location.to_owned()
    } else {
        // `%` and `?`, which begin an escape or a query in a URL, are part of a file's name here.
        format!("sqlite:{}", location.replace('%', "%25").replace('?', "%3F"))
    }
}

/// Who applies migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Migrate {
    /// Every command that begins to work on the database.
    Auto,
    /// Only `recapd migrate up`.
    Manual,
}

/// When a commit reaches the disk; SQLite's `PRAGMA synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// At once: a commit survives a power cut.
    Full,
    /// At a checkpoint: the last commits may be lost in a power cut.
    Normal,
    /// Whenever the operating system writes it.
    Off,
}

fn is_postgres(url: &str) -> bool {
    matches!(url.split_once("://"), Some(("postgres" | "postgresql", _)))
}

/// Says what is wrong with an invalid URL.
fn cure(url: &str) -> Option<&'static str> {
    if is_postgres(url) {
        return has_password(url).then_some(
            "must not hold a password: put it into a file of the form `host:port:database:user:password` and name that \
             in PGPASSFILE, or set PGPASSWORD",
        );
    }
    if url.contains("://") && !url.starts_with("sqlite:") {
        return Some(
            "must be an SQLite file or `postgres://USER@HOST/DATABASE`: recapd keeps its data in no other database",
        );
    }
    match url.split_once(':') {
        // Parameters after a `?` would apply to some of the connections only.
        Some(("sqlite", path)) if !path.is_empty() && !path.contains('?') => None,
        _ => Some(
            "must be `sqlite:` and a path without `?`, such as `sqlite:/var/lib/recapd/recapd.db`, or \
             `postgres://USER@HOST/DATABASE`",
        ),
    }
}

fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
    let host = authority.split('/').next().unwrap_or_default();
    let user = host.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || query.to_ascii_lowercase().contains("pass")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_file() {
        for (place, url) in [
            ("work.db", "sqlite:work.db"),
            ("/var/lib/recapd.db", "sqlite:/var/lib/recapd.db"),
            ("50% off? #1.db", "sqlite:50%25 off%3F #1.db"),
            ("sqlite:a%20b.db", "sqlite:a%20b.db"),
            ("sqlite://work.db", "sqlite://work.db"),
            ("postgres://me@host/db", "postgres://me@host/db"),
            ("mysql://me@host/db", "mysql://me@host/db"),
            ("./a://b.db", "sqlite:./a://b.db"),
            ("postgresql://me@host/db", "postgresql://me@host/db"),
        ] {
            assert_eq!(url_of(place), url);
        }
    }
}
