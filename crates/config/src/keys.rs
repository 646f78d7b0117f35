//! The known keys: their defaults, from which their types follow, and their limits.

use toml::{Table, Value};

use super::{DEFAULT_TOML, duration::DurationUnit, removed};
use recapd_core::domain::{
    spend::{CALLS_PER_DAY_MAX, TOKENS_PER_DAY_MAX},
    text,
};

/// An error suggests a name only if it is at least this similar, from 0 to 1.
const LIKENESS_MIN: f64 = 0.8;
/// An error shows at most this many characters of a wrong value.
const SHOWN_CHARS_MAX: usize = 40;

/// The limits of integer keys, inclusive. `config.toml` states the same limits; a test compares them.
pub(super) const INTEGER_LIMITS: &[(&str, i64, i64)] = &[
    ("database.connections", 2, 1_000),
    ("database.read_lag_ms_max", 0, 3_600_000),
    ("database.statement_timeout_ms", 100, 3_600_000),
    ("database.readers", 1, 64),
    ("database.busy_timeout_ms", 0, 600_000),
    ("window.budget_tokens", 0, 100_000_000),
    ("window.leg_tokens", -1, 100_000_000),
    ("window.max_messages", 0, 1_000_000),
    ("session.idle_gap_minutes", 0, 525_600),
    ("context.max_tokens", 1_000, 100_000_000),
    ("context.output_reserve_tokens", 0, 10_000_000),
    ("context.system_reserve_tokens", 0, 10_000_000),
    ("context.pins_max_tokens", 0, 1_000_000),
    ("summary.max_tokens", 100, 10_000),
    ("summary.session_hours", 1, 87_600),
    ("summary.yesterday_hours", 1, 87_600),
    ("summary.week_hours", 1, 87_600),
    ("queue.batch_exchanges", 1, 1_000),
    ("queue.batch_tokens_min", 0, 1_000_000),
    ("queue.max_wait_ms", 0, 86_400_000),
    ("queue.debounce_ms", 0, 3_600_000),
    ("queue.poll_ms", 10, 60_000),
    ("queue.lease_ms", 1_000, 3_600_000),
    ("queue.attempts_max", 1, 100),
    ("queue.crashes_max", 3, 100),
    ("queue.backoff_base_ms", 1, 3_600_000),
    ("queue.backoff_max_ms", 1, 86_400_000),
    ("queue.revive_after_ms", 0, 86_400_000),
    ("queue.reconcile_ms", 1_000, 86_400_000),
    ("worker.concurrency", 1, 256),
    ("worker.input_tokens_max", 1_000, 1_000_000),
    ("worker.batch_exchanges_max", 1, 1_000),
    ("worker.drain_ms", 0, 600_000),
    ("model.timeout_ms", 100, 3_600_000),
    ("model.output_tokens_max", 100, 1_000_000),
    ("model.thinking_reserve_tokens", 0, 1_000_000),
    ("model.num_ctx", 0, 10_000_000),
    ("model.concurrency", 1, 256),
    ("model.requests_per_minute", 0, 1_000_000),
    ("model.tokens_per_minute", 0, 1_000_000_000),
    ("model.breaker_failures", 0, 1_000),
    ("model.breaker_rest_ms", 10, 3_600_000),
    ("fallback.concurrency", 1, 256),
    ("fallback.requests_per_minute", 0, 1_000_000),
    ("fallback.tokens_per_minute", 0, 1_000_000_000),
    ("spend.calls_per_day", 0, CALLS_PER_DAY_MAX),
    ("spend.tokens_per_day", 0, TOKENS_PER_DAY_MAX),
    ("spend.agent_calls_per_day", 0, CALLS_PER_DAY_MAX),
    ("spend.agent_tokens_per_day", 0, TOKENS_PER_DAY_MAX),
    ("batch.gather_ms", 0, 86_400_000),
    ("batch.requests_max", 1, 1_000),
    ("batch.open_max", 1, 100),
    ("batch.max_wait_ms", 60_000, 172_800_000),
    ("schedule.runs_keep_days", 1, 36_500),
    ("schedule.versions_keep", 1, 100_000),
    ("schedule.sample_ms", 100, 120_000),
    ("recall.embeddings_dimensions", 0, 4_096),
    ("recall.embeddings_patience_ms", 10, 10_000),
    ("http.answers_bytes_max", 1_048_576, 68_719_476_736),
    ("http.body_bytes_max", 1_024, 1_073_741_824),
    ("http.request_timeout_ms", 100, 3_600_000),
    ("http.head_timeout_ms", 100, 3_600_000),
    ("http.idle_timeout_ms", 100, 3_600_000),
    ("http.connections_max", 1, 100_000),
    ("http.connections_per_peer_max", 1, 100_000),
    ("http.subscribers_max", 1, 10_000),
    ("http.requests_per_second", 0, 1_000_000),
    ("http.requests_burst", 1, 1_000_000),
    ("http.batch_messages_max", 1, 1_000_000),
    ("http.audit_rows_max", 0, 10_000_000),
    ("http.snapshot_bytes_max", 1_048_576, 68_719_476_736),
    ("proxy.body_bytes_max", 1_024, 1_073_741_824),
    ("proxy.copies_bytes_max", 1_048_576, 68_719_476_736),
    ("proxy.decide_ms", 1, 10_000),
    ("hook.max_chars", 500, 9_000),
    ("trace.gather_ms", 10, 60_000),
];

/// A value as its source has it: text from the environment or `--set`, or a TOML value from a file.
#[derive(Clone, Debug)]
pub(super) enum RawValue {
    Text(String),
    Toml(Value),
    /// A table, a date or a list that contains such values, by the name of its type. No key accepts it.
    Compound(&'static str),
}

pub(super) struct Keys(Table);

impl Keys {
    pub(super) fn new() -> Self {
        Self(toml::from_str(DEFAULT_TOML).expect("a test reads the embedded config.toml"))
    }

    pub(super) fn defaults(&self) -> &Table {
        &self.0
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|(section, keys)| {
            let keys = keys.as_table().into_iter().flat_map(Table::keys);
            keys.map(move |key| format!("{section}.{key}"))
        })
    }

    pub(super) fn is_section(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Reads `raw` with the type and the limits of `key`. The error says what was expected. `spell` writes the name of another
    /// key as its source would.
    pub(super) fn read(
        &self,
        key: &str,
        raw: &RawValue,
        spell: impl Fn(&str) -> String,
    ) -> Result<Value, String> {
        let default = find(&self.0, key).ok_or_else(|| self.unknown(key, spell))?;
        let value = match (default, raw) {
            (Value::Integer(_), RawValue::Toml(value @ Value::Integer(_)))
            | (Value::Float(_), RawValue::Toml(value @ Value::Float(_)))
            | (Value::Boolean(_), RawValue::Toml(value @ Value::Boolean(_)))
            | (Value::String(_), RawValue::Toml(value @ Value::String(_))) => Some(value.clone()),
            (Value::Array(_), RawValue::Toml(value)) => texts(value),
            (Value::Array(_), RawValue::Text(text)) => toml::from_str::<Table>(&format!("list = {text}"))
                .ok()
                .and_then(|table| texts(table.get("list")?)),
            #[expect(clippy::cast_precision_loss, reason = "a share is 0 or 1 when it is an integer")]
            (Value::Float(_), RawValue::Toml(Value::Integer(integer))) => Some(Value::Float(*integer as f64)),
            (Value::Integer(_), RawValue::Text(text)) => {
                let number = text.trim().replace('_', "").parse().ok();
                number.or_else(|| duration(key, text)).map(Value::Integer)
            }
            (Value::Integer(_), RawValue::Toml(Value::String(text))) => {
                duration(key, text).map(Value::Integer)
            }
            (Value::Float(_), RawValue::Text(text)) => text.trim().parse().ok().map(Value::Float),
            (Value::Boolean(_), RawValue::Text(text)) => text.trim().parse().ok().map(Value::Boolean),
            (Value::String(_), RawValue::Text(text)) => Some(Value::String(text.clone())),
            _ => None,
        };
        let value = value.ok_or_else(|| {
            let expected = DurationUnit::of(key).map(DurationUnit::expected);
            let expected = expected.unwrap_or_else(|| kind(default).to_owned());
            format!("{key} must be {expected}, not {}", display(raw))
        })?;
        match value.as_integer().and_then(|integer| beyond_limits(key, integer)) {
            Some(text) => Err(text),
            None => Ok(value),
        }
    }

    /// Returns the error for an unknown key. `spell` writes a suggestion as its source would.
    pub(super) fn unknown(&self, key: &str, spell: impl Fn(&str) -> String) -> String {
        if key.ends_with("api_key") {
            return format!(
                "{key} is not a key: a secret never stands in the configuration, use model.api_key_file or \
                 the provider's variable, such as OPENAI_API_KEY"
            );
        }
        if let Some(text) = removed::explained(key) {
            return text;
        }
        match self.nearest(key) {
            Some(name) => format!("unknown key {key}: did you mean {}?", spell(&name)),
            None => format!("unknown key {key}: `recapd config show` lists all keys"),
        }
    }

    pub(super) fn unknown_section(&self, section: &str) -> String {
        match most_alike(self.0.keys().cloned(), |name| strsim::jaro_winkler(name, section)) {
            Some(name) => format!("unknown section [{section}]: did you mean [{name}]?"),
            None => format!("unknown section [{section}]: `recapd config show` lists all keys"),
        }
    }

    /// Returns the known key that is most similar to `key`, by its whole name or, for a key in the wrong section, by its last
    /// part.
    fn nearest(&self, key: &str) -> Option<String> {
        most_alike(self.names(), |name| {
            let similarity = strsim::jaro_winkler(name, key);
            let last = strsim::jaro_winkler(last_part(name), last_part(key));
            // Two whole names may have only the section in common, which doesn't make the keys similar.
            if last < LIKENESS_MIN { 0.0 } else { f64::midpoint(similarity, last).max(last - 0.1) }
        })
    }
}

fn duration(key: &str, text: &str) -> Option<i64> {
    DurationUnit::of(key)?.read(text)
}

fn texts(value: &Value) -> Option<Value> {
    let is_text = |value: &Value| matches!(value, Value::String(_));
    value.as_array().filter(|values| values.iter().all(is_text)).map(|values| Value::Array(values.clone()))
}

/// Returns the error for an integer outside of the limits of `key`; `None` if the integer is within them.
pub(super) fn beyond_limits(key: &str, value: i64) -> Option<String> {
    let (_, min, max) = INTEGER_LIMITS.iter().find(|(name, ..)| *name == key)?;
    let is_beyond = value < *min || *max < value;
    is_beyond.then(|| format!("{key} must be from {min} to {max}, not {value}"))
}

fn most_alike(names: impl Iterator<Item = String>, likeness: impl Fn(&str) -> f64) -> Option<String> {
    names
        .map(|name| (likeness(&name), name))
        .filter(|(likeness, _)| LIKENESS_MIN <= *likeness)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

fn last_part(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, last)| last)
}

fn find<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let (section, key) = key.split_once('.')?;
    table.get(section)?.get(key)
}

/// Sets the key `section.key`.
pub(super) fn insert(table: &mut Table, key: &str, value: Value) {
    let Some((section, key)) = key.split_once('.') else {
        return;
    };
    if let Some(Value::Table(section)) = table.get_mut(section) {
        section.insert(key.to_owned(), value);
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list of texts such as `['ab+', 'c']`",
        _ => "a text",
    }
}

fn display(raw: &RawValue) -> String {
    match raw {
        RawValue::Text(text) | RawValue::Toml(Value::String(text)) => {
            format!("`{}`", text::cut(text, SHOWN_CHARS_MAX))
        }
        // The list may contain a secret.
        RawValue::Toml(Value::Array(_)) => "a list with other values".to_owned(),
        RawValue::Toml(value) => value.to_string(),
        RawValue::Compound(kind) => format!("a value of type {kind}"),
    }
}
