//! Maintenance while a run waits: restarts ended daemons, continues stopped ones, ends outages.

use std::time::Duration;

use tokio::{task::spawn_blocking, time::Instant};

use super::{AWAY_MS_MAX, END_MS_MAX, Run, SETTLE_MS, TICK_MS, after_ms};
use crate::faults::{daemon::State, kind::Database, proxy::ProxyFlow, settings::DRAIN_MS};

impl Run {
    /// Waits, with maintenance.
    pub(super) async fn pause(&mut self, span_ms: u64) {
        let until = after_ms(span_ms);
        loop {
            self.tend().await;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
        }
    }

    /// Restarts ended daemons, continues stopped ones and ends outages when they are due.
    async fn tend(&mut self) {
        let now = Instant::now();
        if self.outage_until.is_some_and(|until| until <= now) {
            self.end_outage().await;
        }
        self.open_ways_due(now);
        let roster = &self.roster;
        self.settling.retain(|(until, daemon)| {
            let is_settling = *until > now;
            if !is_settling {
                roster.settled(*daemon);
            }
            is_settling
        });
        for number in 0..self.daemons.len() {
            self.tend_daemon(number, now);
        }
    }

    fn tend_daemon(&mut self, number: usize, now: Instant) {
        let Some(daemon) = self.daemons.get_mut(number) else {
            return;
        };
        match daemon.state {
            State::Stalled(until) if until <= now => {
                daemon.go_on();
                self.roster.halted(number, false);
            }
            State::Away(until) if until <= now => match daemon.start() {
                Ok(whereabouts) => self.roster.moved(number, Some(whereabouts)),
                Err(error) => self.broken(format!("daemon {number} can't be started: {error}")),
            },
            State::Up => {
                if daemon.ended().is_some() {
                    // Restarted, as a service manager does.
                    daemon.state = State::Away(after_ms(AWAY_MS_MAX));
                    self.roster.moved(number, None);
                    self.found.ended_alone += 1;
                }
            }
            State::Ending(since) => {
                if daemon.ended().is_some() {
                    daemon.state = State::Away(now);
                    self.roster.moved(number, None);
                } else if now.duration_since(since) > Duration::from_millis(DRAIN_MS + END_MS_MAX) {
                    daemon.kill();
                    daemon.state = State::Away(now);
                    self.broken(format!("daemon {number} doesn't end when it is asked to"));
                }
            }
            State::Stalled(_) | State::Away(_) => {}
        }
    }

    /// Opens the cut connections that are due.
    fn open_ways_due(&mut self, now: Instant) {
        self.parted.retain(|(until, line)| {
            let is_parted = *until > now;
            if !is_parted {
                line.set(ProxyFlow::Open);
            }
            is_parted
        });
    }

    pub(super) fn open_ways(&mut self) {
        let now = Instant::now();
        for (until, _) in &mut self.parted {
            *until = now;
        }
        self.open_ways_due(now);
    }

    /// Excludes a daemon's database access from measurements, until it has had time to reconnect.
    pub(super) fn troubled(&mut self, daemon: usize, until: Instant) {
        self.roster.troubled(daemon);
        self.settling.push((until + Duration::from_millis(SETTLE_MS), daemon));
    }

    /// Begins an outage of the database.
    pub(super) fn out(&mut self, until: Instant) {
        self.outage_until = Some(until);
        for daemon in 0..self.daemons.len() {
            self.troubled(daemon, until);
        }
    }

    async fn end_outage(&mut self) {
        self.outage_until = None;
        for line in self.lines.iter().filter_map(|lines| lines.server.as_ref()) {
            if !self.parted.iter().any(|(_, parted)| parted.address == line.address) {
                line.set(ProxyFlow::Open);
            }
        }
        let place = self.place.clone();
        let mended = spawn_blocking(move || place.mend()).await;
        if let Ok(Err(error)) = mended {
            self.broken(format!("the server can't be started again: {error}"));
        }
    }

    /// Ends all faults, and sets clocks so that no time repeats.
    pub(super) async fn mend(&mut self) {
        self.open_ways();
        self.end_outage().await;
        for number in 0..self.daemons.len() {
            if self.database == Database::Sqlite {
                self.set_clock(number, self.furthest_ms);
            }
            self.with(number, |daemon| match daemon.state {
                State::Stalled(_) => daemon.state = State::Stalled(Instant::now()),
                State::Away(_) => daemon.state = State::Away(Instant::now()),
                State::Up | State::Ending(_) => {}
            });
        }
        self.tend().await;
    }
}
