//! Hints for databases that can't be used.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, access},
    io::Errno,
};

use recapd_config::DEFAULT_FILE;
use recapd_store::{StoreError, sqlite};

pub(crate) const RESTORE: &str = "restore a backup, and keep the damaged file; see docs/backup.md";

/// Returns the hint for the database `url`, which failed with `error`.
pub(crate) fn hint(url: &str, error: &StoreError) -> &'static str {
    match (error.class(), file(url)) {
        (_, None) => {
            "is the server running there, and is the password in PGPASSFILE or PGPASSWORD? see database.url"
        }
        (Some("corrupt"), _) => RESTORE,
        (Some("full"), _) => "free some space, or move the database to a larger disk",
        (Some("busy"), _) => "another program has locked the database: stop that program, or try again",
        (_, Some(file)) => file_hint(&file),
    }
}

/// Returns the file of the database `url`, which may also be a path; `None` if it is on a server, or none is named.
pub(crate) fn file(url: &str) -> Option<PathBuf> {
    let is_path = !url.is_empty() && !url.contains("://");
    sqlite::file_of(url).or_else(|| is_path.then(|| PathBuf::from(url)))
}

/// The first bytes of every SQLite database.
const SQLITE_HEAD: &[u8] = b"SQLite format 3\0";

/// Returns what is wrong with the file of the database `url`, and what to do, if the file itself shows that.
pub(crate) fn wrong_file_hint(url: &str) -> Option<String> {
    let file = file(url)?;
    let name = file.display();
    match fs::metadata(&file) {
        Ok(found) if found.is_dir() => {
            Some(format!("{name} is a folder, but a database is a file: name the file with --db"))
        }
        Ok(_) if is_of_another_kind(&file) => Some(format!(
            "{name} isn't an SQLite database: name another file with --db, or if the database is damaged, restore a backup: see \
             docs/backup.md"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => missing(&file),
        _ => None,
    }
}

fn missing(file: &Path) -> Option<String> {
    let name = file.display();
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    // The daemon itself creates the default folder.
    let is_default = file.ends_with(Path::new("recapd").join(DEFAULT_FILE));
    if let Some(folder) = folder.filter(|folder| !is_default && !folder.exists()) {
        let folder = folder.display();
        return Some(format!(
            "the folder {folder} of the database {name} doesn't exist: create it, or name another file with --db"
        ));
    }
    let cure = "`recapd serve` or `recapd migrate up` creates it; or name another database with --db or database.url";
    (!lies_here(file)).then(|| format!("there is no database {name}: {cure}"))
}

/// True if the file has content, and isn't an SQLite database.
fn is_of_another_kind(file: &Path) -> bool {
    let mut head = Vec::new();
    let bytes = u64::try_from(SQLITE_HEAD.len()).unwrap_or_default();
    let is_read = File::open(file).and_then(|file| file.take(bytes).read_to_end(&mut head));
    is_read.is_ok() && !head.is_empty() && head != SQLITE_HEAD
}

/// True if the command looks for the default file elsewhere, but the working directory has such a file. Earlier versions
/// of recapd used the working directory's file by default.
fn lies_here(file: &Path) -> bool {
    file.is_absolute() && file.ends_with(DEFAULT_FILE) && Path::new(DEFAULT_FILE).exists()
}

/// Returns the hint for the database in `file`. SQLite also writes into the file's folder: the log and the lock.
fn file_hint(file: &Path) -> &'static str {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let folder_access = Access::WRITE_OK | Access::EXEC_OK;
    let found = access(file, Access::READ_OK | Access::WRITE_OK).and_then(|()| access(folder, folder_access));
    match found {
        Err(Errno::NOENT) if lies_here(file) => {
            "the recapd.db in this folder isn't used unless you name it: --db recapd.db, or database.url"
        }
        Err(Errno::NOENT) => {
            "`recapd serve` or `recapd migrate up` creates it; or name another database with --db or database.url"
        }
        Err(Errno::ACCESS) => {
            "this user may not write the file and its folder: run the command as the service's user, or make that user the owner of both \
             (chown recapd:recapd)"
        }
        Err(Errno::ROFS) => {
            "the file system is read-only: make it writable (mount -o remount,rw), or move the database"
        }
        _ => "is this the right database? name another with --db",
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
        let cure = |kind: OutageKind| hint(&url, &failed(kind));
        assert!(cure(OutageKind::Io).contains("recapd migrate up"));
        assert_eq!(cure(OutageKind::Corrupt), RESTORE);
        assert!(cure(OutageKind::Full).contains("space"));
        assert!(cure(OutageKind::Busy).contains("another program"));
        assert!(hint("postgres://db/recapd", &failed(OutageKind::Io)).contains("PGPASSFILE"));
        fs::write(folder.path().join("none.db"), "").unwrap();
        assert!(cure(OutageKind::Io).contains("--db"));
    }

    #[test]
    fn an_error_says_what_is_wrong_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str| wrong_file_hint(&sqlite::url_of(&folder.path().join(name)));
        fs::write(folder.path().join("notes.txt"), "hello").unwrap();
        fs::write(folder.path().join("new.db"), "").unwrap();
        fs::write(folder.path().join("real.db"), SQLITE_HEAD).unwrap();
        for (name, words) in [
            ("", "is a folder"),
            ("notes.txt", "notes.txt isn't an SQLite database"),
            ("none.db", "none.db: `recapd serve`"),
            ("none/x.db", "doesn't exist: create it"),
            ("none/recapd/recapd.db", "there is no database"),
        ] {
            assert!(text(name).unwrap().contains(words), "{name}: {:?}", text(name));
        }
        for name in ["new.db", "real.db"] {
            assert_eq!(text(name), None, "{name}");
        }
        assert_eq!(wrong_file_hint("postgres://db/recapd"), None);
    }

    #[test]
    fn a_url_or_a_path_names_the_file() {
        for name in ["sqlite:a/b%20c.db", "sqlite://a/b c.db", "a/b c.db"] {
            assert_eq!(file(name), Some(PathBuf::from("a/b c.db")));
        }
        assert_eq!(file("postgres://db/recapd"), None);
    }
}
