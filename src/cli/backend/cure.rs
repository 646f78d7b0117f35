//! Hints for a database that can't be used.

use std::path::{Path, PathBuf};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use recapd_config::DEFAULT_FILE;
use recapd_store::{StoreError, sqlite};

pub(crate) const RESTORE: &str = "restore a backup, and keep the damaged file; see docs/backup.md";

/// Returns the hint for the database `url`, which failed with `error`.
pub(crate) fn of(url: &str, error: &StoreError) -> &'static str {
    match (error.class(), file(url)) {
        (_, None) => {
            "is the server running there, and is the password in PGPASSFILE or PGPASSWORD? see database.url"
        }
        (Some("corrupt"), _) => RESTORE,
        (Some("full"), _) => "free some space, or move the database to a larger disk",
        (Some("busy"), _) => "another program holds it: end that, or try again",
        (_, Some(file)) => of_file(&file),
    }
}

/// Returns the file of the database `url`, which may be a bare path; `None` if it is a server's, or none is named.
pub(crate) fn file(url: &str) -> Option<PathBuf> {
    let is_path = !url.is_empty() && !url.contains("://");
    sqlite::file_of(url).or_else(|| is_path.then(|| PathBuf::from(url)))
}

/// True if the working directory holds a database, where earlier versions looked for it.
fn lies_here(file: &Path) -> bool {
    file.is_absolute() && file.ends_with(DEFAULT_FILE) && Path::new(DEFAULT_FILE).exists()
}

/// SQLite writes into the folder of the file, too: the log and the lock.
fn of_file(file: &Path) -> &'static str {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let beside = Access::WRITE_OK | Access::EXEC_OK;
    let found = access(file, Access::READ_OK | Access::WRITE_OK).and_then(|()| access(folder, beside));
    match found {
        Err(Errno::NOENT) if lies_here(file) => {
            "a recapd.db lies in this folder, and isn't used unless it is named: --db recapd.db, or database.url"
        }
        Err(Errno::NOENT) => {
            "`recapd serve` or `recapd migrate up` makes it; or name another one with --db or database.url"
        }
        Err(Errno::ACCESS) => {
            "this user may not write the file and its folder: run it as the service's user, or let that one own both \
             (chown recapd:recapd)"
        }
        Err(Errno::ROFS) => {
            "its file system can only be read: have it written again (mount -o remount,rw), or move the database"
        }
        _ => "is that the right database? name another with --db",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_store::{Outage, OutageKind};

    #[test]
    fn each_failure_has_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("none.db").display());
        let failed = |kind: OutageKind| {
            let reason = "a test".to_owned();
            StoreError::Unavailable(Outage { kind, reason })
        };
        let cure = |kind: OutageKind| of(&url, &failed(kind));
        assert!(cure(OutageKind::Io).contains("recapd migrate up"));
        assert_eq!(cure(OutageKind::Corrupt), RESTORE);
        assert!(cure(OutageKind::Full).contains("space"));
        assert!(cure(OutageKind::Busy).contains("another program"));
        assert!(of("postgres://db/recapd", &failed(OutageKind::Io)).contains("PGPASSFILE"));
        std::fs::write(folder.path().join("none.db"), "").unwrap();
        assert!(cure(OutageKind::Io).contains("--db"));
    }

    #[test]
    fn a_file_is_named_in_each_way() {
        for name in ["sqlite:a/b%20c.db", "sqlite://a/b c.db", "a/b c.db"] {
            assert_eq!(file(name), Some(PathBuf::from("a/b c.db")));
        }
        assert_eq!(file("postgres://db/recapd"), None);
    }
}
