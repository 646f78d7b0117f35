//! Another queue: a program for Node that fills a database with jobs that do nothing, or works them off.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{LOT, WORKERS, server::Database};

/// How one peer is run.
pub(crate) struct Peer {
    /// Its program.
    pub(crate) program: PathBuf,
    /// `single` or `lots`.
    pub(crate) mode: &'static str,
}

/// What it prints after it has worked everything off.
#[derive(Deserialize)]
struct Drained {
    took_ms: f64,
    processor_ms: f64,
    completed: u32,
}

impl Peer {
    /// Makes its tables and `rows` jobs.
    pub(crate) fn fill(&self, database: &Database, rows: u32) -> anyhow::Result<()> {
        self.node("fill", database, rows).map(drop)
    }

    /// Works `rows` jobs off; how long that took, and the client's processor time.
    pub(crate) fn drain(&self, database: &Database, rows: u32) -> anyhow::Result<(Duration, Duration)> {
        let text = self.node("drain", database, rows)?;
        let drained: Drained = serde_json::from_str(&text).with_context(|| format!("it printed {text:?}"))?;
        anyhow::ensure!(
            drained.completed == rows,
            "{} of {rows} rows were completed",
            drained.completed
        );
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
        anyhow::ensure!(
            output.status.success(),
            "{} {step}: {errors}",
            self.program.display()
        );
        Ok(String::from_utf8(output.stdout)?)
    }
}
