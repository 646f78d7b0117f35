//! A PostgreSQL server, a new database for each run, and the processor time of its processes.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, PgConnection,
    postgres::{PgConnectOptions, PgSslMode},
    raw_sql,
};

const DATABASE: &str = "recapd_bench_queue";
const DROP: &str = "-- bench/server.drop\nDROP DATABASE IF EXISTS recapd_bench_queue WITH (FORCE)";
const CREATE: &str = "-- bench/server.create\nCREATE DATABASE recapd_bench_queue";
/// The kernel's unit of processor time on Linux.
const TICKS_PER_SECOND: u64 = 100;
/// Fields of `/proc/PID/stat` after the command's name: user and system time of the process, then of its ended
/// children.
const OWN_TIME: [usize; 2] = [11, 12];
const WITH_CHILDREN: [usize; 4] = [11, 12, 13, 14];

/// A server on which the bench may create and drop databases.
pub(crate) struct Server {
    options: PgConnectOptions,
    /// The process id of the server's parent process, if the server runs on this machine.
    postmaster: Option<u32>,
}

pub(crate) struct Database {
    pub(crate) options: PgConnectOptions,
}

impl Server {
    /// Connects to `url`, which names an existing database and a role that may create databases.
    pub(crate) async fn new(url: &str) -> anyhow::Result<Self> {
        let options: PgConnectOptions = url.parse().context("the server's address")?;
        // All entrants connect without TLS; drivers differ in their defaults.
        let options = options.ssl_mode(PgSslMode::Disable);
        let mut connection = PgConnection::connect_with(&options).await?;
        let folder: String =
            sqlx::query_scalar("-- bench/server.folder\nSELECT current_setting('data_directory')")
                .fetch_one(&mut connection)
                .await?;
        connection.close().await?;
        let postmaster = postmaster(&PathBuf::from(folder));
        Ok(Self { options, postmaster })
    }

    /// Replaces the last database with a new, empty one.
    pub(crate) async fn fresh(&self) -> anyhow::Result<Database> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        connection.execute(raw_sql(DROP)).await?;
        connection.execute(raw_sql(CREATE)).await?;
        connection.close().await?;
        Ok(Database { options: self.options.clone().database(DATABASE) })
    }

    /// Returns the server's processor time so far, including that of ended processes.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        let postmaster = self.postmaster?;
        let children = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).ok()?;
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        let ticks: u64 = children.filter_map(|child| ticks(child, &OWN_TIME)).sum();
        Some(duration(ticks + ticks_of_parent(postmaster)?))
    }
}

impl Database {
    /// Returns the URL for other programs.
    pub(crate) fn url(&self) -> String {
        self.options.to_url_lossy().to_string()
    }

    /// Completes the server's pending work: collects statistics, writes pages.
    pub(crate) async fn rest(&self) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        connection.execute(raw_sql("-- bench/server.analyze\nANALYZE")).await?;
        connection.execute(raw_sql("-- bench/server.checkpoint\nCHECKPOINT")).await?;
        connection.close().await?;
        Ok(())
    }
}

pub(crate) fn own_processor_time() -> Duration {
    duration(ticks(std::process::id(), &OWN_TIME).unwrap_or_default())
}

fn postmaster(folder: &Path) -> Option<u32> {
    let file = fs::read_to_string(folder.join("postmaster.pid")).ok()?;
    file.lines().next()?.trim().parse().ok()
}

fn ticks_of_parent(process: u32) -> Option<u64> {
    ticks(process, &WITH_CHILDREN)
}

fn ticks(process: u32, fields: &[usize]) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let values: Vec<&str> = behind_name.split_whitespace().collect();
    fields.iter().map(|&field| values.get(field)?.parse::<u64>().ok()).sum()
}

fn duration(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}
