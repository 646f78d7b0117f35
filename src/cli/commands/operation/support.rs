//! `recapd support`: gathers what the report of a problem needs, without conversations and secrets.

mod places;
mod redacted;

use std::{
    env::consts::{ARCH, OS},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{doctor, status};
use crate::cli::{
    GlobalOptions,
    backend::{
        api::{self, Api},
        open,
    },
    commands::setup::version,
    exit::{CONFIGURATION, CommandFailure},
    terminal::output,
};
use places::Places;
use recapd_config::{Config, ConfigEntry, ConfigError, ConfigSource, Environment, LoadedConfig};
use recapd_core::domain::{diagnosis::Check, redaction::Redactor};
use recapd_platform::clock::{Clock as _, SystemClock};
use redacted::outline;

/// Keys whose values are left out, because they may name people or contain a token.
const KEPT_BACK: [&str; 6] = [
    "perspective.human_tag",
    "perspective.participants",
    "proxy.upstreams",
    "summary.redact_patterns",
    "trace.attributes",
    "trace.otlp_url",
];

/// The configuration, or the reason why it is invalid.
type ConfigResult<'a> = Result<&'a LoadedConfig, &'a ConfigError>;

#[derive(Debug, Args)]
#[command(after_help = "\
A bundle is one JSON document: the version, settings that aren't defaults, the checks of `recapd doctor` that call no provider,
the figures of `recapd status`, and /metrics of a running daemon. It contains no messages, agents' names or keys. Of an address it has
only scheme, host and port; of a path only the first folder. If the configuration is invalid, the bundle says why, without values, and
has the parts that need no configuration; then name the daemon with --server. It is sent nowhere: read it, and pass it on yourself.
Example:
  recapd support bundle > support.json")]
pub(crate) struct Support {
    #[command(subcommand)]
    action: SupportAction,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum SupportAction {
    /// Print what belongs into the report of a problem; parts that are unavailable say why
    Bundle,
}

impl Support {
    pub(crate) fn run(
        &self,
        read: ConfigResult<'_>,
        shared: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let SupportAction::Bundle = self.action;
        let shared = at_the_daemon(read, shared);
        let found = open::block_on(async { Ok(bundle(read, &shared, environment).await) })?;
        let redactor = redactor(read);
        output::json(&each_text(found, &|text| redactor.redact(text).into_owned()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds the daemon if one answers. A daemon that doesn't answer is no reason to fail: it may be the problem.
fn at_the_daemon(read: ConfigResult<'_>, shared: &GlobalOptions) -> GlobalOptions {
    let mut shared = shared.clone();
    if let Ok(loaded) = read
        && !shared.names_a_place()
    {
        shared.server = api::find(&loaded.config.http, shared.credentials.clone()).unwrap_or_default();
    }
    shared
}

async fn bundle(read: ConfigResult<'_>, shared: &GlobalOptions, environment: &Environment) -> Value {
    let server = shared.server.as_ref().map(|server| server.base.as_str());
    let places = Places::new(read.ok().map(|loaded| &loaded.config), server, environment);
    let checks = json!(checks(read, shared, environment).await);
    let status = or_why_not(figures(read, shared).await, &places);
    let metrics = or_why_not(metrics(shared).await, &places);
    json!({
        "taken_at": SystemClock.now(),
        "version": version::facts(),
        "platform": { "os": OS, "arch": ARCH },
        "config": configuration(read, &places),
        "checks": each_text(checks, &|text| places.outlined(text)),
        "status": status,
        "metrics": metrics,
    })
}

fn or_why_not(found: Result<Value, CommandFailure>, places: &Places) -> Value {
    found.unwrap_or_else(|failed| json!({ "error": places.outlined(&failed.text()) }))
}

async fn checks(read: ConfigResult<'_>, shared: &GlobalOptions, environment: &Environment) -> Vec<Check> {
    match read {
        Ok(loaded) => doctor::offline(&loaded.config, shared, environment).await,
        Err(_) => doctor::without_configuration(shared, environment).await,
    }
}

/// Reads what `recapd status` shows. Asks a daemon that `--server` names even if the configuration is invalid.
async fn figures(read: ConfigResult<'_>, shared: &GlobalOptions) -> Result<Value, CommandFailure> {
    let config = match read {
        Ok(loaded) => loaded.config.clone(),
        Err(_) if shared.server.is_some() => Config::default(),
        Err(_) => {
            let why = anyhow::anyhow!("the configuration is invalid");
            return Err(CommandFailure::new(CONFIGURATION, why));
        }
    };
    status::day(&config, shared).await
}

/// Reads the metrics of a daemon; null if none runs.
async fn metrics(shared: &GlobalOptions) -> Result<Value, CommandFailure> {
    let Some(server) = &shared.server else {
        return Ok(Value::Null);
    };
    let text = Api::new(server)?.get("/metrics", "text/plain").await?;
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    Ok(json!(series))
}

/// Lists the settings that aren't defaults, or what is wrong with the configuration.
fn configuration(read: ConfigResult<'_>, places: &Places) -> Value {
    let loaded = match read {
        Ok(loaded) => loaded,
        Err(error) => return json!({ "error": problems(error, places) }),
    };
    let mut entries = loaded.entries();
    entries.retain(|entry| entry.origin != ConfigSource::Default);
    let setting = |entry: &ConfigEntry| {
        let (value, origin) = (value(entry, places), origin(&entry.origin));
        json!({ "key": entry.key, "value": value, "origin": origin })
    };
    entries.iter().map(setting).collect()
}

fn value(entry: &ConfigEntry, places: &Places) -> String {
    if KEPT_BACK.contains(&entry.key.as_str()) {
        return "(kept back)".to_owned();
    }
    match places.setting(&entry.key) {
        Some(outline) => format!("\"{outline}\""),
        None => places.outlined(&entry.value),
    }
}

fn origin(origin: &ConfigSource) -> String {
    match origin {
        ConfigSource::File { path, line } => format!("{}:{line}", outline(&path.to_string_lossy())),
        origin => origin.to_string(),
    }
}

/// Says what is wrong with a configuration. Leaves out the values, because one may be a secret in the wrong place.
fn problems(error: &ConfigError, places: &Places) -> String {
    match error {
        ConfigError::Unreadable { path, reason } => format!("{}: {reason}", outline(&path.to_string_lossy())),
        ConfigError::Invalid(problems) => {
            let lines = problems.iter().map(|problem| {
                let what = places.outlined(&problem.without_values());
                format!("{}: {what}", origin(&problem.origin))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns a redactor for secrets, even if summaries don't redact them. Without a configuration, it only knows the
/// built-in patterns.
fn redactor(read: ConfigResult<'_>) -> Redactor {
    match read {
        Ok(loaded) => loaded.config.summary.redact_patterns.redactor().clone(),
        Err(_) => Redactor::standard(),
    }
}

/// Applies `change` to each text in a value.
fn each_text(value: Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(values) => values.into_iter().map(|value| each_text(value, change)).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, each_text(value, change)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_config as config;

    /// Keys whose texts are shown as they are: names of models and of this daemon, hosts, times, numbers.
    const SHOWN: [&str; 14] = [
        "convergence.weights",
        "fallback.model",
        "http.allowed_hosts",
        "http.socket_mode",
        "http.trusted_proxies",
        "model.model",
        "queue.owner",
        "recall.embeddings_model",
        "schedule.ageing",
        "schedule.prune",
        "summary.time_zone",
        "trace.service_name",
        "window.model",
        "window.provider",
    ];

    /// The keys whose values are free text.
    fn text_keys() -> Vec<String> {
        let schema = config::json_schema();
        let sections = schema["properties"].as_object().unwrap().iter();
        let keys = sections.flat_map(|(section, keys)| {
            let keys = keys["properties"].as_object().unwrap().iter();
            keys.map(move |(key, property)| (format!("{section}.{key}"), property))
        });
        let texts = keys.filter(|(_, property)| {
            let is_text = property["type"] == "string" && property["enum"].is_null();
            is_text || property["type"] == "array"
        });
        texts.map(|(key, _)| key).collect()
    }

    #[test]
    fn every_text_setting_is_listed_as_shown_kept_back_or_a_place() {
        let places = places::settings(&Config::default()).map(|(key, _)| key);
        let decided = [&places[..], &KEPT_BACK, &SHOWN].concat();
        let keys = text_keys();
        for key in &keys {
            assert!(decided.contains(&key.as_str()), "{key}: may its value be shown?");
        }
        assert!(keys.contains(&"model.base_url".to_owned()), "{keys:?}");
    }
}
