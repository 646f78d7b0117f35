//! `recapd config`: shows all settings, the settings in force, and what is wrong with them.

use std::{path::Path, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::{GlobalOptions, exit::CommandFailure, terminal::output};
use recapd_api::access::file;
use recapd_config::{
    self as config, Config, ConfigEntry, ConfigSource, DEFAULT_TOML, Environment, LoadedConfig,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Sources, each overriding those before it: the defaults, the preset, the file, the environment, --set. Examples:
  recapd config check --config /etc/recapd/config.toml
  recapd config check --without-keys                if only the service can read keys, as with systemd credentials
  recapd config show --changed --origin
  recapd config default | less                   `recapd init` writes a file to start with
  recapd config schema > config.schema.json      for an editor that completes and checks TOML

Exit codes: 0 fine, 78 something is wrong; each problem is printed with its file, line and key.")]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Check the configuration, and that the keys, tokens and headers it refers to can be read
    Check {
        /// Print nothing if nothing is wrong
        #[arg(short, long)]
        quiet: bool,
        /// Don't read keys, tokens and headers; only the service may be able to read them
        #[arg(long)]
        without_keys: bool,
    },
    /// Print all keys with the values in force, as TOML
    Show {
        /// Print where each value comes from
        #[arg(long)]
        origin: bool,
        /// Print only what isn't a default
        #[arg(long)]
        changed: bool,
    },
    /// Print the commented reference: every key, its meaning, its limits, its default
    Default {
        /// Print the documentation page
        #[arg(long)]
        markdown: bool,
    },
    /// Print the JSON Schema of a configuration file
    Schema,
}

impl ConfigCommand {
    /// Runs the command. The configuration has already been read and checked, and errors were reported.
    pub(crate) fn run(
        self,
        loaded: &LoadedConfig,
        options: &GlobalOptions,
        environment: &Environment,
    ) -> Result<ExitCode, CommandFailure> {
        match self.action {
            ConfigAction::Check { quiet, without_keys } => {
                if !without_keys {
                    find_secrets(&loaded.config, environment)?;
                }
                if !quiet {
                    check(loaded, options)?;
                }
            }
            ConfigAction::Show { origin, changed } => {
                let mut entries = loaded.entries();
                entries.retain(|entry| !changed || entry.origin != ConfigSource::Default);
                if options.json {
                    output::json(&json!(entries.iter().map(entry_json).collect::<Vec<Value>>()))?;
                } else {
                    output::text(&toml(&entries, origin))?;
                }
            }
            ConfigAction::Default { markdown: true } => output::text(&config::markdown())?,
            ConfigAction::Default { markdown: false } => output::text(DEFAULT_TOML)?,
            ConfigAction::Schema => output::json(&config::json_schema())?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads the secrets that a start of the daemon needs. Whether the service can read them shows only in its own
/// environment.
fn find_secrets(config: &Config, environment: &Environment) -> Result<(), CommandFailure> {
    config::api_key(&config.model, environment)?;
    config::fallback_api_key(&config.fallback, &config.model, environment)?;
    config::embeddings_api_key(&config.recall, environment)?;
    // Invalid variables for traces don't prevent a start.
    if let Ok(Some(trace)) = config.trace.in_force(environment) {
        trace.headers(environment)?;
    }
    let tokens = &config.http.tokens_file;
    if !tokens.is_empty() {
        file::read(Path::new(tokens)).map_err(|error| CommandFailure::tokens_file(&error))?;
    }
    Ok(())
}

fn check(loaded: &LoadedConfig, options: &GlobalOptions) -> std::io::Result<()> {
    let entries = loaded.entries();
    let changed = entries.iter().filter(|entry| entry.origin != ConfigSource::Default).count();
    if options.json {
        return output::json(&json!({ "ok": true, "keys": entries.len(), "changed": changed }));
    }
    output::text(&format!("the configuration is fine: {} keys, {changed} of them changed", entries.len()))
}

fn entry_json(entry: &ConfigEntry) -> Value {
    json!({ "key": entry.key, "value": entry.value, "origin": entry.origin.to_string() })
}

/// Formats the entries as TOML. The result is a valid configuration file.
fn toml(entries: &[ConfigEntry], origin: bool) -> String {
    let parts = |entry: &ConfigEntry| {
        let (section, name) = entry.key.split_once('.').unwrap_or(("", &entry.key));
        (section.to_owned(), format!("{name} = {}", entry.value))
    };
    let width = entries.iter().map(|entry| parts(entry).1.chars().count()).max();
    let width = width.unwrap_or_default().min(COLUMN_CHARS_MAX);
    let sections = entries.chunk_by(|one, next| parts(one).0 == parts(next).0);
    let texts: Vec<String> = sections
        .map(|section| {
            let lines = section.iter().map(|entry| match (origin, parts(entry).1) {
                (true, line) => format!("{line:width$}  # {}\n", entry.origin),
                (false, line) => format!("{line}\n"),
            });
            let name = section.first().map(|entry| parts(entry).0).unwrap_or_default();
            format!("[{name}]\n{}", lines.collect::<String>())
        })
        .collect();
    if texts.is_empty() {
        return "# nothing differs from the defaults".to_owned();
    }
    texts.join("\n")
}

/// The widest column of values. The origin of a longer value stands further right, and the others stay in their column.
const COLUMN_CHARS_MAX: usize = 60;
