//! One run: daemons and clients take random turns until time is up; then everything is healthy, and all work must be
//! completed.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use fastrand::Rng;

use super::{
    client::Client,
    course::Course,
    daemon::{SimulatedDaemon, Surroundings},
    findings::Counts,
    guard::Guard,
    judge::{Judge, PromiseBreach},
    tables::Tables,
    world::{Inner, SkewedClock, StoreCall, World},
};
use recapd_core::domain::{
    agent::AgentId,
    time::{HOUR_MS, MINUTE_MS, SECOND_MS, Timestamp},
};

const BORN_AT: Timestamp = Timestamp(1_795_000_000_000);
const TROUBLED_STEPS_MAX: u64 = 500;
/// The steps within which healthy workers write a version while there is work: after a long silence, a model is asked about
/// few exchanges at a time.
const HEALTHY_STEPS_MAX: u64 = 5_000;
/// The steps within which they complete all work.
const HEALTHY_STEPS_IN_ALL: u64 = 50_000;
/// Parked rows are retried after six hours.
const PROBE_MS: i64 = 7 * HOUR_MS;

pub(super) struct SimulationOutcome {
    pub(super) counts: Counts,
    pub(super) breaches: Vec<PromiseBreach>,
    /// The events, if a trace was requested.
    pub(super) trace: Vec<String>,
}

/// A daemon, or the slot in which it will be restarted.
struct DaemonSlot {
    daemon: Option<SimulatedDaemon>,
    clock: Arc<SkewedClock>,
    /// It is stopped until this time, or restarted then.
    still_until: Timestamp,
}

struct SimulationRun<'s> {
    world: Arc<World>,
    course: Course,
    surroundings: &'s Surroundings,
    places: Vec<DaemonSlot>,
    client: Client,
    agents: Vec<AgentId>,
}

pub(super) fn run(
    seed: u64,
    without: &BTreeSet<Guard>,
    surroundings: &Surroundings,
    is_told: bool,
) -> SimulationOutcome {
    let mut random = Rng::with_seed(seed);
    let course = Course::draw(&mut random);
    let tables = Tables::new(without.clone(), Arc::clone(&course.counter));
    let judge = Judge::new(course.rules.policy.ceiling(), Arc::clone(&course.counter));
    let steps = random.u64(TROUBLED_STEPS_MAX / 5..TROUBLED_STEPS_MAX);
    let mut inner = Inner::new((random, BORN_AT), tables, judge, is_told);
    inner.has_own_clock = course.has_own_clock;
    let world = World::new(inner);
    let agents: Vec<AgentId> = (1..=course.agents).map(|n| AgentId::slug(&format!("a{n}"))).collect();
    let place = |_| DaemonSlot {
        daemon: None,
        clock: Arc::new(SkewedClock { world: Arc::clone(&world), skew_ms: AtomicI64::new(0) }),
        still_until: BORN_AT,
    };
    let mut run = SimulationRun {
        places: (0..course.daemons).map(place).collect(),
        world: Arc::clone(&world),
        course,
        surroundings,
        client: Client::default(),
        agents,
    };
    run.live(steps);
    // Running actors hold references to the world.
    drop(run);
    let mut inner = world.inner();
    SimulationOutcome {
        counts: std::mem::take(&mut inner.counts),
        breaches: std::mem::take(&mut inner.judge.breaches),
        trace: inner.take_trace(),
    }
}

impl SimulationRun<'_> {
    fn live(&mut self, steps: u64) {
        for _ in 0..steps {
            self.trouble();
            self.step();
            if self.is_over() {
                return;
            }
        }
        self.heal();
        let (mut versions, mut patience) = (self.versions(), HEALTHY_STEPS_MAX);
        for _ in 0..HEALTHY_STEPS_IN_ALL {
            self.step();
            patience -= 1;
            if self.is_over() || self.is_drained() || patience == 0 {
                break;
            }
            let written = self.versions();
            if written > versions {
                (versions, patience) = (written, HEALTHY_STEPS_MAX);
            }
        }
        let mut inner = self.world.inner();
        let Inner { judge, tables, .. } = &mut *inner;
        judge.judge_end_of_all(&tables.agents);
    }

    fn is_over(&self) -> bool {
        self.world.inner().judge.is_over()
    }

    /// The number of versions written so far, of all agents.
    fn versions(&self) -> i64 {
        let inner = self.world.inner();
        inner.tables.agents.values().map(|kept| kept.version).sum()
    }

    /// Returns true if nothing is pending or running. If only parked rows are left, lets hours pass.
    fn is_drained(&self) -> bool {
        let mut inner = self.world.inner();
        let agents = inner.tables.agents.values();
        let rows: Vec<_> = agents.clone().filter_map(|kept| kept.row.as_ref()).collect();
        if rows.is_empty() {
            return agents.clone().all(|kept| kept.pending().next().is_none());
        }
        let is_parked = rows.iter().all(|row| row.parked_at.is_some());
        if is_parked
            && rows.iter().all(|row| row.parked_at.is_some_and(|at| inner.now.since_ms(at) < PROBE_MS))
        {
            inner.now = inner.now.plus_ms(PROBE_MS);
        }
        false
    }

    /// Lets one actor run to the next point at which others may run first.
    fn step(&mut self) {
        self.start_daemons();
        let now = self.world.inner().now;
        let mut ready: Vec<(usize, usize)> = Vec::new();
        let mut next = Timestamp(i64::MAX);
        for (number, place) in self.places.iter().enumerate() {
            let Some(daemon) = &place.daemon else {
                next = next.min(place.still_until);
                continue;
            };
            for (index, actor) in daemon.actors.iter().enumerate() {
                if place.still_until <= now && actor.may_go_on(now) {
                    ready.push((number, index));
                } else {
                    let wants = actor.wait.unwrap_or(Timestamp(i64::MAX));
                    next = next.min(wants.max(place.still_until));
                }
            }
        }
        let Some((number, index)) = self.world.draw(|random| random.choice(ready)) else {
            // No actor can continue now.
            self.world.inner().now = next;
            return;
        };
        self.world.inner().counts.steps += 1;
        if let Some(daemon) = &mut self.places[number].daemon
            && daemon.actors[index].go_on(&self.world)
        {
            daemon.actors.swap_remove(index);
        }
        let begun = std::mem::take(&mut self.world.inner().begun);
        for (number, life) in begun {
            if let Some(daemon) = &mut self.places[number].daemon {
                daemon.begin(life);
            }
        }
        let mut inner = self.world.inner();
        let passed_ms = inner.random.i64(0..20);
        inner.now = inner.now.plus_ms(passed_ms);
    }

    fn start_daemons(&mut self) {
        let now = self.world.inner().now;
        for (number, place) in self.places.iter_mut().enumerate() {
            if place.daemon.is_none() && place.still_until <= now {
                let clock = Arc::clone(&place.clock);
                let daemon =
                    SimulatedDaemon::start(&self.world, number, clock, &self.course, self.surroundings);
                place.daemon = Some(daemon);
            }
        }
    }

    /// May cause a fault, and sends clients' requests.
    fn trouble(&mut self) {
        let (what, number, agent) = self.world.draw(|random| {
            let (number, agent) = (random.usize(..self.places.len()), random.usize(..self.agents.len()));
            (random.u32(..1_000), number, agent)
        });
        match what {
            0..8 => self.kill(number),
            8..20 => self.stall(number),
            20..24 => self.turn_clock(number),
            24..27 => self.lose_row(agent),
            27..30 => {
                if let Some(daemon) = &self.places[number].daemon {
                    daemon.stop.cancel();
                }
                self.tell(number, "is asked to stop");
            }
            30..150 => self.ask(number, agent),
            _ => {}
        }
    }

    fn tell(&self, number: usize, what: &str) {
        self.world.inner().tell(|inner| format!("{:>9} d{number} {what}", inner.now.0));
    }

    /// Kills a daemon, which loses its memory and restarts later.
    fn kill(&mut self, number: usize) {
        let now = self.world.inner().now;
        let down_ms = self.world.draw(|random| random.i64(..30 * SECOND_MS));
        let place = &mut self.places[number];
        if place.daemon.take().is_some() {
            place.still_until = now.plus_ms(down_ms);
            self.world.inner().counts.killed += 1;
            self.tell(number, "is killed");
        }
    }

    /// Stops a daemon, which continues later as if nothing had happened.
    fn stall(&mut self, number: usize) {
        let now = self.world.inner().now;
        let still_ms = self.world.draw(|random| random.i64(SECOND_MS..MINUTE_MS));
        let place = &mut self.places[number];
        if place.daemon.is_some() {
            place.still_until = now.plus_ms(still_ms);
            self.world.inner().counts.stalled += 1;
            self.tell(number, "stands still");
        }
    }

    fn turn_clock(&mut self, number: usize) {
        let skew_ms = self.world.draw(|random| random.i64(-MINUTE_MS..MINUTE_MS));
        self.places[number].clock.skew_ms.store(skew_ms, Relaxed);
        self.world.inner().counts.clocks_turned += 1;
        self.tell(number, "has another time");
    }

    /// Deletes a queue row, as an operator may.
    fn lose_row(&mut self, agent: usize) {
        let agent = &self.agents[agent];
        let call = StoreCall { daemon: 0, method: "an operator deletes the row" };
        let lost = self.world.operate(call, |inner| {
            if inner.tables.agents.get(agent).is_some_and(|kept| kept.row.is_some()) {
                inner.judge.saw_row_lost(agent);
                inner.counts.rows_lost += 1;
                inner.tables.lose_row(agent)?;
            }
            Ok(())
        });
        // An agent without a row has none to lose.
        drop(lost);
    }

    fn ask(&mut self, number: usize, agent: usize) {
        let Some(daemon) = &mut self.places[number].daemon else {
            return;
        };
        let request = self.client.request(&self.world, daemon.ingestor.clone(), self.agents[agent].clone());
        daemon.begin(request);
        self.world.inner().counts.requests += 1;
    }

    /// Ends faults and requests, and corrects all clocks.
    fn heal(&mut self) {
        let mut inner = self.world.inner();
        inner.is_troubled = false;
        let now = inner.now;
        inner.tell(|inner| format!("{:>9} everybody is healthy", inner.now.0));
        drop(inner);
        for place in &mut self.places {
            place.still_until = place.still_until.min(now.plus_ms(MINUTE_MS));
            place.clock.skew_ms.store(0, Relaxed);
            let is_stopping = place.daemon.as_ref().is_some_and(|daemon| daemon.stop.is_cancelled());
            if is_stopping {
                place.daemon = None;
            }
        }
    }
}
