//! Direct access to the database by SQL, without the store: to insert messages, and to read the data for the judge.

use std::{fs, path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{ledger::Utterance, place::Place, server::Server};

/// How long a program waits for another one's lock, as the documentation recommends.
const BUSY: Duration = Duration::from_secs(5);

/// The interval at which batches are made due.
const HURRY: Duration = Duration::from_millis(700);

pub(super) type Refusal = String;

impl Place {
    /// Inserts messages for an agent, as SQL programs do.
    pub(super) async fn insert(&self, agent: &str, said: Vec<Utterance>) -> Result<(), Refusal> {
        self.execute(insertion(agent, &said)).await
    }

    /// Makes open batches due, which would otherwise take minutes, until the future is dropped.
    pub(super) async fn hurry_batches(&self) {
        let past = self.server().map_or("0", |_| "to_timestamp(0)");
        let sql = format!("UPDATE provider_batches SET next_at = {past} WHERE state <> 'closed'");
        loop {
            tokio::time::sleep(HURRY).await;
            // The next round tries again.
            drop(self.execute(sql.clone()).await);
        }
    }

    async fn execute(&self, sql: String) -> Result<(), Refusal> {
        let entered = self.enter().await;
        let place = self.clone();
        let done = spawn_blocking(move || {
            let _entered = entered;
            match place.server() {
                Some(server) => server.told(&sql).map(drop),
                None => write(&place.file(), &sql),
            }
        });
        done.await.map_err(|error| error.to_string())?
    }

    /// Holds the write lock of a file, like a program that forgot to commit.
    pub(super) fn lock(&self, span: Duration) -> Result<(), Refusal> {
        let hold = || -> rusqlite::Result<()> {
            let connection = open(&self.file())?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            std::thread::sleep(span);
            connection.execute_batch("ROLLBACK")
        };
        hold().map_err(|error| error.to_string())
    }

    /// Reads rows of `from`: each column is a number or a text.
    pub(super) fn rows(&self, columns: &str, from: &str) -> Result<Vec<Vec<Value>>, Refusal> {
        let sql = |array: &str| format!("SELECT {array}({columns}) FROM {from}");
        let rows = match self.server() {
            Some(server) => read_server(&server, &sql("json_build_array")),
            None => read_file(&self.file(), &sql("json_array")),
        }?;
        let row = |row: &String| serde_json::from_str(row).map_err(|error| format!("{row}: {error}"));
        rows.iter().map(row).collect()
    }

    /// The whole database as bytes to search: a server's dump, or a file without the free space of its pages. When SQLite
    /// moves rows between pages, the old copies stay until they are overwritten, whatever `secure_delete` says.
    pub(super) fn content(&self) -> Result<Vec<u8>, Refusal> {
        if let Some(server) = self.server() {
            return server.dump();
        }
        let (file, copy) = (self.file(), self.file().with_extension("compact"));
        let compact = || open(&file)?.execute("VACUUM INTO ?1", [copy.to_string_lossy()]);
        compact().map_err(|error| error.to_string())?;
        let content = fs::read(&copy).map_err(|error| error.to_string());
        fs::remove_file(&copy).map_err(|error| error.to_string())?;
        content
    }
}

/// The load's texts contain no quotation marks or backslashes except JSON's own.
fn insertion(agent: &str, said: &[Utterance]) -> String {
    let rows: Vec<String> = said
        .iter()
        .map(|said| {
            let text = |name: &str| said.payload[name].as_str().unwrap_or_default();
            format!("('{agent}', '{}', '{}', '{}')", text("kind"), text("content"), text("id"))
        })
        .collect();
    format!("INSERT INTO messages (agent_id, role, content, client_id) VALUES {}", rows.join(", "))
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

fn write(file: &Path, sql: &str) -> Result<(), Refusal> {
    let write = || open(file)?.execute(sql, ());
    write().map(drop).map_err(|error| error.to_string())
}

fn read_file(file: &Path, sql: &str) -> Result<Vec<String>, Refusal> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let connection = open(file)?;
        let mut statement = connection.prepare(sql)?;
        statement.query_map((), |row| row.get(0))?.collect()
    };
    read().map_err(|error| format!("{sql}: {error}"))
}

fn read_server(server: &Server, sql: &str) -> Result<Vec<String>, Refusal> {
    let rows = server.told(sql)?;
    Ok(rows.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}
