//! `recapd support`: what whoever helps has to know, without anything that was said.

use std::{
    env::consts::{ARCH, OS},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    Shared, config_file, doctor,
    exit::Failed,
    open, output,
    remote::{self, Remote},
    status, version,
};
use crate::{
    clock::{Clock as _, SystemClock},
    config::{Config, Environment, Loaded, Origin},
    domain::redaction::Redactor,
};

/// Keys whose values may tell of others than recapd, or hold a token of theirs.
const KEPT_BACK: [&str; 5] = [
    "perspective.human_tag",
    "perspective.participants",
    "summary.redact_patterns",
    "trace.attributes",
    "trace.otlp_url",
];

#[derive(Debug, Args)]
#[command(after_help = "\
A bundle is one JSON document: the version, what in the configuration isn't a default, the checks of `recapd doctor` that ask no
provider, the figures of `recapd status`, and /metrics of a daemon that runs. What was said isn't in it, nor is any agent's name or
a key; paths and addresses are. It is sent nowhere: read it, and pass it on yourself. Example:
  recapd support bundle > support.json")]
pub(super) struct Support {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Print what belongs to a report of a problem. What can't be had says why in its place
    Bundle,
}

impl Support {
    pub(super) fn run(
        self,
        loaded: &Loaded,
        shared: &Shared,
        environment: &Environment,
    ) -> Result<ExitCode, Failed> {
        let Action::Bundle = self.action;
        let shared = at_the_daemon(loaded, shared);
        let found = open::block_on(async { Ok(bundle(loaded, &shared, environment).await) })?;
        output::json(&redacted(found, &redactor(&loaded.config)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// With the daemon, if one answers. One that doesn't is no reason to tell nothing: it is what needs help.
fn at_the_daemon(loaded: &Loaded, shared: &Shared) -> Shared {
    let mut shared = shared.clone();
    if !shared.names_a_place() {
        shared.server = remote::find(&loaded.config.http, shared.token.clone()).unwrap_or_default();
    }
    shared
}

async fn bundle(loaded: &Loaded, shared: &Shared, environment: &Environment) -> Value {
    let config = &loaded.config;
    let checks = doctor::offline(config, shared, environment).await;
    let status = or_why_not(status::day(config, shared).await);
    let metrics = or_why_not(metrics(shared).await);
    json!({
        "taken_at": SystemClock.now(),
        "version": version::facts(),
        "platform": { "os": OS, "arch": ARCH },
        "config": changed(loaded),
        "checks": checks,
        "status": status,
        "metrics": metrics,
    })
}

fn or_why_not(found: Result<Value, Failed>) -> Value {
    found.unwrap_or_else(|failed| json!({ "error": failed.text() }))
}

/// The series of a daemon; nothing where none runs.
async fn metrics(shared: &Shared) -> Result<Value, Failed> {
    let Some(server) = &shared.server else {
        return Ok(Value::Null);
    };
    let text = Remote::new(server)?.get("/metrics", "text/plain").await?;
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    Ok(json!(series))
}

/// What in the configuration isn't a default.
fn changed(loaded: &Loaded) -> Vec<Value> {
    let mut entries = loaded.entries();
    entries.retain(|entry| entry.origin != Origin::Default);
    for entry in &mut entries {
        if KEPT_BACK.contains(&entry.key.as_str()) {
            "(kept back)".clone_into(&mut entry.value);
        }
    }
    entries.iter().map(config_file::entry_json).collect()
}

/// Finds secrets whether summaries keep them or not: a path or an address may hold one.
fn redactor(config: &Config) -> Redactor {
    let own = Redactor::standard().with_patterns(&config.summary.redact_patterns);
    own.unwrap_or_else(|_| Redactor::standard())
}

/// The value without the secrets in its texts.
fn redacted(value: Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => Value::String(redactor.redact(&text).into_owned()),
        Value::Array(values) => values
            .into_iter()
            .map(|value| redacted(value, redactor))
            .collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, redacted(value, redactor)))
            .collect(),
        other => other,
    }
}
