//! One run: daemons start, conversations are pushed, faults happen, everything is repaired, the queue drains, and the data
//! is judged.

mod cause;
mod copy;
mod finish;
mod hurt;
mod tend;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use tempfile::TempDir;
use tokio::{task::JoinSet, time::Instant};

use super::{
    Faults,
    daemon::{Daemon, DaemonLaunch, Guard, State, run_folder},
    findings::{FaultFindings, Promise},
    kind::{Database, Kind},
    ledger::{Door, RequestFate, Voice},
    load::{self, Load},
    model::Model,
    place::Place,
    power::Power,
    proxy::{Far, Proxy},
    roster::Roster,
    server,
    settings::{self, Own},
    steps::Stepper,
    witness::{Sightings, Witness},
};

const AGENTS: u64 = 5;
/// The interval at which daemons are checked.
const TICK_MS: u64 = 10;
const AWAY_MS_MAX: u64 = 300;
/// The longest time to end beyond the drain; a slower daemon hangs.
const END_MS_MAX: u64 = 20_000;
/// The time that a daemon gets to reconnect to its database; its appends aren't measured during it.
const SETTLE_MS: u64 = 2_000;
/// The longest time until the first turn.
const BEGIN_MS_MAX: u64 = 60_000;

pub(super) fn run(faults: &Faults, piece: usize) -> FaultFindings {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
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
        // The folder can't be removed while something is mounted in it.
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

/// Keeps a run's folder, with a copy of the database, which may be in memory.
fn keep(folder: TempDir, place: &Place) -> String {
    place.end();
    let folder = folder.keep();
    place.keep_in(&folder.join("database"));
    folder.display().to_string()
}

struct Run {
    program: PathBuf,
    database: Database,
    kinds: Vec<Kind>,
    lease_ms: u64,
    random: Rng,
    model: Model,
    load: Arc<Load>,
    roster: Arc<Roster>,
    daemons: Vec<Daemon>,
    /// The proxies of each daemon, to the server (if there is one) and to the model.
    lines: Vec<Proxies>,
    place: Place,
    /// Present if writes to the database are recorded.
    power: Option<Arc<Power>>,
    /// When the disk is freed, or the server started or heard again; `None` without an outage.
    outage_until: Option<Instant>,
    /// The cut proxies, and when they are open again.
    parted: Vec<(Instant, Proxy)>,
    /// When a daemon has had time to reconnect to its database.
    settling: Vec<(Instant, usize)>,
    /// The furthest that a clock was set ahead.
    furthest_ms: i64,
    tasks: JoinSet<()>,
    found: FaultFindings,
}

struct Proxies {
    server: Option<Proxy>,
    model: Proxy,
}

impl Run {
    async fn new(faults: &Faults, piece: usize, folder: &Path) -> io::Result<Self> {
        let mut random = Rng::with_seed(faults.seed_of(piece));
        let (place, left_out) = Place::make(faults, folder).map_err(io::Error::other)?;
        let mut found = FaultFindings::default();
        found.left_out.extend(left_out);
        let mut kinds = faults.kinds.clone();
        let power = make_power(&mut kinds, &place, folder, (&mut random, &mut found));
        kinds.retain(|kind| !found.left_out.contains_key(kind));
        let model = Model::new(random.u64(..));
        let (address, serving) = model.serve().await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(serving);
        let model_use = settings::ModelUse {
            falls_back: random.u8(..3) == 0,
            // Batches must be made due by SQL writes, or they would take hours.
            batches: power.is_none() && random.u8(..4) == 0,
        };
        if model_use.batches {
            let place = place.clone();
            tasks.spawn(async move { place.hurry_batches().await });
        }
        let (mut lines, mut daemons) = (Vec::new(), Vec::new());
        for number in 0..faults.database.daemons() {
            let ways = Proxies::lay(&place, address, &mut tasks).await?;
            let own = Own { url: &ways.url(&place), model: ways.model.address, daemon: number, model_use };
            daemons.push(Daemon::new(DaemonLaunch {
                program: faults.program.clone(),
                number,
                host: host(faults.database, piece, number),
                settings: [faults.settings(), own.settings()].concat(),
                environment: power.as_ref().map(|power| power.environment()).unwrap_or_default(),
                folder: folder.to_owned(),
            }));
            lines.push(ways);
        }
        let roster = Arc::new(Roster::of(daemons.len()));
        let load = Load::new(Arc::clone(&roster), place.clone()).map_err(io::Error::other)?;
        Ok(Self {
            program: faults.program.clone(),
            database: faults.database,
            kinds,
            lease_ms: u64::try_from(faults.lease_ms).unwrap_or_default(),
            random,
            model,
            load: Arc::new(load),
            roster,
            daemons,
            lines,
            place,
            power,
            outage_until: None,
            parted: Vec::new(),
            settling: Vec::new(),
            furthest_ms: 0,
            tasks,
            found,
        })
    }

    async fn live(&mut self, faults: u64) {
        let witness = match Witness::new(Arc::clone(&self.load), AGENTS) {
            Ok(witness) => Arc::new(witness),
            Err(error) => return self.broken(format!("no witness can be created: {error}")),
        };
        let mut clients = self.clients(&witness);
        if self.until_served().await {
            self.cause_all(faults).await;
        }
        self.mend().await;
        self.load.end();
        self.model.calm();
        if self.until_over(&mut clients).await {
            self.finish().await;
        } else {
            self.broken("turns can't be pushed though everything is mended".to_owned());
        }
        for daemon in &mut self.daemons {
            daemon.kill();
        }
        self.count_repairs();
        self.tasks.abort_all();
        self.count_calls();
        self.count_sightings(witness.sightings());
        self.count_steps();
    }

    fn clients(&mut self, witness: &Arc<Witness>) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for agent in (0..AGENTS).map(load::name_of) {
            for door in [Door::Ids, Door::Key, Door::Sql] {
                // Writes that bypass the daemon aren't recorded.
                if door == Door::Sql && self.power.is_some() {
                    continue;
                }
                let (load, seed) = (Arc::clone(&self.load), self.random.u64(..));
                let voice = Voice { agent: agent.clone(), door };
                clients.spawn(async move { load.push(&voice, seed).await });
            }
            let stepper = Stepper::new(Arc::clone(&self.load), agent, self.random.u64(..));
            clients.spawn(stepper.run());
        }
        for daemon in 0..self.daemons.len() {
            let (reader, writer, seed) = (Arc::clone(witness), Arc::clone(witness), self.random.u64(..));
            clients.spawn(async move { reader.read(daemon, seed).await });
            clients.spawn(async move { writer.write(daemon).await });
        }
        let beating = Arc::clone(witness);
        self.tasks.spawn(async move { beating.beat().await });
        clients
    }

    fn count_calls(&mut self) {
        let told = self.model.told();
        self.found.calls = told.calls;
        self.found.taken_over_ms = told.taken_over_ms;
        self.found.restarted_ms = told.restarted_ms;
        self.found.not_resumed = told.not_resumed;
    }

    fn count_sightings(&mut self, sightings: Sightings) {
        self.found.known_reads = sightings.known;
        self.found.other_reads = sightings.unknown;
        self.found.appends = sightings.appends;
        self.found.unjudged = sightings.unjudged;
        for breach in sightings.breaches {
            self.found.break_promise(Promise::Available, 1, breach);
        }
    }

    fn count_steps(&mut self) {
        for history in self.load.ledger.all().into_values() {
            let turns = history.turns.iter();
            self.found.ambiguous += turns.filter(|turn| turn.fate == RequestFate::Ambiguous).count() as u64;
            for asked in history.steps {
                let fate = match asked.fate {
                    RequestFate::Acknowledged => "done",
                    RequestFate::Ambiguous => "ambiguous",
                    RequestFate::Refused => "refused",
                };
                let step = format!("{} {fate}", asked.step.name());
                *self.found.steps.entry(step).or_default() += 1;
            }
        }
    }

    /// Waits until a daemon acknowledges a turn. Returns false on a timeout.
    async fn until_served(&mut self) -> bool {
        let until = after_ms(BEGIN_MS_MAX);
        while !self.load.is_served() {
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
        daemons.filter_map(|(number, daemon)| (daemon.state == State::Up).then_some(number)).collect()
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

impl Proxies {
    /// Creates the proxies of one daemon, to the server of `place` and to the model.
    async fn lay(place: &Place, model: SocketAddr, tasks: &mut JoinSet<()>) -> io::Result<Self> {
        let (model, serving) = Proxy::to(Far::Tcp(model)).await?;
        tasks.spawn(serving);
        let mut server = None;
        if let Some(socket) = place.server().map(|server| server.socket()) {
            let (line, serving) = Proxy::to(Far::Socket(socket)).await?;
            tasks.spawn(serving);
            server = Some(line);
        }
        Ok(Self { server, model })
    }

    fn url(&self, place: &Place) -> String {
        let through = |line: &Proxy| server::url_at(line.address);
        self.server.as_ref().map_or_else(|| place.url(), through)
    }
}

/// Prepares power failures: records writes, and excludes faults by SQL writers. About half of the runs that allow other
/// faults, too, never cut the power.
fn make_power(
    kinds: &mut Vec<Kind>,
    place: &Place,
    folder: &Path,
    (random, found): (&mut Rng, &mut FaultFindings),
) -> Option<Arc<Power>> {
    if !kinds.contains(&Kind::PowerCut) {
        return None;
    }
    if kinds.iter().any(|kind| *kind != Kind::PowerCut) && random.bool() {
        kinds.retain(|kind| *kind != Kind::PowerCut);
        return None;
    }
    match Power::of(place.file(), folder) {
        Ok(power) => {
            kinds.retain(|kind| !matches!(kind, Kind::Locked | Kind::CopyKill));
            Some(Arc::new(power))
        }
        Err(error) => {
            found.left_out.insert(Kind::PowerCut, error);
            None
        }
    }
}

/// A unique loopback address for each daemon of concurrent runs, in this and other programs.
fn host(database: Database, piece: usize, daemon: usize) -> Ipv4Addr {
    let byte = |number: usize| u8::try_from(number % 254 + 1).unwrap_or(1);
    let program = usize::try_from(std::process::id()).unwrap_or_default();
    let run = 2 * piece + usize::from(database == Database::Postgres);
    Ipv4Addr::new(127, byte(program), byte(run), byte(daemon))
}

fn after_ms(span_ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(span_ms)
}
