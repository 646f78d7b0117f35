//! The address of a database file: `sqlite:` and its path, in which `%` begins an escape and `?` ends the path.

use std::{
    path::{Path, PathBuf},
    str::FromStr as _,
};

use sqlx::sqlite::SqliteConnectOptions;

use crate::{StoreError, StoreResult};

/// Returns how to open the file at `url`. Refuses an address without a path, because SQLite would create a temporary database.
///
/// # Errors
/// If it isn't the address of a file.
pub(crate) fn options_of(url: &str) -> StoreResult<SqliteConnectOptions> {
    let options = SqliteConnectOptions::from_str(url)?;
    if options.get_filename().as_os_str().is_empty() {
        let reason = "no database is named, and HOME isn't set; name one with --db or database.url";
        return Err(StoreError::Unavailable(reason.to_owned().into()));
    }
    let file = real(options.get_filename());
    Ok(options.filename(file))
}

/// Resolves all links, so that the lock and the log have the same names whichever link was used.
fn real(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = || folder.unwrap_or(Path::new(".")).canonicalize();
    let in_folder = |name| folder().map(|folder| folder.join(name));
    let found = file.canonicalize().or_else(|error| file.file_name().map_or(Err(error), in_folder));
    found.unwrap_or_else(|_| file.to_owned())
}

/// Returns the file at `url`; `None` if that isn't the address of a file.
pub fn file_of(url: &str) -> Option<PathBuf> {
    if !url.starts_with("sqlite:") {
        return None;
    }
    let options = SqliteConnectOptions::from_str(url).ok()?;
    Some(options.get_filename().to_path_buf())
}

/// Returns the address of `file`, and escapes its name.
pub fn url_of(file: &Path) -> String {
    let path = file.display().to_string();
    format!("sqlite:{}", path.replace('%', "%25").replace('?', "%3F"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_file() {
        for (url, file) in [
            ("sqlite:a/b.db", "a/b.db"),
            ("sqlite://a/b.db", "a/b.db"),
            ("sqlite:///a/b c#d.db", "/a/b c#d.db"),
            ("sqlite:/50%25%20off%3F.db", "/50% off?.db"),
            ("sqlite:a.db?mode=ro", "a.db"),
        ] {
            assert_eq!(file_of(url), Some(PathBuf::from(file)), "{url}");
        }
        for url in ["sqlite:%ff", "a.db", "postgres://db/recapd"] {
            assert_eq!(file_of(url), None, "{url}");
        }
    }

    #[test]
    fn a_file_has_an_address_whatever_its_name() {
        for name in ["/var/lib/recapd.db", "a%20b.db", "50% off? #1.db"] {
            assert_eq!(file_of(&url_of(Path::new(name))), Some(PathBuf::from(name)));
        }
    }
}
