//! One run: daemons start, conversations are pushed, faults happen, everything is mended, the queue runs dry, and what is
//! left is judged.

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
    daemon::{Daemon, DaemonLaunch, Guard, State},
    findings::{FaultFindings, Promise},
    kind::{Database, Kind},
    ledger::{Door, RequestFate, Voice},
    load::{self, Load},
    model::Model,
    place::{Place, run_folder},
    power::Power,
    proxy::{Far, Proxy},
    roster::Roster,
    server,
    settings::{self, Own},
    steps::Stepper,
    witness::{Sightings, Witness},
};

/// Conversations of a run.
const AGENTS: u64 = 5;
/// How often daemons are looked after.
const TICK_MS: u64 = 10;
/// How long a killed daemon stays away, at most.
const AWAY_MS_MAX: u64 = 300;
/// Beyond its drain a daemon that was asked to end may take so long; then it hangs.
const END_MS_MAX: u64 = 20_000;
/// How long a daemon may take to find its database again: so long its appends aren't measured.
const SETTLE_MS: u64 = 2_000;
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
    program: PathBuf,
    database: Database,
    kinds: Vec<Kind>,
    lease_ms: u64,
    random: Rng,
    model: Model,
    load: Arc<Load>,
    roster: Arc<Roster>,
    daemons: Vec<Daemon>,
    /// The ways of each daemon to the server, if there is one, and to the model.
    lines: Vec<Proxies>,
    place: Place,
    /// If what is written to the database is recorded.
    power: Option<Arc<Power>>,
    /// When the disk is freed, the server started and heard again, if one of them is out.
    outage_until: Option<Instant>,
    /// Ways that are cut, and when they are open again.
    parted: Vec<(Instant, Proxy)>,
    /// When a daemon has had time to find its database again.
    settling: Vec<(Instant, usize)>,
    /// The furthest that a clock was set ahead.
    furthest_ms: i64,
    tasks: JoinSet<()>,
    found: FaultFindings,
}

/// The ways of a daemon.
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
            // Somebody has to write to the database so that they don't take hours.
            batches: power.is_none() && random.u8(..4) == 0,
        };
        if model_use.batches {
            let place = place.clone();
            tasks.spawn(async move { place.hurry_batches().await });
        }
        let (mut lines, mut daemons) = (Vec::new(), Vec::new());
        for number in 0..faults.database.daemons() {
            let ways = Proxies::lay(&place, address, &mut tasks).await?;
            let own = Own {
                url: &ways.url(&place),
                model: ways.model.address,
                daemon: number,
                model_use,
            };
            daemons.push(Daemon::new(DaemonLaunch {
                program: faults.program.clone(),
                number,
                host: host(faults.database, piece, number),
                settings: [faults.settings(), own.settings()].concat(),
                environment: power
                    .as_ref()
                    .map(|power| power.environment())
                    .unwrap_or_default(),
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
            Err(error) => return self.broken(format!("nobody can look: {error}")),
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

    /// Starts the tasks that send requests to the daemons.
    fn clients(&mut self, witness: &Arc<Witness>) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for agent in (0..AGENTS).map(load::name_of) {
            for door in [Door::Ids, Door::Key, Door::Sql] {
                // Who writes past the daemon isn't recorded.
                if door == Door::Sql && self.power.is_some() {
                    continue;
                }
                let (load, seed) = (Arc::clone(&self.load), self.random.u64(..));
                let voice = Voice {
                    agent: agent.clone(),
                    door,
                };
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

    /// Whether a daemon acknowledges a turn.
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

impl Proxies {
    /// The ways of one daemon, to the server of `place` and to the model.
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

    /// Where the daemon finds its database.
    fn url(&self, place: &Place) -> String {
        let through = |line: &Proxy| server::url_at(line.address);
        self.server.as_ref().map_or_else(|| place.url(), through)
    }
}

/// In about half of the runs in which the power may be cut it is, and what is written is recorded; then nobody else writes. In
/// the others it isn't.
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
