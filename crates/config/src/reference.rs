//! `config.toml` as data: its documentation, the JSON Schema, and the comments that tests compare with the code.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toml::Table;

use super::{DEFAULT_TOML, check::SHARES, keys::INTEGER_LIMITS, reload::is_reloaded};

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
";

/// Where packages install the schema, for editors.
const SCHEMA_FILE: &str = "/usr/share/recapd/config.schema.json";

const CHOICES: &str = "One of ";

/// A key of `config.toml` and the comment before it, as one line.
pub(super) struct DocumentedKey {
    pub(super) section: String,
    pub(super) name: String,
    pub(super) comment: String,
}

impl DocumentedKey {
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The only values that the key accepts: those in backticks after [`CHOICES`]. `None` if there is no such list.
    pub(super) fn choices(&self) -> Option<Vec<&str>> {
        let (_, list) = self.comment.split_once(CHOICES)?;
        Some(list.split('`').skip(1).step_by(2).collect())
    }
}

/// The keys of `config.toml`, in its order.
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

/// `config.toml` with every key commented out, as a start for a file of one's own. The first line tells editors where the
/// schema is.
pub fn commented() -> String {
    let lines = DEFAULT_TOML.lines().map(|line| {
        let is_key = !line.is_empty() && !line.starts_with(['#', '[']);
        if is_key {
            format!("#{line}\n")
        } else {
            format!("{line}\n")
        }
    });
    std::iter::once(format!("#:schema {SCHEMA_FILE}\n"))
        .chain(lines)
        .collect()
}

/// The keys as a page of the documentation.
pub fn markdown() -> String {
    let (mut text, mut section) = (HEAD.to_owned(), String::new());
    let defaults: Table = toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml");
    for documented in documented() {
        let DocumentedKey {
            section: of,
            name,
            comment,
        } = &documented;
        if section != *of {
            write!(text, "\n## \\[{of}\\]\n\n| key | default | |\n|---|---|---|\n").ok();
            section.clone_from(of);
        }
        let mark = if is_reloaded(&documented.key()) {
            " ↻"
        } else {
            ""
        };
        let default = defaults.get(of).and_then(|keys| keys.get(name));
        let default = default.map(ToString::to_string).unwrap_or_default();
        let comment = comment.replace('|', "\\|");
        writeln!(text, "| `{name}`{mark} | `{default}` | {comment} |").ok();
    }
    text
}

/// The JSON Schema (2020-12) of a configuration file, for editors: every key with its description, type, default and
/// limits.
pub fn json_schema() -> Value {
    let defaults: Table = toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml");
    let mut sections: Map<String, Value> = Map::new();
    for documented in documented() {
        let default = defaults
            .get(&documented.section)
            .and_then(|section| section.get(&documented.name));
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
    if kind == "array" {
        property["items"] = json!({ "type": "string" });
    }
    property
}
