//! `[database]`: where everything is kept.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The name of the database that nobody named.
pub const DEFAULT_FILE: &str = "recapd.db";

/// `[database]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseConfig {
    /// `sqlite:` and a path, or `postgres://USER@HOST/DATABASE`. Empty in a file: [`DEFAULT_FILE`] in the user's state folder.
    pub url: String,
    /// Nobody named a database: it is in the user's state folder, which is made if it is missing.
    #[serde(skip)]
    pub is_in_state_folder: bool,
    /// PostgreSQL: a replica for reads that may be a moment old; empty: the same server.
    pub read_url: String,
    /// PostgreSQL: how far behind that replica may be.
    pub read_lag_ms_max: u64,
    /// Who brings the tables up to date.
    pub migrate: Migrate,
    /// PostgreSQL: the most connections.
    pub connections: u32,
    /// PostgreSQL: how long a statement may run.
    pub statement_timeout_ms: u64,
    /// SQLite: the most write requests that share one commit.
    pub group_commit_max: usize,
    /// SQLite: connections that read.
    pub readers: u32,
    /// How long an operation waits for a write lock (SQLite), or for a connection and for what others hold (PostgreSQL).
    pub busy_timeout_ms: u64,
    /// SQLite: when a commit reaches the disk.
    pub synchronous: Synchronous,
}

impl DatabaseConfig {
    /// Whether it is PostgreSQL: a database that many daemons share.
    pub fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    /// The same settings for another database: its address, or the path of a file.
    ///
    /// # Errors
    /// What is wrong with the address, which isn't named: it may hold a password.
    pub fn at(&self, place: &str) -> Result<Self, &'static str> {
        let url = url_of(place);
        match cure(&url) {
            Some(cure) => Err(cure),
            None => Ok(Self {
                url,
                is_in_state_folder: false,
                read_url: String::new(),
                ..self.clone()
            }),
        }
    }

    /// Puts a database that nobody named into the user's state folder. One that lies in the working directory isn't taken: it
    /// may be anybody's.
    pub(super) fn settle(&mut self, state_folder: Option<&Path>) {
        if let Some(folder) = state_folder.filter(|_| self.url.is_empty()) {
            self.url = url_of(&folder.join(DEFAULT_FILE).to_string_lossy());
            self.is_in_state_folder = true;
        }
    }

    /// What is wrong with the addresses: the key, and the cure. Neither says the address, which may hold a password.
    pub(super) fn unusable(&self) -> Vec<(&'static str, &'static str)> {
        let mut found = Vec::new();
        if !self.url.is_empty() {
            found.extend(cure(&self.url).map(|cure| ("database.url", cure)));
        }
        if !self.read_url.is_empty() {
            if !self.is_postgres() {
                found.push(("database.read_url", "needs a database.url of PostgreSQL"));
            } else if !is_postgres(&self.read_url) {
                found.push((
                    "database.read_url",
                    "must be `postgres://USER@HOST/DATABASE`, or empty",
                ));
            } else {
                found.extend(cure(&self.read_url).map(|cure| ("database.read_url", cure)));
            }
        }
        found
    }
}

/// The address of a database that is named on a command line: an address, or the path of a file.
pub fn url_of(place: &str) -> String {
    if is_postgres(place) || place.starts_with("sqlite:") {
        place.to_owned()
    } else {
        // What begins an escape or a query in an address is part of a file's name.
        format!("sqlite:{}", place.replace('%', "%25").replace('?', "%3F"))
    }
}

/// Who brings the tables up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Migrate {
    /// Whoever starts to work on the database.
    Auto,
    /// `recapd migrate up`.
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
    /// When the system pleases.
    Off,
}

fn is_postgres(url: &str) -> bool {
    matches!(url.split_once("://"), Some(("postgres" | "postgresql", _)))
}

/// What to do about an address.
fn cure(url: &str) -> Option<&'static str> {
    if is_postgres(url) {
        return has_password(url).then_some(
            "must not hold a password: put it into a file of the form `host:port:database:user:password` and name that \
             in PGPASSFILE, or set PGPASSWORD",
        );
    }
    match url.split_once(':') {
        // What could follow a `?` would hold for some connections only.
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
            ("postgresql://me@host/db", "postgresql://me@host/db"),
        ] {
            assert_eq!(url_of(place), url);
        }
    }
}
