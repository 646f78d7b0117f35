//! Reads `config.toml` as data, for its documentation, the JSON Schema, and the tests that compare its comments with the code.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toml::Table;

use super::{
    DEFAULT_TOML,
    check::SHARES,
    duration::{self, DurationUnit},
    expert::EXPERT,
    keys::INTEGER_LIMITS,
    reload::is_reloaded,
};

/// The text above the tables of [`markdown`].
const HEAD: &str = "\
# The configuration

Made of `config.toml` by `recapd config default --markdown`; a test holds it to the program. `recapd config default` prints the
commented file itself, `recapd config schema` a JSON Schema for editors, `recapd config show --origin` what is in force and where
it comes from, and `recapd config check` what is wrong: the file, the line, the key, and the cure.

Each of these wins over those before it: the defaults, `window.preset`, the file (`--config`, else `/etc/recapd/config.toml` if there
is one), the environment (`RECAPD__WINDOW__BUDGET_TOKENS=50000`), `--set window.budget_tokens=50000`. Unknown keys and variables are
errors. There is no `${VARIABLE}` in the file; secrets come from files and credentials, by the keys that end in `_file`.

Keys marked with ↻ take effect when a running daemon reads its configuration again (`systemctl reload recapd`, or SIGHUP). The
others wait for a restart, and the log names them.

Keys in `_ms`, `_minutes`, `_hours` and `_days` also take a text with units: `\"90s\"`, `\"15m\"`, `\"1h30m\"`, `\"7d\"`.
`recapd init` writes the keys that people change. Those whose defaults nearly everybody keeps stand
[at the end](#for-experts).
";

/// The text above the table of the expert keys.
const EXPERT_HEAD: &str = "
## For experts

Limits, time limits and internals. Their defaults are measured, and nearly everybody keeps them.

| key | default | |
|---|---|---|
";

/// The keys that people change. `recapd init` writes them.
pub(super) const STARTING: [&str; 8] = [
    "database.url",
    "window.budget_tokens",
    "window.provider",
    "summary.time_zone",
    "model.mode",
    "model.model",
    "spend.usd_per_day",
    "http.listen",
];

/// The text above the [`STARTING`] keys.
const STARTING_HEAD: &str = "\
# What people change, with the defaults. `recapd config default` prints all other keys, and `recapd init --all` writes them.
# A key of a provider is never written here: put it into the provider's variable, such as ANTHROPIC_API_KEY, or into a file
# that model.api_key_file names. Durations are written as \"15m\", \"2h\" or \"7d\".
";

/// Where packages install the schema for editors.
const SCHEMA_FILE: &str = "/usr/share/recapd/config.schema.json";

/// The form of a duration as text.
const DURATION_PATTERN: &str = "^([0-9]+(ms|s|m|h|d))+$";

/// If a key accepts only certain values, its comment lists them after these words.
const CHOICES: &str = "One of ";

/// A key of `config.toml`, with the comment before it as one line.
pub(super) struct DocumentedKey {
    pub(super) section: String,
    pub(super) name: String,
    pub(super) comment: String,
}

impl DocumentedKey {
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// Returns the only values that the key accepts: those in backticks after [`CHOICES`]. Returns `None` if there is no such
    /// list.
    pub(super) fn choices(&self) -> Option<Vec<&str>> {
        let (_, list) = self.comment.split_once(CHOICES)?;
        Some(list.split('`').skip(1).step_by(2).collect())
    }
}

/// Returns the keys of `config.toml` in its order.
pub(super) fn documented() -> Vec<DocumentedKey> {
    let (mut section, mut comment, mut found) = (String::new(), Vec::new(), Vec::new());
    for line in DEFAULT_TOML.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
        } else if let Some((name, _)) = line.split_once(" = ") {
            found.push(DocumentedKey {
                section: section.clone(),
                name: name.to_owned(),
                comment: comment.join(" "),
            });
            comment.clear();
        } else {
            comment.clear();
        }
    }
    found
}

/// Returns the [`STARTING`] keys with their comments, commented out, as the start of a configuration file. The first line tells
/// editors where the schema is.
pub fn starting() -> String {
    let (mut text, mut section, mut comment) = (with_schema_line(STARTING_HEAD), "", String::new());
    let mut written_section = section;
    for line in DEFAULT_TOML.lines() {
        if line.starts_with('#') {
            comment.push_str(line);
            comment.push('\n');
            continue;
        }
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split_once(" = ").map_or("", |(name, _)| name);
        if STARTING.contains(&format!("{}.{name}", section.trim_matches(['[', ']'])).as_str()) {
            if written_section != section {
                text.extend(["\n", section, "\n"]);
                written_section = section;
            }
            text.extend([comment.as_str(), "#", line, "\n"]);
        }
        comment.clear();
    }
    text
}

/// Returns `config.toml` with every key commented out.
pub fn commented() -> String {
    let lines = DEFAULT_TOML.lines().map(|line| {
        let is_key = !line.is_empty() && !line.starts_with(['#', '[']);
        if is_key { format!("#{line}\n") } else { format!("{line}\n") }
    });
    with_schema_line(&lines.collect::<String>())
}

/// Puts the line that shows editors where the schema is above a text.
fn with_schema_line(text: &str) -> String {
    format!("#:schema {SCHEMA_FILE}\n{text}")
}

/// Returns the keys as a page of the documentation. The keys for experts come last.
pub fn markdown() -> String {
    let (mut text, mut section) = (HEAD.to_owned(), String::new());
    let defaults: Table = toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml");
    let (expert, ordinary): (Vec<DocumentedKey>, Vec<DocumentedKey>) =
        documented().into_iter().partition(|documented| EXPERT.contains(&documented.key().as_str()));
    for documented in &ordinary {
        if section != documented.section {
            write!(text, "\n## \\[{}\\]\n\n| key | default | |\n|---|---|---|\n", documented.section).ok();
            section.clone_from(&documented.section);
        }
        text.push_str(&row(documented, &documented.name, &defaults));
    }
    text.push_str(EXPERT_HEAD);
    text.extend(expert.iter().map(|documented| row(documented, &documented.key(), &defaults)));
    text
}

fn row(documented: &DocumentedKey, name: &str, defaults: &Table) -> String {
    let mark = if is_reloaded(&documented.key()) { " ↻" } else { "" };
    let default = defaults.get(&documented.section).and_then(|keys| keys.get(&documented.name));
    let default = default.map(|value| duration::toml_text(&documented.key(), value));
    let default = default.unwrap_or_default();
    let comment = documented.comment.replace('|', "\\|");
    format!("| `{name}`{mark} | `{default}` | {comment} |\n")
}

/// Returns the JSON Schema (2020-12) of a configuration file for editors: every key with its description, type, default and
/// limits.
pub fn json_schema() -> Value {
    let defaults: Table = toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml");
    let mut sections: Map<String, Value> = Map::new();
    for documented in documented() {
        let default = defaults.get(&documented.section).and_then(|section| section.get(&documented.name));
        let property = property(&documented, default.unwrap_or(&toml::Value::Boolean(false)));
        let section = sections
            .entry(documented.section.clone())
            .or_insert_with(|| json!({ "type": "object", "additionalProperties": false, "properties": {} }));
        section["properties"][documented.name] = property;
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "recapd's configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

fn property(documented: &DocumentedKey, default: &toml::Value) -> Value {
    let kind = match default {
        toml::Value::Integer(_) => "integer",
        toml::Value::Float(_) => "number",
        toml::Value::Boolean(_) => "boolean",
        toml::Value::Array(_) => "array",
        _ => "string",
    };
    let mut property = json!({ "description": documented.comment, "type": kind, "default": default });
    let key = documented.key();
    if let Some((_, min, max)) = INTEGER_LIMITS.iter().find(|(name, ..)| *name == key) {
        property["minimum"] = json!(min);
        property["maximum"] = json!(max);
    }
    if SHARES.contains(&key.as_str()) {
        property["exclusiveMinimum"] = json!(0);
        property["maximum"] = json!(1);
    }
    if let Some(choices) = documented.choices() {
        property["enum"] = json!(choices);
    }
    if DurationUnit::of(&key).is_some() {
        property["type"] = json!([kind, "string"]);
        property["pattern"] = json!(DURATION_PATTERN);
    }
    if kind == "array" {
        property["items"] = json!({ "type": "string" });
    }
    property
}
