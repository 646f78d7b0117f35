//! A move to another database under faults: a killed copy leaves nothing, a completed one has everything, and the run
//! continues with it.

use std::{
    io,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::Instant};

use super::{Run, SETTLE_MS, TICK_MS, after_ms};
use crate::faults::daemon::State;

/// The longest time before a copy is killed.
const KILL_MS_MAX: u64 = 2_000;
/// The error of a copy whose target has data.
const NOT_EMPTY: &str = "the target isn't empty";
const COPY_MS_MAX: u64 = 120_000;

impl Run {
    /// Moves everything to another database, by a copy that is killed and another one. Returns false if that is impossible
    /// now.
    pub(super) async fn copy(&mut self) -> bool {
        if self.outage_until.is_some() {
            return false;
        }
        self.out(after_ms(COPY_MS_MAX));
        // A server that doesn't notice their death keeps their connections, and a copy needs to be alone.
        self.open_ways();
        for daemon in 0..self.daemons.len() {
            self.kill(daemon, COPY_MS_MAX);
        }
        let gate = self.place.close().await;
        if let Err(error) = self.copy_twice().await {
            self.broken(format!("a copy after one that was killed: {error}"));
        }
        drop(gate);
        for daemon in &mut self.daemons {
            daemon.state = State::Away(Instant::now());
        }
        self.outage_until = Some(Instant::now());
        let settled = after_ms(SETTLE_MS);
        for (until, _) in &mut self.settling {
            *until = settled.min(*until);
        }
        true
    }

    async fn copy_twice(&mut self) -> Result<(), String> {
        let place = self.place.clone();
        let target = spawn_blocking(move || place.new_target());
        let target = target.await.map_err(|error| error.to_string())??;
        let kill_ms = self.random.u64(..KILL_MS_MAX);
        // A copy that is done by then isn't killed.
        if self.copy_once(&target, kill_ms).await.is_err() {
            let again = self.copy_once(&target, COPY_MS_MAX).await;
            // It was killed after its commit; whether the data is complete is judged at the end.
            if !again.as_ref().is_err_and(|error| error.contains(NOT_EMPTY)) {
                again?;
            }
        }
        let place = self.place.clone();
        let moved = spawn_blocking(move || place.move_to_target());
        moved.await.map_err(|error| error.to_string())?
    }

    async fn copy_once(&self, target: &str, ms_max: u64) -> Result<(), String> {
        let mut copy = Command::new(&self.program);
        copy.env_clear()
            .args(["copy", &self.place.url(), target])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let copied = spawn_blocking(move || run_within(&mut copy, ms_max));
        copied.await.map_err(|error| error.to_string())?
    }
}

/// Runs a program with little output, and kills it if it takes too long.
fn run_within(program: &mut Command, ms_max: u64) -> Result<(), String> {
    let mut run = || -> io::Result<Result<(), String>> {
        let (mut child, until) = (program.spawn()?, after_ms(ms_max));
        while child.try_wait()?.is_none() {
            if Instant::now() >= until {
                child.kill()?;
                child.wait()?;
                return Ok(Err(format!("it was killed after {ms_max} ms")));
            }
            std::thread::sleep(Duration::from_millis(TICK_MS));
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(if output.status.success() { Ok(()) } else { Err(said) })
    };
    run().map_err(|error| error.to_string())?
}
