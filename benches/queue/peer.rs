//! Another queue: a Node program that fills a database with empty jobs, or completes them.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{LOT, WORKERS, server::Database};

/// A peer, and how to run it.
pub(crate) struct Peer {
    pub(crate) program: PathBuf,
    /// `single` or `lots`.
    pub(crate) mode: &'static str,
}

/// The peer's output after it has completed all jobs.
#[derive(Deserialize)]
struct DrainReport {
    took_ms: f64,
    processor_ms: f64,
    completed: u32,
}

impl Peer {
    pub(crate) fn fill(&self, database: &Database, rows: u32) -> anyhow::Result<()> {
        self.node("fill", database, rows).map(drop)
    }

    /// Completes `rows` jobs. Returns the time that it took, and the client's processor time.
    pub(crate) fn drain(&self, database: &Database, rows: u32) -> anyhow::Result<(Duration, Duration)> {
        let text = self.node("drain", database, rows)?;
        let drained: DrainReport =
            serde_json::from_str(&text).with_context(|| format!("the peer printed {text:?}"))?;
        anyhow::ensure!(drained.completed == rows, "{} of {rows} rows were completed", drained.completed);
        let milliseconds = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        Ok((milliseconds(drained.took_ms), milliseconds(drained.processor_ms)))
    }

    fn node(&self, step: &str, database: &Database, rows: u32) -> anyhow::Result<String> {
        let output = Command::new("node")
            .arg(&self.program)
            .args([step, &database.url(), self.mode])
            .args([rows, WORKERS, LOT].map(|number| number.to_string()))
            .output()
            .context("can't run node")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{} {step}: {errors}", self.program.display());
        Ok(String::from_utf8(output.stdout)?)
    }
}
