//! Reads SQLite databases in which other programs keep sessions: those of OpenAI's Agents SDK (`SQLiteSession`) and of Google's ADK
//! (`SqliteSessionService`). Writes each session to a file of lines that recapd reads.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, BufWriter, Read as _, Write},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, Row};

/// The first bytes of every SQLite database.
const HEADER: &[u8] = b"SQLite format 3\0";
/// The name of the database's copy, and the end of its log's name. A session's file ends otherwise.
const COPY: &str = "database.copy";
const LOG: &str = "-wal";
/// The name of a session's file has at most this many characters of its id.
const NAME_CHARS_MAX: usize = 100;

/// Why a database's sessions can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    /// The database is of another program.
    #[error(
        "`{}` is a SQLite database, but not one of OpenAI's Agents SDK or Google's ADK; give files of messages, and a database of recapd's with --db",
        .0.display()
    )]
    Unknown(PathBuf),
    /// The database is damaged, or of another version of the program.
    #[error("can't read the sessions in `{}`: {source}", path.display())]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A session's file can't be written.
    #[error("can't unpack the sessions in `{}`: {source}", path.display())]
    Unwritable {
        /// The database.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// How a program keeps sessions.
struct SessionTable {
    /// A table that only this program has.
    table: &'static str,
    /// Selects the session's id and the line of each message, in order.
    select: &'static str,
}

const TABLES: [SessionTable; 2] = [
    SessionTable {
        table: "agent_messages",
        // A broken message stays as it is, so that its reader reports it.
        select: "SELECT session_id, CASE WHEN json_valid(message_data) THEN json_set(message_data, \
                 '$.at', strftime('%Y-%m-%dT%H:%M:%SZ', created_at), '$.client_id', session_id || '/' || id) \
                 ELSE message_data END FROM agent_messages ORDER BY session_id, id",
    },
    SessionTable {
        table: "app_states",
        // Users and apps may have sessions of the same id.
        select: "SELECT app_name || '/' || user_id || '/' || session_id, event_data FROM events \
                 ORDER BY app_name, user_id, session_id, timestamp, rowid",
    },
];

/// Returns true if a file is a SQLite database.
pub(super) fn is_database(path: &Path) -> bool {
    let mut begin = [0; HEADER.len()];
    // Opening a pipe would wait for its writer.
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == HEADER
}

/// Writes each session of a database to a file in `folder`. Returns the files.
///
/// # Errors
/// If the database isn't of a known program, or can't be read, or a file can't be written.
pub(super) fn unpack(database: &Path, folder: &Path) -> Result<Vec<PathBuf>, SessionsError> {
    let unreadable = |source| SessionsError::Unreadable { path: database.to_owned(), source };
    let unwritable = |source| SessionsError::Unwritable { path: database.to_owned(), source };
    let table = known_table(database).map_err(unreadable)?;
    let table = table.ok_or_else(|| SessionsError::Unknown(database.to_owned()))?;
    let copy = copy(database, folder).map_err(unwritable)?;
    let connection = Connection::open(copy).map_err(unreadable)?;
    let mut statement = connection.prepare(table.select).map_err(unreadable)?;
    let mut rows = statement.query([]).map_err(unreadable)?;
    let mut files = SessionFiles { folder, files: Vec::new(), names: HashSet::new(), open: None };
    while let Some(row) = rows.next().map_err(unreadable)? {
        let (session, line) = session_line(row).map_err(unreadable)?;
        files.write(&session, &line).map_err(unwritable)?;
    }
    files.finish().map_err(unwritable)
}

/// Copies a database and its log to `folder`. Reading a database in place may write files beside it.
fn copy(database: &Path, folder: &Path) -> io::Result<PathBuf> {
    let copy = folder.join(COPY);
    fs::copy(database, &copy)?;
    let log = PathBuf::from(format!("{}{LOG}", database.display()));
    if log.exists() {
        fs::copy(log, folder.join(format!("{COPY}{LOG}")))?;
    }
    Ok(copy)
}

/// Looks at a database in place, because a copy of a large one takes long. As an immutable file it is read without its log, and SQLite
/// writes nothing beside it.
fn known_table(database: &Path) -> rusqlite::Result<Option<&'static SessionTable>> {
    let path = database.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)?;
    for table in &TABLES {
        if connection.table_exists(None, table.table)? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

fn session_line(row: &Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// The files of sessions, which are written one after the other.
struct SessionFiles<'a> {
    folder: &'a Path,
    files: Vec<PathBuf>,
    names: HashSet<String>,
    open: Option<OpenSession>,
}

struct OpenSession {
    id: String,
    file: BufWriter<File>,
}

impl SessionFiles<'_> {
    fn write(&mut self, id: &str, line: &str) -> io::Result<()> {
        let open = match self.open.take() {
            Some(open) if open.id == id => self.open.insert(open),
            before => {
                before.map_or(Ok(()), |mut open| open.file.flush())?;
                let path = self.folder.join(self.name(id));
                let file = BufWriter::new(File::create(&path)?);
                self.files.push(path);
                self.open.insert(OpenSession { id: id.to_owned(), file })
            }
        };
        // In JSON, line breaks are only between values.
        writeln!(open.file, "{}", line.replace(['\n', '\r'], " "))
    }

    /// Returns a name for a session's file. Ids may have characters that a name can't have, and may be longer.
    fn name(&mut self, id: &str) -> String {
        let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let letters = id.chars().take(NAME_CHARS_MAX);
        let mut name: String = letters.map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
        while !self.names.insert(name.clone()) {
            name = format!("{name}-{}", self.names.len());
        }
        format!("{name}.jsonl")
    }

    fn finish(self) -> io::Result<Vec<PathBuf>> {
        // Dropping a writer would lose its error.
        if let Some(mut open) = self.open {
            open.file.flush()?;
        }
        Ok(self.files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a database and returns the lines of each of its sessions.
    fn sessions(sql: &str) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("50% #1?.db");
        Connection::open(&database).unwrap().execute_batch(sql).unwrap();
        let unpacked = tempfile::tempdir().unwrap();
        let files = unpack(&database, unpacked.path()).unwrap();
        let lines = |file| fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
        files.into_iter().map(lines).collect()
    }

    #[test]
    fn a_broken_message_is_left_to_its_reader() {
        let lines = sessions(
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data, created_at);
             INSERT INTO agent_messages VALUES (1, 's', '{\"role\":\"user\"}', '2026-03-02 10:00:00'), (2, 's', '{', NULL);",
        );
        let first = r#"{"role":"user","at":"2026-03-02T10:00:00Z","client_id":"s/1"}"#;
        assert_eq!(lines, [[first, "{"]]);
    }

    #[test]
    fn sessions_of_two_users_stay_apart() {
        let lines = sessions(
            "CREATE TABLE app_states (app_name);
             CREATE TABLE events (app_name, user_id, session_id, timestamp, event_data);
             INSERT INTO events VALUES ('app', 'ada', 's', 1, '{\"n\":1}'), ('app', 'bob', 's', 2, '{\"n\":2}');",
        );
        assert_eq!(lines, [[r#"{"n":1}"#], [r#"{"n":2}"#]]);
    }
}
