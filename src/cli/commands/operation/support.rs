//! `recapd support`: gathers what the report of a problem needs, without conversations and secrets.

mod locations;
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
use locations::Locations;
use recapd_config::{Config, ConfigEntry, ConfigError, ConfigSource, Environment, LoadedConfig};
use recapd_core::domain::{diagnosis::Check, redaction::Redactor};
use recapd_platform::clock::{Clock as _, SystemClock};
use redacted::mask;

/// Keys whose values are left out, because they may name people or contain a token.
const WITHHELD_KEYS: [&str; 6] = [
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
        config: ConfigResult<'_>,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        let SupportAction::Bundle = self.action;
        let options = with_daemon(config, options);
        let bundle = open::block_on(async { Ok(bundle(config, &options, environment).await) })?;
        let redactor = redactor(config);
        output::json(&each_text(bundle, &|text| redactor.redact(text).into_owned()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Adds the daemon if one answers. A daemon that doesn't answer is no reason to fail: it may be the problem.
fn with_daemon(config: ConfigResult<'_>, options: &GlobalOptions) -> GlobalOptions {
    let mut options = options.clone();
    if let Ok(loaded) = config
        && !options.names_a_place()
    {
        options.server = api::find(&loaded.config.http, options.credentials.clone()).unwrap_or_default();
    }
    options
}

async fn bundle(config: ConfigResult<'_>, options: &GlobalOptions, environment: &Environment) -> Value {
    let server = options.server.as_ref().map(|server| server.base.as_str());
    let locations = Locations::new(config.ok().map(|loaded| &loaded.config), server, environment);
    let checks = json!(checks(config, options, environment).await);
    let status = value_or_error(figures(config, options).await, &locations);
    let metrics = value_or_error(metrics(options).await, &locations);
    json!({
        "taken_at": SystemClock.now(),
        "version": version::facts(),
        "platform": { "os": OS, "arch": ARCH },
        "config": configuration(config, &locations),
        "checks": each_text(checks, &|text| locations.mask(text)),
        "status": status,
        "metrics": metrics,
    })
}

fn value_or_error(result: Result<Value, CommandFailure>, locations: &Locations) -> Value {
    result.unwrap_or_else(|failure| json!({ "error": locations.mask(&failure.text()) }))
}

async fn checks(config: ConfigResult<'_>, options: &GlobalOptions, environment: &Environment) -> Vec<Check> {
    match config {
        Ok(loaded) => doctor::offline(&loaded.config, options, environment).await,
        Err(_) => doctor::without_configuration(options, environment).await,
    }
}

/// Reads what `recapd status` shows. Asks a daemon that `--server` names even if the configuration is invalid.
async fn figures(config: ConfigResult<'_>, options: &GlobalOptions) -> Result<Value, CommandFailure> {
    let config = match config {
        Ok(loaded) => loaded.config.clone(),
        Err(_) if options.server.is_some() => Config::default(),
        Err(_) => {
            let why = anyhow::anyhow!("the configuration is invalid");
            return Err(CommandFailure::new(CONFIGURATION, why));
        }
    };
    status::day(&config, options).await
}

/// Reads the metrics of a daemon; null if none runs.
async fn metrics(options: &GlobalOptions) -> Result<Value, CommandFailure> {
    let Some(server) = &options.server else {
        return Ok(Value::Null);
    };
    let text = Api::new(server)?.get("/metrics", "text/plain").await?;
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    Ok(json!(series))
}

/// Lists the settings that aren't defaults, or what is wrong with the configuration.
fn configuration(config: ConfigResult<'_>, locations: &Locations) -> Value {
    let loaded = match config {
        Ok(loaded) => loaded,
        Err(error) => return json!({ "error": problems(error, locations) }),
    };
    let mut entries = loaded.entries();
    entries.retain(|entry| entry.origin != ConfigSource::Default);
    let entry_json = |entry: &ConfigEntry| {
        let (value, origin) = (value(entry, locations), origin(&entry.origin));
        json!({ "key": entry.key, "value": value, "origin": origin })
    };
    entries.iter().map(entry_json).collect()
}

fn value(entry: &ConfigEntry, locations: &Locations) -> String {
    if WITHHELD_KEYS.contains(&entry.key.as_str()) {
        return "(kept back)".to_owned();
    }
    match locations.masked_setting(&entry.key) {
        Some(mask) => format!("\"{mask}\""),
        None => locations.mask(&entry.value),
    }
}

fn origin(origin: &ConfigSource) -> String {
    match origin {
        ConfigSource::File { path, line } => format!("{}:{line}", mask(&path.to_string_lossy())),
        origin => origin.to_string(),
    }
}

/// Formats what is wrong with a configuration. Leaves out the values, because one may be a secret in the wrong place.
fn problems(error: &ConfigError, locations: &Locations) -> String {
    match error {
        ConfigError::Unreadable { path, reason } => format!("{}: {reason}", mask(&path.to_string_lossy())),
        ConfigError::Invalid(problems) => {
            let lines = problems.iter().map(|problem| {
                let what = locations.mask(&problem.without_values());
                format!("{}: {what}", origin(&problem.origin))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns a redactor for secrets, even if summaries don't redact them. Without a configuration, it only knows the
/// built-in patterns.
fn redactor(config: ConfigResult<'_>) -> Redactor {
    match config {
        Ok(loaded) => loaded.config.summary.redact_patterns.redactor().clone(),
        Err(_) => Redactor::standard(),
    }
}

/// Applies `change` to each text in a value.
fn each_text(value: Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(values) => values.into_iter().map(|value| each_text(value, change)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, each_text(value, change))).collect()
        }
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
    fn every_text_setting_is_listed_as_shown_withheld_or_a_location() {
        let locations = locations::settings(&Config::default()).map(|(key, _)| key);
        let decided = [&locations[..], &WITHHELD_KEYS, &SHOWN].concat();
        let keys = text_keys();
        for key in &keys {
            assert!(decided.contains(&key.as_str()), "{key}: may its value be shown?");
        }
        assert!(keys.contains(&"model.base_url".to_owned()), "{keys:?}");
    }
}
