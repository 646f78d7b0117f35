//! One run: daemons start, conversations are pushed, faults happen, everything is mended, the queue runs dry, and what is
//! left is judged.

use std::{io, net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use fastrand::Rng;
use tempfile::TempDir;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::Instant,
};

use super::{
    Faults,
    daemon::{Daemon, Guard, Manner, State},
    findings::{FaultFindings, Promise},
    judge,
    kind::{Database, Kind},
    load::Load,
    model::Model,
    place::{Place, run_folder},
    settings::{CEILING_TOKENS, DRAIN_MS, Own},
};
use crate::{
    clock::{Clock as _, SystemClock},
    domain::{agent::AgentId, time::Timestamp, work::Reason},
    store::{
        SqlStore, Store as _, StoreResult,
        operate::{OperatorStore as _, QueueState},
    },
};

/// Conversations of a run.
const AGENTS: u64 = 5;
/// The most of them that are read.
const AGENTS_READ: i64 = 100;
/// How often daemons are looked after.
const TICK_MS: u64 = 10;
/// Between two faults, at most.
const GAP_MS_MAX: u64 = 300;
/// How long a killed daemon stays away, at most.
const AWAY_MS_MAX: u64 = 300;
/// How long the disk stays full, or the server away, at most.
const OUTAGE_MS_MAX: u64 = 600;
/// A call to a model is waited for so long, to be cut.
const CALL_WAIT_MS: u64 = 3_000;
/// How long recovery may take beyond two leases; it isn't measured then.
const RESUME_MS_MAX: u64 = 5_000;
/// The furthest that a clock jumps.
const JUMP_MS_MAX: i64 = 3_600_000;
/// Beyond its drain a daemon that was asked to end may take so long; then it hangs.
const END_MS_MAX: u64 = 20_000;
/// How long the queue may stand still before it is dry, beyond two leases: longer than a row waits after many attempts.
const DRY_MS_MAX: u64 = 90_000;
/// How long it may take in all.
const DRY_MS_IN_ALL: u64 = 600_000;
/// How long the first turn may take.
const BEGIN_MS_MAX: u64 = 60_000;
/// How many times faults may be drawn that can't happen just then, for each that does.
const DRAWS_MAX: u64 = 20;

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

    async fn cause_all(&mut self, faults: u64) {
        let mut draws = 0;
        while self.found.faults() < faults && draws < faults * DRAWS_MAX {
            draws += 1;
            let gap_ms = self.random.u64(10..GAP_MS_MAX);
            self.pause(gap_ms).await;
            let Some(kind) = self.draw() else { return };
            if self.cause(kind).await {
                *self.found.faults.entry(kind).or_default() += 1;
            }
        }
    }

    fn draw(&mut self) -> Option<Kind> {
        let weights: u32 = self.kinds.iter().map(|kind| kind.weight()).sum();
        let mut left = self.random.u32(..weights.max(1));
        for &kind in &self.kinds {
            if left < kind.weight() {
                return Some(kind);
            }
            left -= kind.weight();
        }
        None
    }

    /// Makes a fault happen. False if it can't just now.
    async fn cause(&mut self, kind: Kind) -> bool {
        let up = self.up();
        let Some(&daemon) = up.get(self.random.usize(..up.len().max(1))) else {
            return false;
        };
        let (away_ms, outage_ms) = (
            self.random.u64(..AWAY_MS_MAX),
            self.random.u64(100..OUTAGE_MS_MAX),
        );
        match kind {
            Kind::Kill => self.kill(daemon, away_ms),
            Kind::KillInCall => return self.kill_in_call(&up, 0).await,
            Kind::TakeOver if up.len() < 2 => return false,
            Kind::TakeOver => return self.kill_in_call(&up, self.take_over_ms()).await,
            Kind::Stall => {
                let until = after_ms(self.lease_ms + outage_ms);
                self.with(daemon, |daemon| daemon.stall(until));
            }
            Kind::Terminate => self.with(daemon, Daemon::terminate),
            Kind::ClockJump => {
                let offset_ms = self.random.i64(-JUMP_MS_MAX..=JUMP_MS_MAX);
                self.set_clock(daemon, offset_ms);
            }
            Kind::DiskFull | Kind::ServerCrash | Kind::Cut if self.outage_until.is_some() => return false,
            Kind::DiskFull => {
                self.place.fill();
                self.outage_until = Some(after_ms(outage_ms));
            }
            Kind::ServerCrash => {
                let server = self.place.server();
                drop(spawn_blocking(move || server.map(|server| server.crash())).await);
                self.outage_until = Some(after_ms(away_ms));
            }
            Kind::Cut => {
                let (server, percent) = (self.place.server(), self.random.u8(30..=100));
                let cut = spawn_blocking(move || server.map_or(0, |server| server.cut(percent))).await;
                return cut.is_ok_and(|cut| cut > 0);
            }
        }
        true
    }

    /// Longer than another daemon needs to take over.
    fn take_over_ms(&self) -> u64 {
        self.lease_ms + self.lease_ms / 2 + 500
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

    fn kill(&mut self, daemon: usize, away_ms: u64) {
        self.with(daemon, |daemon| {
            daemon.kill();
            daemon.state = State::Away(after_ms(away_ms));
        });
        self.load.moved(daemon, None);
    }

    /// Waits for one of them to ask the model, and kills it before the answer comes.
    async fn kill_in_call(&mut self, daemons: &[usize], away_ms: u64) -> bool {
        self.model.hold(true);
        let model = self.model.clone();
        let called = tokio::time::timeout(Duration::from_millis(CALL_WAIT_MS), model.caller(daemons)).await;
        if let Ok(daemon) = called {
            let asked = self.model.asked_by(daemon);
            self.kill(daemon, away_ms);
            self.model.orphaned(daemon, asked);
        }
        self.model.hold(false);
        self.until_resumed().await;
        called.is_ok()
    }

    /// Lets nothing else happen until those who lost their daemon are asked about again, so that recovery is measured
    /// alone.
    async fn until_resumed(&mut self) {
        let until = after_ms(2 * self.lease_ms + RESUME_MS_MAX);
        while self.model.has_orphans() && Instant::now() < until {
            self.pause(TICK_MS).await;
        }
        self.model.forget_orphans();
    }

    fn set_clock(&mut self, number: usize, offset_ms: i64) {
        self.furthest_ms = self.furthest_ms.max(offset_ms);
        let set = self.daemons.get(number).map(|daemon| daemon.set_clock(offset_ms));
        if let Some(Err(error)) = set {
            self.broken(format!("the clock of daemon {number} can't be set: {error}"));
        }
    }

    /// Waits, and looks after everything meanwhile.
    async fn pause(&mut self, span_ms: u64) {
        let until = after_ms(span_ms);
        loop {
            self.tend().await;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
        }
    }

    /// Starts again what ended, wakes what was stopped, ends outages, when their time has come.
    async fn tend(&mut self) {
        let now = Instant::now();
        if self.outage_until.is_some_and(|until| until <= now) {
            self.end_outage().await;
        }
        for number in 0..self.daemons.len() {
            self.tend_daemon(number, now);
        }
    }

    fn tend_daemon(&mut self, number: usize, now: Instant) {
        let Some(daemon) = self.daemons.get_mut(number) else {
            return;
        };
        match daemon.state {
            State::Stalled(until) if until <= now => daemon.go_on(),
            State::Away(until) if until <= now => match daemon.start() {
                Ok(address) => self.load.moved(number, Some(address)),
                Err(error) => self.broken(format!("daemon {number} can't be started: {error}")),
            },
            State::Up => {
                if daemon.ended().is_some() {
                    // As a service manager does.
                    daemon.state = State::Away(after_ms(AWAY_MS_MAX));
                    self.load.moved(number, None);
                    self.found.ended_alone += 1;
                }
            }
            State::Ending(since) => {
                if daemon.ended().is_some() {
                    daemon.state = State::Away(now);
                    self.load.moved(number, None);
                } else if now.duration_since(since) > Duration::from_millis(DRAIN_MS + END_MS_MAX) {
                    daemon.kill();
                    daemon.state = State::Away(now);
                    self.broken(format!("daemon {number} doesn't end when it is asked to"));
                }
            }
            State::Stalled(_) | State::Away(_) => {}
        }
    }

    async fn end_outage(&mut self) {
        self.outage_until = None;
        let place = self.place.clone();
        let mended = spawn_blocking(move || place.mend()).await;
        if let Ok(Err(error)) = mended {
            self.broken(format!("the server can't be started again: {error}"));
        }
    }

    /// Everything runs again, and clocks show no time that has been before.
    async fn mend(&mut self) {
        self.end_outage().await;
        for number in 0..self.daemons.len() {
            if self.database == Database::Sqlite {
                self.set_clock(number, self.furthest_ms);
            }
            self.with(number, |daemon| match daemon.state {
                State::Stalled(_) => daemon.go_on(),
                State::Away(_) => daemon.state = State::Away(Instant::now()),
                State::Up | State::Ending(_) => {}
            });
        }
        self.tend().await;
    }

    /// Agents with the turns that were acknowledged, once all pushers are done.
    async fn until_pushed(&mut self, mut pushers: JoinSet<(u64, u64)>) -> Option<Vec<(u64, u64)>> {
        let until = after_ms(DRY_MS_MAX);
        let mut turns = Vec::new();
        while !pushers.is_empty() {
            while let Some(Ok(pushed)) = pushers.try_join_next() {
                turns.push(pushed);
            }
            if Instant::now() >= until {
                return None;
            }
            self.pause(TICK_MS).await;
        }
        for refused in self.load.refused() {
            self.broken(refused);
        }
        Some(turns)
    }

    /// Lets the queue run dry, ends the daemons, and judges what is left.
    async fn finish(&mut self, turns: Vec<(u64, u64)>) {
        let store = match SqlStore::look(&self.place.settings()).await {
            Ok(store) => store,
            Err(error) => return self.broken(format!("the database can't be opened: {error}")),
        };
        if let Err(error) = self.until_dry(&store).await {
            self.broken(format!("the queue can't be read: {error}"));
        }
        self.end_daemons().await;
        for (agent, turns) in turns {
            judge::judge(&store, agent, turns, CEILING_TOKENS, &mut self.found).await;
        }
        store.close().await;
    }

    async fn until_dry(&mut self, store: &SqlStore) -> StoreResult<()> {
        let (mut until, in_all) = (Instant::now(), after_ms(DRY_MS_IN_ALL));
        let mut written = None;
        loop {
            let before = written.replace(versions(store).await?);
            if written != before {
                until = after_ms(DRY_MS_MAX + 2 * self.lease_ms).min(in_all);
            }
            let sample = store.sample(self.latest(), 1_000).await?;
            let left = sample.ready + sample.scheduled + sample.running;
            let parked = u64::try_from(sample.parked).unwrap_or_default();
            let is_dry = left == 0 && sample.oldest_pending_at.is_none();
            if is_dry || Instant::now() >= until {
                self.found.parked += parked;
            }
            if is_dry {
                return Ok(());
            }
            if Instant::now() >= until {
                let breach = format!("rows are left, or nobody works on what is pending: {sample:?}");
                let times = u64::try_from(left).unwrap_or(1).max(1);
                self.found.break_promise(Promise::Drained, times, breach);
                return Ok(());
            }
            if left == 0 && parked > 0 {
                self.revive(store).await?;
            }
            self.pause(TICK_MS * 5).await;
        }
    }

    /// What was evicted after a row was parked waits for the next eviction, or for a hand. Who has no row at all is left alone:
    /// that must show.
    async fn revive(&mut self, store: &SqlStore) -> StoreResult<()> {
        let now = self.latest();
        for agent in parked_and_pending(store, now).await? {
            store.enqueue(&agent, Reason::Manual, 0, now).await?;
            self.found.revived += 1;
        }
        Ok(())
    }

    /// What is pending and its row are written in one transaction, so no fault is an excuse for a row that is missing.
    fn count_repairs(&mut self) {
        for (number, daemon) in self.daemons.iter().enumerate() {
            let (promise, times, breach) = match daemon.repairs() {
                Ok(0) => continue,
                Ok(times) => {
                    let breach = format!("daemon {number} found rows missing in the queue, {times} times");
                    (Promise::Drained, times, breach)
                }
                Err(error) => {
                    let breach = format!("the log of daemon {number} can't be read: {error}");
                    (Promise::Other, 1, breach)
                }
            };
            self.found.break_promise(promise, times, breach);
        }
    }

    /// The latest time that a daemon's clock has shown.
    fn latest(&self) -> Timestamp {
        SystemClock.now().plus_ms(self.furthest_ms)
    }

    async fn end_daemons(&mut self) {
        for number in self.up() {
            self.with(number, Daemon::terminate);
        }
        let until = after_ms(DRAIN_MS + END_MS_MAX);
        loop {
            for daemon in &mut self.daemons {
                if daemon.ended().is_some() {
                    daemon.state = State::Away(until);
                }
            }
            if !self.daemons.iter().any(Daemon::runs) {
                return;
            }
            if Instant::now() >= until {
                return self.broken("a daemon doesn't end when it is asked to".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
        }
    }

    fn broken(&mut self, breach: String) {
        self.found.break_promise(Promise::Other, 1, breach);
    }
}

/// How many versions there are of all summaries.
async fn versions(store: &SqlStore) -> StoreResult<i64> {
    let mut versions = 0;
    for agent in store.agents(None, AGENTS_READ).await? {
        let summary = store.summary(&agent.agent).await?;
        versions += summary.map_or(0, |summary| summary.version);
    }
    Ok(versions)
}

/// Agents of which something is pending while their row is parked.
async fn parked_and_pending(store: &SqlStore, now: Timestamp) -> StoreResult<Vec<AgentId>> {
    let mut found = Vec::new();
    for row in store.queue_rows(None, AGENTS_READ, now).await? {
        if row.state == QueueState::Parked {
            let agent = store.agent(&row.agent_id).await?;
            if agent.is_some_and(|agent| agent.pending_since.is_some()) {
                found.push(row.agent_id);
            }
        }
    }
    Ok(found)
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

#[cfg(test)]
mod tests;
