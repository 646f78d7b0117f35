//! Claiming and completing rows on PostgreSQL, compared with graphile-worker and pg-boss on the same server: single
//! rows with single jobs, and batches with batches.
//!
//! `scripts/bench-peers` starts a server, installs the peers and runs this bench. To run it yourself: `cargo bench
//! --bench queue -- postgres://postgres@127.0.0.1/postgres target/peers/node-…`. Each run has a new database. A round
//! runs every entrant once, so that ratios compare runs that are close in time. The processor time of server and client
//! together is shown too: it is the cost of a row, whatever else the machine does.

#[path = "../measure/mod.rs"]
mod measure;
mod peer;
mod server;
mod statements;
mod store;
mod tokens;

use std::{env, fs, path::PathBuf, time::Duration};

use measure::{Sample, Table, ratio, show, size};
use peer::Peer;
use server::Server;
use statements::How;

/// The rows of a run; entrants that take rows singly get fewer, see [`Entrant::share`].
const ROWS: u32 = 20_000;
/// Counted rounds; one uncounted round before them warms up.
const ROUNDS: u32 = 7;
/// Concurrent workers, each with its own connection.
const WORKERS: u32 = 10;
const LOT: u32 = 100;

struct Run {
    /// The time from the first claim to the last completion.
    took: Duration,
    client: Duration,
    /// The processor time of the server; `None` if it can't be read.
    server: Option<Duration>,
}

enum Side {
    /// recapd's SQL statements alone.
    Statements(How),
    /// recapd's store; each worker claims up to this many rows.
    Store(u32),
    Peer(Peer),
}

/// What competes: one row of the table.
struct Entrant {
    name: &'static str,
    side: Side,
    /// The entrant gets one `share`th of the rows.
    share: u32,
    times: Vec<Duration>,
    processors: Sample,
}

impl Entrant {
    fn new(name: &'static str, side: Side, share: u32) -> Self {
        let (times, processors) = (Vec::new(), Sample::default());
        Self { name, side, share, times, processors }
    }

    async fn run(&self, server: &Server, rows: u32) -> anyhow::Result<Run> {
        let database = server.fresh().await?;
        match &self.side {
            Side::Statements(_) => statements::fill(&database, rows).await?,
            Side::Store(_) => store::fill(&database, rows).await?,
            Side::Peer(peer) => peer.fill(&database, rows)?,
        }
        database.rest().await?;
        let before = server.processor_time();
        let (took, client) = match &self.side {
            Side::Statements(how) => statements::drain(&database, *how, rows).await?,
            Side::Store(lot) => store::drain(&database, *lot, rows).await?,
            Side::Peer(peer) => peer.drain(&database, rows)?,
        };
        let server = server.processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok(Run { took, client, server })
    }

    /// Runs the entrant once, and records the time per row.
    async fn compete(&mut self, server: &Server, round: u32) -> anyhow::Result<()> {
        let rows = (size(ROWS) / self.share).max(LOT);
        let run = self.run(server, rows).await?;
        let per_row = run.took / rows;
        tell(&format!("round {round}   {:<42} {:>8} rows/s", self.name, per_second(per_row)));
        if round > 0 {
            self.times.push(per_row);
            self.processors.add((run.client + run.server.unwrap_or_default()) / rows);
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [url, folder] = arguments.as_slice() else {
        tell("needs a PostgreSQL server and the peers: scripts/bench-peers");
        return Ok(());
    };
    let server = Server::new(url).await?;
    let mut entrants = entrants(&fs::canonicalize(folder)?);
    for round in 0..=size(ROUNDS) {
        for entrant in &mut entrants {
            entrant.compete(&server, round).await?;
        }
    }
    figures(&mut entrants);
    ratios(&entrants);
    tell(&format!("load average: {}", fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()));
    Ok(())
}

const SINGLE: &str = "recapd's statements, one at a time";
const FLUSHED: &str = "recapd's statements, one at a time, claims flushed";
const LOTS: &str = "recapd's statements, lots of 100";
const STORE_SINGLE: &str = "recapd's store, one at a time";
const STORE_LOTS: &str = "recapd's store, claims of 100, settled singly";
const GRAPHILE_SINGLE: &str = "graphile-worker, one at a time";
const GRAPHILE_LOTS: &str = "graphile-worker, local queue of 500";
const BOSS_SINGLE: &str = "pg-boss, fetch 1";
const BOSS_LOTS: &str = "pg-boss, fetch 100";

/// Pairs of entrants to compare.
const PAIRS: [(&str, &str); 8] = [
    (STORE_SINGLE, GRAPHILE_SINGLE),
    (STORE_LOTS, GRAPHILE_SINGLE),
    (SINGLE, GRAPHILE_SINGLE),
    (FLUSHED, GRAPHILE_SINGLE),
    (STORE_SINGLE, BOSS_SINGLE),
    (SINGLE, BOSS_SINGLE),
    (LOTS, GRAPHILE_LOTS),
    (LOTS, BOSS_LOTS),
];

fn entrants(folder: &std::path::Path) -> Vec<Entrant> {
    let peer = |program, mode| {
        let program: PathBuf = folder.join(program);
        Side::Peer(Peer { program, mode })
    };
    vec![
        Entrant::new(SINGLE, Side::Statements(How::Single), 4),
        Entrant::new(GRAPHILE_SINGLE, peer("graphile.mjs", "single"), 4),
        Entrant::new(STORE_SINGLE, Side::Store(1), 4),
        Entrant::new(STORE_LOTS, Side::Store(LOT), 4),
        Entrant::new(FLUSHED, Side::Statements(How::SingleFlushed), 4),
        Entrant::new(BOSS_SINGLE, peer("pgboss.mjs", "single"), 40),
        Entrant::new(LOTS, Side::Statements(How::Lots), 1),
        Entrant::new(GRAPHILE_LOTS, peer("graphile.mjs", "lots"), 1),
        Entrant::new(BOSS_LOTS, peer("pgboss.mjs", "lots"), 1),
    ]
}

fn figures(entrants: &mut [Entrant]) {
    let mut table = Table::new("claim and complete", &["rows/s", "min", "max", "processors a row"]);
    for entrant in entrants {
        let mut times = Sample::default();
        entrant.times.iter().for_each(|&time| times.add(time));
        let rates = [times.p50(), times.percentile(100), times.percentile(0)].map(per_second);
        let [median, min, max] = rates.map(|rate| rate.to_string());
        table.row(entrant.name, &[median, min, max, show(entrant.processors.p50())]);
    }
    table.print();
}

fn ratios(entrants: &[Entrant]) {
    let mut table = Table::new("in the same round", &["×", "min", "max"]);
    let times =
        |name| entrants.iter().find(|entrant| entrant.name == name).map(|entrant| entrant.times.as_slice());
    for (name, rival) in PAIRS {
        let (ours, theirs) = (times(name).unwrap_or_default(), times(rival).unwrap_or_default());
        let mut ratios: Vec<f64> =
            theirs.iter().zip(ours).map(|(&theirs, &ours)| ratio(theirs, ours)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| ratios.get(index).map_or(String::new(), |ratio| format!("{ratio:.2}"));
        let figures = [at(ratios.len() / 2), at(0), at(ratios.len().saturating_sub(1))];
        table.row(&format!("{name} / {rival}"), &figures);
    }
    table.print();
}

fn per_second(per_row: Duration) -> u128 {
    1_000_000_000 / per_row.as_nanos().max(1)
}

#[expect(clippy::print_stdout, reason = "a run takes minutes; somebody is watching")]
fn tell(line: &str) {
    println!("{line}");
}
