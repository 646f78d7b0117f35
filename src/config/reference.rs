//! What `config.toml` says about its keys, for those who read it as data: the JSON Schema, and the tests that hold the
//! comments to the truth.

use serde_json::{Map, Value, json};
use toml::Table;

use super::{DEFAULT_TOML, check::SHARES, keys::INTEGER_LIMITS};

/// Where packages put the schema, for editors.
const SCHEMA_FILE: &str = "/usr/share/recapd/config.schema.json";

/// The words before the values that a key can have.
const CHOICES: &str = "One of ";

/// A key of `config.toml` and the comment before it, as one line.
pub(super) struct Documented {
    pub(super) section: String,
    pub(super) name: String,
    pub(super) comment: String,
}

impl Documented {
    /// `section.key`.
    pub(super) fn key(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// The values that it can have, if it can't have any other: those in backticks behind [`CHOICES`].
    pub(super) fn choices(&self) -> Option<Vec<&str>> {
        let (_, list) = self.comment.split_once(CHOICES)?;
        Some(list.split('`').skip(1).step_by(2).collect())
    }
}

/// The keys of `config.toml`, in its order.
pub(super) fn documented() -> Vec<Documented> {
    let (mut section, mut comment, mut found) = (String::new(), Vec::new(), Vec::new());
    for line in DEFAULT_TOML.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text.trim());
        } else if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut section);
        } else if let Some((name, _)) = line.split_once(" = ") {
            found.push(Documented {
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

/// `config.toml` with every key commented out: a file to begin with, which changes nothing. Its first line tells editors
/// where the schema is.
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

/// The JSON Schema (2020-12) of a configuration file, for editors: every key with its meaning, type, default and limits.
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

fn property(documented: &Documented, default: &toml::Value) -> Value {
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
