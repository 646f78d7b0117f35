//! Two PostgreSQL servers for a test: a primary and its streaming standby, set up as `docs/postgres.md` says.

use std::{
    fs,
    io::ErrorKind::{self, BrokenPipe, ConnectionReset, UnexpectedEof},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use sqlx::{ConnectOptions as _, PgConnection, postgres::PgConnectOptions};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{PATIENCE, postgres::execute};

const CURE: &str =
    "PostgreSQL's server (13 or newer, with pg_basebackup) is needed: `apt-get install postgresql`";
const USER: &str = "recapd";
const DATABASE: &str = "recapd";
/// Candidates for the servers' user if the test runs as root, as which PostgreSQL refuses to run.
const OWNERS: [&str; 2] = ["postgres", "nobody"];
/// No durability is needed. The standby cancels conflicting queries at once, so that conflicts show soon.
const SETTINGS: &str = "\
listen_addresses = ''
shared_buffers = 8MB
max_connections = 40
max_worker_processes = 2
wal_level = replica
fsync = off
full_page_writes = off
min_wal_size = 4MB
max_wal_size = 16MB
max_wal_senders = 4
max_replication_slots = 2
wal_receiver_status_interval = 1
hot_standby = on
max_standby_streaming_delay = 0
";
/// The preparation of the primary, by the commands of `docs/postgres.md`.
const PREPARE: &str = "CREATE ROLE recapd_standby LOGIN REPLICATION";

/// Both servers; they end with this value, and even if the test is killed.
pub(crate) struct Servers {
    programs: Option<PathBuf>,
    owner: Option<(u32, u32)>,
    folder: TempDir,
    guard: Child,
}

#[derive(Clone, Copy)]
pub(crate) enum Server {
    Primary,
    Standby,
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Standby => "standby",
        }
    }

    /// The number in a socket's name; nothing listens on the network.
    fn port(self) -> u16 {
        match self {
            Self::Primary => 5432,
            Self::Standby => 5433,
        }
    }
}

impl Servers {
    /// Starts both servers, with an empty database.
    pub(crate) async fn start() -> Self {
        let programs = newest_programs();
        let folder = tempfile::Builder::new().prefix("recapd-standby.").tempdir().unwrap();
        let owner = is_root(folder.path()).then(owner);
        if let Some((user, group)) = owner {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let guard = guard(programs.as_deref(), owner, folder.path());
        let servers = Self { programs, owner, folder, guard };
        servers.make_primary().await;
        servers.make_standby();
        servers
    }

    async fn make_primary(&self) {
        self.run(
            "initdb",
            &[
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "--wal-segsize=1",
                "--username",
                USER,
                "--pgdata",
                "primary",
            ],
        );
        let conf = self.folder.path().join("primary/postgresql.conf");
        let sockets = format!("unix_socket_directories = '{}'\n", self.folder.path().display());
        let text = fs::read_to_string(&conf).unwrap();
        fs::write(&conf, text + SETTINGS + &sockets).unwrap();
        self.start_one(Server::Primary);
        let mut connection = self.options(Server::Primary).database("postgres").connect().await.unwrap();
        execute(&mut connection, PREPARE).await;
        execute(&mut connection, format!("CREATE DATABASE {DATABASE}")).await;
    }

    /// Runs the command of `docs/postgres.md`, with another host.
    fn make_standby(&self) {
        let host = self.folder.path().to_str().unwrap();
        self.run(
            "pg_basebackup",
            &[
                "--host",
                host,
                "--username=recapd_standby",
                "--pgdata=standby",
                "--write-recovery-conf",
                "--create-slot",
                "--slot=recapd_standby",
                "--checkpoint=fast",
                "--no-sync",
            ],
        );
        self.start_one(Server::Standby);
    }

    pub(crate) fn url(&self, server: Server) -> String {
        self.options(server).to_url_lossy().into()
    }

    /// Opens a connection that bypasses the store.
    pub(crate) async fn connect(&self, server: Server) -> PgConnection {
        // Replay takes precedence, even over a connection that is being made.
        insist(async || self.options(server).connect().await).await
    }

    pub(crate) fn start_one(&self, server: Server) {
        let port = format!("-p {}", server.port());
        let log = format!("{}.log", server.name());
        let options = ["--pgdata", server.name(), "--log", &log, "--options", &port];
        self.run("pg_ctl", &[&options[..], &["--wait", "--silent", "start"]].concat());
    }

    pub(crate) fn stop(&self, server: Server) {
        self.run("pg_ctl", &["--pgdata", server.name(), "--mode=immediate", "--silent", "stop"]);
    }

    /// Promotes the standby to a server that can be written.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["--pgdata", "standby", "--wait", "--silent", "promote"]);
    }

    fn show_log(&self, server: Server) {
        let log = self.folder.path().join(format!("{}.log", server.name()));
        let text = fs::read_to_string(&log).unwrap_or_else(|error| error.to_string());
        eprintln!("── {}\n{text}", log.display());
    }

    fn options(&self, server: Server) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(self.folder.path())
            .port(server.port())
            .username(USER)
            .database(DATABASE)
            .disable_statement_logging()
    }

    /// Runs one of PostgreSQL's programs in the folder, and waits for its end.
    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = command(self.programs.as_deref(), self.owner, self.folder.path(), program);
        let told = self.folder.path().join(format!("{program}.told"));
        // A file, since the server that `pg_ctl` starts would keep a pipe open.
        let file = fs::File::create(&told).unwrap();
        let status = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status();
        let status = match status {
            Err(error) if error.kind() == ErrorKind::NotFound => panic!("{program}: {error}. {CURE}"),
            other => other.unwrap(),
        };
        assert!(status.success(), "{program} {arguments:?}: {}", fs::read_to_string(&told).unwrap());
    }
}

impl Drop for Servers {
    /// The guard ends when its input is closed. A test that fails shows what the servers logged.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for server in [Server::Primary, Server::Standby] {
                self.show_log(server);
            }
        }
        drop(self.guard.stdin.take());
        if self.guard.wait().is_err() {
            eprintln!("servers in {} may be left behind", self.folder.path().display());
        }
    }
}

/// Starts a process that stops both servers and removes their folder when its input ends, for whatever reason.
fn guard(programs: Option<&Path>, owner: Option<(u32, u32)>, folder: &Path) -> Child {
    let pg_ctl = programs.map_or_else(|| PathBuf::from("pg_ctl"), |programs| programs.join("pg_ctl"));
    let script = "trap '' HUP INT TERM; cat; \
                  for server in standby primary; do \"$0\" --pgdata=\"$server\" --mode=immediate --silent stop; done; \
                  rm -rf \"$1\"/*";
    command(None, owner, folder, "sh")
        .args(["-c", script])
        .arg(pg_ctl)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Builds a command that runs as the servers' owner, in their folder.
fn command(programs: Option<&Path>, owner: Option<(u32, u32)>, folder: &Path, program: &str) -> Command {
    let path = programs.map_or_else(|| PathBuf::from(program), |programs| programs.join(program));
    let mut command = Command::new(path);
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command.current_dir(folder).process_group(0);
    command
}

/// Finds the newest programs: Debian has a folder for each version, outside of PATH.
fn newest_programs() -> Option<PathBuf> {
    let version = |path: &Path| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let newest = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin/pg_basebackup").exists())
        .max_by_key(|path| version(path))?;
    Some(newest.join("bin"))
}

/// Repeats a query of a standby until replay no longer cancels it.
pub(crate) async fn insist<T>(mut ask: impl AsyncFnMut() -> Result<T, sqlx::Error>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(error) if is_broken_off(&error) && Instant::now() < end => {}
            answered => return answered.unwrap(),
        }
    }
}

/// True if a standby cancelled a query because replay conflicted with it. It closes connections that are idle then.
fn is_broken_off(error: &sqlx::Error) -> bool {
    if let sqlx::Error::Io(error) = error {
        return [BrokenPipe, ConnectionReset, UnexpectedEof].contains(&error.kind());
    }
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.as_deref() == Some("40001")
}

fn is_root(made: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(made).unwrap().uid() == 0
}

/// User and group of the first existing one of [`OWNERS`].
fn owner() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let numbers = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    OWNERS
        .iter()
        .find_map(numbers)
        .expect("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`")
}
