//! One run: daemons start, conversations are pushed, faults happen, everything is mended, the queue runs dry, and what is
//! left is judged.

mod cause;
mod finish;
mod tend;

use std::{io, net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use fastrand::Rng;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};

use super::{
    Faults,
    daemon::{Daemon, Guard, Manner, State},
    findings::{FaultFindings, Promise},
    kind::{Database, Kind},
    load::Load,
    model::Model,
    place::{Place, run_folder},
    settings::Own,
};

/// Conversations of a run.
const AGENTS: u64 = 5;
/// How often daemons are looked after.
const TICK_MS: u64 = 10;
/// How long a killed daemon stays away, at most.
const AWAY_MS_MAX: u64 = 300;
/// Beyond its drain a daemon that was asked to end may take so long; then it hangs.
const END_MS_MAX: u64 = 20_000;
/// How long the first turn may take.
const BEGIN_MS_MAX: u64 = 60_000;

/// Does run number `piece`.
pub(super) fn run(faults: &Faults, piece: usize) -> FaultFindings {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let found = runtime.and_then(|runtime| runtime.block_on(in_folder(faults, piece)));
    found.unwrap_or_else(|error| {
        let mut found = FaultFindings::default();
        found.break_promise(Promise::Other, 1, format!("the run can't be made: {error}"));
        found
    })
}

async fn in_folder(faults: &Faults, piece: usize) -> io::Result<FaultFindings> {
    let folder = run_folder(&faults.folder)?;
    let guard = Guard::of(folder.path())?;
    let mut run = Run::new(faults, piece, folder.path()).await?;
    run.live(faults.size_of(piece)).await;
    let Run { mut found, place, .. } = run;
    found.runs = 1;
    if found.is_clean() {
        // The folder can't go before what is mounted in it.
        drop(place);
        drop(guard);
        return Ok(found);
    }
    let kept = keep(folder, &place);
    drop(guard);
    found.told.push(format!(
        "its folder is {kept}; again: recapd selftest faults --database {} --seed {} --run {piece}",
        faults.database.name(),
        faults.seed
    ));
    Ok(found)
}

/// Keeps a run's folder, with the database, which may lie in memory.
fn keep(folder: TempDir, place: &Place) -> String {
    place.end();
    let folder = folder.keep();
    place.keep_in(&folder.join("database"));
    folder.display().to_string()
}

struct Run {
    database: Database,
    kinds: Vec<Kind>,
    lease_ms: u64,
    random: Rng,
    model: Model,
    load: Arc<Load>,
    daemons: Vec<Daemon>,
    place: Place,
    /// When the disk is freed and the server started, if one of them is out.
    outage_until: Option<Instant>,
    /// The furthest that a clock was set ahead.
    furthest_ms: i64,
    tasks: JoinSet<()>,
    found: FaultFindings,
}

impl Run {
    async fn new(faults: &Faults, piece: usize, folder: &Path) -> io::Result<Self> {
        let mut random = Rng::with_seed(faults.seed_of(piece));
        let (place, left_out) = Place::make(faults, folder).map_err(io::Error::other)?;
        let model = Model::new(random.u64(..));
        let (address, serving) = model.serve().await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serving);
        let falls_back = random.u8(..3) == 0;
        let daemons: Vec<Daemon> = (0..faults.database.daemons())
            .map(|number| {
                let own = Own {
                    url: &place.url(),
                    database: faults.database,
                    model: address,
                    daemon: number,
                    falls_back,
                };
                Daemon::new(Manner {
                    program: faults.program.clone(),
                    number,
                    host: host(faults.database, piece, number),
                    settings: [faults.settings(), own.settings()].concat(),
                    folder: folder.to_owned(),
                })
            })
            .collect();
        let load = Load::new(daemons.len()).map_err(io::Error::other)?;
        let mut found = FaultFindings::default();
        found.left_out.extend(left_out);
        let mut kinds = faults.kinds.clone();
        kinds.retain(|kind| !found.left_out.contains_key(kind));
        Ok(Self {
            database: faults.database,
            kinds,
            lease_ms: u64::try_from(faults.lease_ms).unwrap_or_default(),
            random,
            model,
            load: Arc::new(load),
            daemons,
            place,
            outage_until: None,
            furthest_ms: 0,
            tasks,
            found,
        })
    }

    async fn live(&mut self, faults: u64) {
        let mut pushers = JoinSet::new();
        let seed = self.random.u64(..);
        for agent in 0..AGENTS {
            let load = Arc::clone(&self.load);
            pushers.spawn(async move { (agent, load.push(agent, seed).await) });
        }
        if self.until_served().await {
            self.cause_all(faults).await;
        }
        self.mend().await;
        self.load.end();
        let turns = self.until_pushed(pushers).await;
        self.model.calm();
        match turns {
            Some(turns) => self.finish(turns).await,
            None => self.broken("turns can't be pushed though everything is mended".to_owned()),
        }
        for daemon in &mut self.daemons {
            daemon.kill();
        }
        self.count_repairs();
        self.tasks.abort_all();
        let told = self.model.told();
        self.found.calls = told.calls;
        self.found.taken_over_ms = told.taken_over_ms;
        self.found.restarted_ms = told.restarted_ms;
        self.found.not_resumed = told.not_resumed;
    }

    /// Whether the first turn is acknowledged.
    async fn until_served(&mut self) -> bool {
        let until = after_ms(BEGIN_MS_MAX);
        while self.load.acknowledged() == 0 {
            if Instant::now() >= until {
                self.broken("no daemon serves".to_owned());
                return false;
            }
            self.pause(TICK_MS).await;
        }
        true
    }

    fn up(&self) -> Vec<usize> {
        let daemons = self.daemons.iter().enumerate();
        daemons
            .filter_map(|(number, daemon)| (daemon.state == State::Up).then_some(number))
            .collect()
    }

    fn with(&mut self, number: usize, what: impl FnOnce(&mut Daemon)) {
        if let Some(daemon) = self.daemons.get_mut(number) {
            what(daemon);
        }
    }

    fn set_clock(&mut self, number: usize, offset_ms: i64) {
        self.furthest_ms = self.furthest_ms.max(offset_ms);
        let set = self.daemons.get(number).map(|daemon| daemon.set_clock(offset_ms));
        if let Some(Err(error)) = set {
            self.broken(format!("the clock of daemon {number} can't be set: {error}"));
        }
    }

    fn broken(&mut self, breach: String) {
        self.found.break_promise(Promise::Other, 1, breach);
    }
}

/// An address of the machine for each daemon of the runs that go on at the same time, here and in other programs.
fn host(database: Database, piece: usize, daemon: usize) -> Ipv4Addr {
    let byte = |number: usize| u8::try_from(number % 254 + 1).unwrap_or(1);
    let program = usize::try_from(std::process::id()).unwrap_or_default();
    let run = 2 * piece + usize::from(database == Database::Postgres);
    Ipv4Addr::new(127, byte(program), byte(run), byte(daemon))
}

fn after_ms(span_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(span_ms)
}
