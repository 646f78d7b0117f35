//! Reads and writes the lines of a journal.

use std::{borrow::Cow, ops::RangeInclusive};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{Head, JOURNAL_VERSION, MessageRecord};
use crate::domain::{agent::AgentId, message::Format, time::Timestamp};

/// A line of a journal.
#[derive(Clone, Debug)]
pub enum JournalLine {
    /// The line before an agent's messages.
    Head(Box<Head>),
    /// A message.
    Message(MessageRecord),
}

/// Why a line isn't valid.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It isn't JSON, or a field is missing.
    #[error("no line of a journal: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A newer recapd wrote it.
    #[error(
        "written by a newer recapd, in version {0} of the journal; this recapd reads version {JOURNAL_VERSION}, use the newer one"
    )]
    TooNew(u32),
    /// A message has no payload.
    #[error("no line of a journal: message {0} has no payload")]
    NoPayload(i64),
    /// A number is out of range; sums could overflow.
    #[error(
        "no line of a journal: `{field}` is {found}, and recapd counts from {} to {}; export the agent again",
        range(.field).start(),
        range(.field).end()
    )]
    Number {
        /// The field's path: `evictions.3.tokens`.
        field: String,
        /// The value found.
        found: i64,
    },
}

/// Limits the numbers of messages, exchanges and the like. Every JSON reader keeps such numbers exactly (RFC 8259, 6).
const NUMBER_MAX: i64 = (1 << 53) - 1;
/// Limits the tokens of one object: no history has more, and eight million such numbers can still be added up.
const TOKENS_MAX: i64 = 1 << 40;

fn range(field: &str) -> RangeInclusive<i64> {
    let name = field.rsplit('.').next().unwrap_or_default();
    if name.contains("tokens") { 0..=TOKENS_MAX } else { -NUMBER_MAX..=NUMBER_MAX }
}

fn check_range(field: &str, found: i64) -> Result<(), LineError> {
    if range(field).contains(&found) {
        return Ok(());
    }
    let field = field.to_owned();
    Err(LineError::Number { field, found })
}

/// Checks every number in `value`. Times may be any number, and settings have limits of their own.
fn check_numbers(path: &str, value: &Value) -> Result<(), LineError> {
    let join = |name: &str| {
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    };
    match value {
        Value::Number(number) => number.as_i64().map_or(Ok(()), |found| check_range(path, found)),
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(index, value)| check_numbers(&join(&index.to_string()), value))
        }
        Value::Object(members) => {
            let is_checked = |name: &str| !(name.ends_with("_at") || ["as_of", "settings"].contains(&name));
            let mut members = members.iter().filter(|(name, _)| is_checked(name));
            members.try_for_each(|(name, value)| check_numbers(&join(name), value))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Distinguishes a head from a message: only a head has this field.
#[derive(Deserialize)]
struct Probe {
    journal: Option<u32>,
}

/// The line of a message. A payload that isn't a single line of JSON goes into `payload_text` as a string.
#[derive(Serialize, Deserialize)]
struct WireMessage<'a> {
    agent_id: Cow<'a, AgentId>,
    seq: i64,
    exchange: i64,
    session: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begins_leg: bool,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    format: Format,
    tokens: i64,
    #[serde(borrow)]
    count_method: Cow<'a, str>,
    #[serde(borrow)]
    client_id: Option<Cow<'a, str>>,
    #[serde(with = "time")]
    said_at: Timestamp,
    #[serde(with = "time")]
    received_at: Timestamp,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    payload_text: Option<Cow<'a, str>>,
}

impl JournalLine {
    /// Parses a line.
    ///
    /// # Errors
    /// [`LineError`] if the line isn't valid.
    pub fn parse(line: &str) -> Result<Self, LineError> {
        match serde_json::from_str::<Probe>(line)?.journal {
            Some(version) if version > JOURNAL_VERSION => Err(LineError::TooNew(version)),
            Some(_) => {
                check_numbers("", &serde_json::from_str(line)?)?;
                Ok(Self::Head(serde_json::from_str(line)?))
            }
            None => Ok(Self::Message(MessageRecord::parse(line)?)),
        }
    }
}

impl Head {
    /// Writes the line, without a line feed.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("numbers, strings and JSON can all be written as JSON")
    }
}

impl MessageRecord {
    /// Writes the line, without a line feed.
    pub fn line(&self) -> String {
        let payload = one_line_json(&self.payload);
        let wire = WireMessage {
            agent_id: Cow::Borrowed(&self.agent_id),
            seq: self.seq,
            exchange: self.exchange,
            session: self.session,
            begins_leg: self.begins_leg,
            kind: Cow::Borrowed(&self.kind),
            format: self.format,
            tokens: self.tokens,
            count_method: Cow::Borrowed(&self.count_method),
            client_id: self.client_id.as_deref().map(Cow::Borrowed),
            said_at: self.said_at,
            received_at: self.received_at,
            payload,
            payload_text: payload.is_none().then_some(Cow::Borrowed(&self.payload)),
        };
        serde_json::to_string(&wire).expect("numbers, strings and JSON can all be written as JSON")
    }

    fn parse(line: &str) -> Result<Self, LineError> {
        let wire: WireMessage<'_> = serde_json::from_str(line)?;
        for (field, found) in [
            ("seq", wire.seq),
            ("exchange", wire.exchange),
            ("session", wire.session),
            ("tokens", wire.tokens),
        ] {
            check_range(field, found)?;
        }
        let payload = match (wire.payload, wire.payload_text) {
            (Some(json), _) => json.get().to_owned(),
            (None, Some(text)) => text.into_owned(),
            (None, None) => return Err(LineError::NoPayload(wire.seq)),
        };
        Ok(Self {
            agent_id: wire.agent_id.into_owned(),
            seq: wire.seq,
            exchange: wire.exchange,
            session: wire.session,
            begins_leg: wire.begins_leg,
            kind: wire.kind.into_owned(),
            format: wire.format,
            tokens: wire.tokens,
            count_method: wire.count_method.into_owned(),
            client_id: wire.client_id.map(Cow::into_owned),
            said_at: wire.said_at,
            received_at: wire.received_at,
            payload,
        })
    }
}

/// Returns `payload` as JSON if it fits into a line byte for byte.
fn one_line_json(payload: &str) -> Option<&RawValue> {
    if payload.contains(['\n', '\r']) {
        return None;
    }
    let json: &RawValue = serde_json::from_str(payload).ok()?;
    // `null` would be read as no payload, and white space around a value isn't part of it.
    (json.get().len() == payload.len() && payload != "null").then_some(json)
}

/// Writes a time as RFC 3339 if that is exact, else in milliseconds: a client's clock may show any year.
pub(super) mod time {
    use serde::{Deserialize, Deserializer, Serialize as _, Serializer, de::Error as _};

    use crate::domain::time::Timestamp;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TimeForm {
        Ms(i64),
        Text(String),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        let text = time.to_string();
        if Timestamp::parse(&text) == Some(*time) { text.serialize(to) } else { time.0.serialize(to) }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        match TimeForm::deserialize(from)? {
            TimeForm::Ms(time_ms) => Ok(Timestamp(time_ms)),
            TimeForm::Text(text) => Timestamp::parse(&text)
                .ok_or_else(|| D::Error::custom(format!("`{text}` is not an RFC 3339 time"))),
        }
    }
}

pub(super) mod optional_time {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::domain::time::Timestamp;

    #[derive(Serialize, Deserialize)]
    struct Exact(#[serde(with = "super::time")] Timestamp);

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(crate) fn serialize<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
        time.map(Exact).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
        Ok(Option::<Exact>::deserialize(from)?.map(|exact| exact.0))
    }
}
