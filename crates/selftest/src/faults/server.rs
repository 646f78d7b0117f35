//! A private PostgreSQL server in a folder, reached by a socket there.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use tempfile::TempDir;

use super::daemon::{Guard, run_folder};

/// The server's user, and the superuser of its databases.
const USER: &str = "recapd";
/// The user of the server process if this one is root's, which PostgreSQL refuses.
const OWNERS: [&str; 2] = ["postgres", "nobody"];
/// It only has to survive crashes of itself, not of the machine.
const SETTINGS: &str = "\
listen_addresses = ''
max_connections = 100
shared_buffers = 16MB
fsync = off
full_page_writes = off
synchronous_commit = on
min_wal_size = 4MB
max_wal_size = 16MB
";

const DATABASE: &str = "recapd";
const TARGET: &str = "recapd_copy";

/// The database's URL through a proxy at `address`.
pub(super) fn url_at(address: SocketAddr) -> String {
    format!("postgres://{USER}@{address}/{DATABASE}?sslmode=disable")
}

pub(super) struct Server {
    programs: Option<PathBuf>,
    owner: Option<(u32, u32)>,
    folder: PathBuf,
}

/// A cluster with an empty database, created once and copied for each run.
#[derive(Default)]
pub struct Template(OnceLock<Result<(TempDir, Guard), String>>);

impl Template {
    fn folder(&self, parent: &Path) -> Result<PathBuf, String> {
        let made = self.0.get_or_init(|| {
            let folder = run_folder(parent).map_err(|error| error.to_string())?;
            let guard = Guard::of(folder.path()).map_err(|error| error.to_string())?;
            let server = folder.path().join("server");
            fs::create_dir(&server).map_err(|error| error.to_string())?;
            Server::make(&server)?;
            Ok((folder, guard))
        });
        let (folder, _) = made.as_ref().map_err(Clone::clone)?;
        Ok(folder.path().join("server/data"))
    }
}

impl Server {
    /// Starts a server with an empty database in `folder`, which is empty; the template is in `templates`.
    ///
    /// # Errors
    /// If its programs report an error.
    pub(super) fn create(folder: &Path, template: &Template, templates: &Path) -> Result<Self, String> {
        let template = template.folder(templates)?;
        let server = Self::of(folder)?;
        said(Command::new("cp").arg("-a").arg(template).arg(server.data()).output())?;
        server.set_up()?;
        Ok(server)
    }

    fn make(folder: &Path) -> Result<(), String> {
        let server = Self::of(folder)?;
        let options = ["--auth=trust", "--encoding=UTF8", "--no-sync", "--wal-segsize=1", "--locale=C.UTF-8"];
        let initdb = server.run("initdb", |initdb| {
            initdb.args(options).args(["--username", USER]).arg("--pgdata").arg(server.data())
        });
        said(initdb)?;
        server.set_up()?;
        said(server.query("postgres", &format!("CREATE DATABASE {DATABASE}")))?;
        said(server.pg_ctl(&["--mode=fast", "--wait", "--silent", "stop"]))
    }

    fn of(folder: &Path) -> Result<Self, String> {
        let server = Self {
            programs: newest_programs(),
            owner: if rustix::process::geteuid().is_root() {
                Some(owner().map_err(|error| error.to_string())?)
            } else {
                None
            },
            folder: folder.to_owned(),
        };
        if let Some((user, group)) = server.owner {
            chown(folder, Some(user), Some(group)).map_err(|error| error.to_string())?;
        }
        Ok(server)
    }

    /// Configures the socket, and starts.
    fn set_up(&self) -> Result<(), String> {
        let socket = format!("unix_socket_directories = '{}'\n", self.folder.display());
        let conf = self.data().join("postgresql.conf");
        let configured =
            fs::read_to_string(&conf).and_then(|text| fs::write(&conf, text + SETTINGS + &socket));
        configured.map_err(|error| format!("{}: {error}", conf.display()))?;
        self.start()
    }

    pub(super) fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres:///{database}?host={}&user={USER}", self.folder.display())
    }

    /// Starts it, unless it is running.
    ///
    /// # Errors
    /// If `pg_ctl` reports an error.
    pub(super) fn start(&self) -> Result<(), String> {
        if self.is_running() {
            return Ok(());
        }
        said(self.pg_ctl(&["--wait", "--silent", "start"]))
    }

    /// Stops it immediately.
    pub(super) fn crash(&self) {
        // A stopped server can't be stopped.
        drop(self.pg_ctl(&["--mode=immediate", "--silent", "stop"]));
    }

    /// Terminates about `percent` of its connections. Returns their number.
    pub(super) fn cut(&self, percent: u8) -> u64 {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE datname = '{DATABASE}' AND random() * 100 < {percent}"
        );
        let cut = self.query("postgres", &sql).ok();
        cut.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok()).unwrap_or_default()
    }

    /// The output of `sql`, one line per row.
    ///
    /// # Errors
    /// If `psql` reports an error.
    pub(super) fn told(&self, sql: &str) -> Result<String, String> {
        let rows = printed(self.query(DATABASE, sql))?;
        Ok(String::from_utf8_lossy(&rows).into_owned())
    }

    /// Creates an empty database for a copy. Returns its URL.
    ///
    /// # Errors
    /// If the server reports an error.
    pub(super) fn new_target(&self) -> Result<String, String> {
        self.command(&format!("DROP DATABASE IF EXISTS {TARGET} WITH (FORCE)"))?;
        self.command(&format!("CREATE DATABASE {TARGET}"))?;
        Ok(self.url_of(TARGET))
    }

    /// Replaces the database by the copy.
    ///
    /// # Errors
    /// If the server reports an error.
    pub(super) fn move_to_target(&self) -> Result<(), String> {
        self.command(&format!("DROP DATABASE {DATABASE} WITH (FORCE)"))?;
        self.command(&format!("ALTER DATABASE {TARGET} RENAME TO {DATABASE}"))
    }

    /// Runs a command about databases, which must not run within one of them.
    fn command(&self, sql: &str) -> Result<(), String> {
        said(self.query("postgres", sql))
    }

    /// The contents of the database as text.
    ///
    /// # Errors
    /// If `pg_dump` reports an error.
    pub(super) fn dump(&self) -> Result<Vec<u8>, String> {
        let dump = self.run("pg_dump", |pg_dump| {
            pg_dump.arg("--host").arg(&self.folder).args(["--username", USER, "--data-only", DATABASE])
        });
        printed(dump)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    fn is_running(&self) -> bool {
        self.pg_ctl(&["status"]).is_ok_and(|output| output.status.success())
    }

    fn pg_ctl(&self, arguments: &[&str]) -> io::Result<Output> {
        let log = self.folder.join("log");
        self.run("pg_ctl", |pg_ctl| {
            pg_ctl.arg("--pgdata").arg(self.data()).arg("--log").arg(log).args(arguments)
        })
    }

    fn query(&self, database: &str, sql: &str) -> io::Result<Output> {
        self.run("psql", |psql| {
            psql.arg("--host").arg(&self.folder).args([
                "--username",
                USER,
                "--dbname",
                database,
                "--no-psqlrc",
                "--no-align",
                "--tuples-only",
                "--command",
                sql,
            ])
        })
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn run(&self, name: &str, with: impl FnOnce(&mut Command) -> &mut Command) -> io::Result<Output> {
        let program = self.programs.as_ref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let mut command = Command::new(program);
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        with(&mut command).current_dir(&self.folder).process_group(0).stdin(Stdio::null());
        if matches!(name, "psql" | "pg_dump") {
            return command.output();
        }
        // The server outlives the program that starts it, and would keep a pipe open.
        let (out, err) = (self.said(name, "out"), self.said(name, "err"));
        let status = command.stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?).status()?;
        Ok(Output { status, stdout: fs::read(&out)?, stderr: fs::read(&err)? })
    }

    fn said(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{name}.{kind}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.crash();
    }
}

fn said(output: io::Result<Output>) -> Result<(), String> {
    printed(output).map(drop)
}

/// The output of a PostgreSQL program.
///
/// # Errors
/// Its error text, or that it is missing.
fn printed(output: io::Result<Output>) -> Result<Vec<u8>, String> {
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("PostgreSQL's server (13 or newer) is needed: {error}")),
    }
}

/// Debian has a folder for each version, outside of PATH.
fn newest_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let version = |path: &Path| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let newest = versions
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("bin/initdb").exists())
        .max_by_key(|path| version(path))?;
    Some(newest.join("bin"))
}

/// User and group of the first of [`OWNERS`] that exists.
fn owner() -> io::Result<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2);
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    };
    OWNERS.iter().find_map(find).ok_or_else(|| {
        io::Error::other("the server refuses to run as root, and there is no user `postgres` or `nobody`")
    })
}
