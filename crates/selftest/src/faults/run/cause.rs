//! Causes faults: chooses the next one and its victim.

use std::time::Duration;

use tokio::time::Instant;

use super::{AWAY_MS_MAX, Run, TICK_MS, after_ms};
use crate::faults::{
    daemon::{Daemon, State},
    kind::Kind,
};

const GAP_MS_MAX: u64 = 300;
/// How long a daemon is stopped, if not beyond its lease.
const STALL_MS_MAX: u64 = 3_000;
/// The longest time with a full disk or without the server.
const OUTAGE_MS_MAX: u64 = 600;
/// How long to wait for a model call to interrupt.
const CALL_WAIT_MS: u64 = 3_000;
/// The time that recovery may take beyond two leases; a slower one isn't measured.
const RESUME_MS_MAX: u64 = 5_000;
/// The longest jump of a clock.
const JUMP_MS_MAX: i64 = 3_600_000;
/// How many kinds may be drawn per fault, since some can't happen at the moment.
const DRAWS_MAX: u64 = 20;

impl Run {
    pub(super) async fn cause_all(&mut self, faults: u64) {
        let mut draws = 0;
        while self.found.faults() < faults && draws < faults * DRAWS_MAX {
            while self.up().is_empty() {
                self.pause(TICK_MS).await;
            }
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

    /// Causes a fault. Returns false if it can't happen now.
    async fn cause(&mut self, kind: Kind) -> bool {
        let up = self.up();
        let Some(&daemon) = up.get(self.random.usize(..up.len().max(1))) else {
            return false;
        };
        let (away_ms, outage_ms) = (self.random.u64(..AWAY_MS_MAX), self.random.u64(100..OUTAGE_MS_MAX));
        match kind {
            Kind::Kill => self.kill(daemon, away_ms),
            Kind::KillInCall => return self.kill_in_call(&up, 0).await,
            Kind::TakeOver if up.len() < 2 => return false,
            Kind::TakeOver => return self.kill_in_call(&up, self.take_over_ms()).await,
            Kind::Stall => self.stall(daemon, outage_ms),
            Kind::Terminate => {
                self.roster.halted(daemon, true);
                self.with(daemon, Daemon::terminate);
            }
            Kind::ClockJump => {
                let offset_ms = self.random.i64(-JUMP_MS_MAX..=JUMP_MS_MAX);
                self.set_clock(daemon, offset_ms);
            }
            Kind::ModelParted => self.part(self.lines.get(daemon).map(|lines| lines.model.clone())),
            Kind::PowerCut => return self.cut_power(daemon, away_ms).await,
            Kind::CopyKill => return self.copy().await,
            Kind::DiskFull
            | Kind::ServerCrash
            | Kind::Cut
            | Kind::ServerParted
            | Kind::ServerSilent
            | Kind::CommitCut
            | Kind::Locked => return self.hurt_database(kind, daemon, outage_ms).await,
        }
        true
    }

    /// Longer than another daemon needs to take over.
    fn take_over_ms(&self) -> u64 {
        self.lease_ms + self.lease_ms / 2 + 500
    }

    pub(super) fn kill(&mut self, daemon: usize, away_ms: u64) {
        // From now on, no client may expect answers from it.
        self.roster.moved(daemon, None);
        self.with(daemon, |daemon| {
            daemon.kill();
            daemon.state = State::Away(after_ms(away_ms));
        });
    }

    /// Often beyond its lease, if another daemon can take over.
    fn stall(&mut self, daemon: usize, extra_ms: u64) {
        let is_long = self.random.usize(..8) < self.daemons.len();
        let span_ms = if is_long { self.lease_ms + extra_ms } else { self.random.u64(100..STALL_MS_MAX) };
        self.roster.halted(daemon, true);
        self.with(daemon, |daemon| daemon.stall(after_ms(span_ms)));
    }

    /// Waits for a model call of one of the daemons, and kills it before the answer arrives.
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

    /// Causes no other fault until agents that lost their daemon get another call, so that each recovery is measured alone.
    async fn until_resumed(&mut self) {
        let until = after_ms(2 * self.lease_ms + RESUME_MS_MAX);
        while self.model.has_orphans() && Instant::now() < until {
            self.pause(TICK_MS).await;
        }
        self.model.forget_orphans();
    }
}
