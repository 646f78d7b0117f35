//! Accepts an alternative spelling: `model.mode = "batch"` means `model.batch = true`, with the provider that the model's name
//! suggests, unless another source sets the provider.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{
    ModelMode,
    error::ConfigSource,
    file::Setting,
    keys::{RawValue, insert},
};

const MODE: &str = "model.mode";
const BATCH: &str = "model.batch";

/// Translates `model.mode = "batch"` to `model.batch = true`. Other settings stay as they are.
pub(super) fn translate(setting: Setting) -> Setting {
    let is_batch = match &setting.raw {
        RawValue::Text(text) | RawValue::Toml(Value::String(text)) => text == "batch",
        _ => false,
    };
    if setting.key != MODE || !is_batch {
        return setting;
    }
    Setting { key: BATCH.to_owned(), raw: RawValue::Toml(Value::Boolean(true)), ..setting }
}

/// Sets the provider of a batch model if no source sets it.
pub(super) fn complete(table: &mut Table, origins: &mut BTreeMap<String, ConfigSource>) {
    let model = table.get("model").and_then(Value::as_table);
    let model = |key: &str| model.and_then(|model| model.get(key));
    let is_batch = model("batch").and_then(Value::as_bool) == Some(true);
    let name = model("model").and_then(Value::as_str).unwrap_or_default();
    let mode = if name.starts_with("claude") {
        ModelMode::Anthropic
    } else if name.starts_with("gemini") {
        ModelMode::Gemini
    } else if name.starts_with("gpt") {
        ModelMode::OpenAi
    } else {
        return;
    };
    let Some(origin) = origins.get(BATCH).cloned() else {
        return;
    };
    if is_batch && !origins.contains_key(MODE) {
        insert(table, MODE, Value::String(mode.word().to_owned()));
        origins.insert(MODE.to_owned(), origin);
    }
}
