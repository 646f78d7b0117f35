//! Faults of databases and connections.

use std::{ops::Range, sync::Arc, time::Duration};

use tokio::{task::spawn_blocking, time::Instant};

use super::{Run, TICK_MS, after_ms};
use crate::faults::{
    kind::Kind,
    proxy::{CommitFate, Proxy, ProxyFlow},
};

const PARTED_MS: Range<u64> = 500..10_000;
/// How long the server is silent: at most longer than any timeout of a statement.
const SILENT_MS: Range<u64> = 2_000..45_000;
/// How long another program holds the lock: mostly longer than the usual wait of five seconds.
const LOCKED_MS: Range<u64> = 4_000..9_000;
/// The most turns that are acknowledged before the power is cut.
const BUSY_TURNS_MAX: u64 = 40;
/// The longest wait for these turns.
const BUSY_MS_MAX: u64 = 4_000;
const COMMIT_WAIT_MS: u64 = 500;

impl Run {
    /// Cuts a connection for some seconds.
    pub(super) fn part(&mut self, line: Option<Proxy>) {
        if let Some(line) = line {
            let flow = self.random.choice(ProxyFlow::PARTED).unwrap_or(ProxyFlow::Silent);
            line.set(flow);
            self.parted.push((after_ms(self.random.u64(PARTED_MS)), line));
        }
    }

    /// Cuts the power. Returns false if this run can't.
    pub(super) async fn cut_power(&mut self, daemon: usize, away_ms: u64) -> bool {
        let Some(power) = self.power.clone() else {
            return false;
        };
        self.until_busy().await;
        self.kill(daemon, away_ms);
        let mut random = self.random.fork();
        let cut = spawn_blocking(move || power.cut(&mut random)).await;
        if let Ok(Err(error)) = cut {
            self.broken(format!("the power can't be cut: {error}"));
        }
        true
    }

    /// Waits until some turns are acknowledged, so that there is data to lose.
    async fn until_busy(&mut self) {
        let ledger = Arc::clone(&self.load.ledger);
        let enough = ledger.acknowledged() + self.random.u64(..BUSY_TURNS_MAX);
        let until = after_ms(BUSY_MS_MAX);
        while ledger.acknowledged() < enough && Instant::now() < until {
            self.pause(TICK_MS).await;
        }
    }

    /// Causes a fault of the database, or of the connections to it. Returns false if it can't happen now.
    pub(super) async fn hurt_database(&mut self, kind: Kind, daemon: usize, outage_ms: u64) -> bool {
        if self.outage_until.is_some() {
            return false;
        }
        let server = self.place.server();
        let line = self.lines.get(daemon).and_then(|lines| lines.server.clone());
        match kind {
            Kind::DiskFull => {
                self.out(after_ms(outage_ms));
                self.place.fill();
            }
            Kind::ServerCrash => {
                self.out(after_ms(outage_ms));
                drop(spawn_blocking(move || server.map(|server| server.crash())).await);
            }
            Kind::ServerSilent => {
                let span_ms = self.random.u64(SILENT_MS);
                self.out(after_ms(span_ms));
                for line in self.lines.iter().filter_map(|lines| lines.server.as_ref()) {
                    line.set(ProxyFlow::Silent);
                }
            }
            Kind::ServerParted => {
                self.part(line);
                let until = self.parted.last().map_or_else(Instant::now, |(until, _)| *until);
                self.troubled(daemon, until);
            }
            Kind::CommitCut => return self.cut_commit(daemon, line).await,
            Kind::Locked => {
                let (place, span_ms) = (self.place.clone(), self.random.u64(LOCKED_MS));
                self.out(after_ms(span_ms));
                drop(spawn_blocking(move || place.lock(Duration::from_millis(span_ms))));
            }
            _ => {
                for daemon in 0..self.daemons.len() {
                    self.troubled(daemon, Instant::now());
                }
                let percent = self.random.u8(30..=100);
                let cut = spawn_blocking(move || server.map_or(0, |server| server.cut(percent))).await;
                return cut.is_ok_and(|cut| cut > 0);
            }
        }
        true
    }

    /// Returns true if a commit of the daemon met its fate.
    async fn cut_commit(&mut self, daemon: usize, line: Option<Proxy>) -> bool {
        let Some(line) = line else { return false };
        let fate = if self.random.bool() { CommitFate::Unanswered } else { CommitFate::Unasked };
        self.troubled(daemon, after_ms(COMMIT_WAIT_MS));
        line.doom_commit(fate);
        self.pause(COMMIT_WAIT_MS).await;
        line.spare_commits()
    }
}
