//! Counts the tokens of a request's body, as it is sent to the provider: those that the model sees, and those that the provider adds.
//!
//! The body decides the request's shape; provider and model decide the tokenizer. So a request to Claude in OpenAI's shape is counted with
//! Claude's tokenizer. If the provider or the shape is unknown, or the JSON is broken, the count comes from the number of bytes.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    BytesCounter, counter_for, image,
    overhead::{PER_MESSAGE_TOKENS, PER_NAME_TOKENS, PRIMING_TOKENS},
    vendor::Vendor,
};
use crate::domain::{
    attachment::Extent,
    thought::{Seal, Sealer, Thought},
    tokens::{TOOL_CALL_OVERHEAD_TOKENS, TokenCounter, count_opaque, count_thought},
};

/// The tokens of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestCount {
    /// The sum of `parts`.
    pub tokens: i64,
    /// The counter's method, such as `o200k`, `o200k*claude` or `bytes/3`.
    pub method: String,
    /// The tokens of each part.
    pub parts: RequestParts,
}

/// The tokens of a request, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestParts {
    /// Instructions, wherever they stand.
    pub system: i64,
    /// Definitions of tools and of the answer's schema, and what the provider adds to them.
    pub tools: i64,
    /// Messages of users, models and tools; the whole request if its shape is unknown.
    pub messages: i64,
    /// Roles, separators, and the tokens that tell the model to answer.
    pub overhead: i64,
}

impl RequestParts {
    fn total(&self) -> i64 {
        self.system.saturating_add(self.tools).saturating_add(self.messages).saturating_add(self.overhead)
    }
}

/// Counts the tokens of `body`, a request to `provider` for `model`. Never fails: if the request can't be parsed, the count comes from
/// the number of bytes.
pub fn count_request(provider: &str, model: &str, body: &[u8]) -> RequestCount {
    let parsed = Vendor::of(provider, model).and_then(|vendor| {
        let request: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let mut tally = Tally::new(vendor, provider, model);
        RequestShape::of(vendor, &request)?.count(&mut tally, &request);
        Some(tally.into_count())
    });
    parsed.unwrap_or_else(|| by_bytes(body))
}

fn by_bytes(body: &[u8]) -> RequestCount {
    let messages = BytesCounter::count_bytes(body.len());
    RequestCount {
        tokens: messages,
        method: BytesCounter.method().to_owned(),
        parts: RequestParts { messages, ..RequestParts::default() },
    }
}

/// The API for which a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestShape {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

impl RequestShape {
    fn of(vendor: Vendor, request: &Map<String, Value>) -> Option<Self> {
        if request.contains_key("contents") {
            return Some(Self::Gemini);
        }
        if request.contains_key("input") {
            return Some(Self::Responses);
        }
        request.get("messages")?.as_array()?;
        let is_claude = matches!(vendor, Vendor::Anthropic { .. });
        Some(if anthropic::is_anthropic(request) || is_claude && !chat::is_chat(request) {
            Self::Anthropic
        } else {
            Self::Chat
        })
    }

    fn count(self, tally: &mut Tally<'_>, request: &Map<String, Value>) {
        match self {
            Self::Chat => chat::count(tally, request),
            Self::Responses => responses::count(tally, request),
            Self::Anthropic => anthropic::count(tally, request),
            Self::Gemini => gemini::count(tally, request),
        }
    }
}

/// The part of [`RequestParts`] to which a text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaker {
    /// `system`.
    System,
    /// `messages`.
    Conversation,
}

impl Speaker {
    fn from_role(role: &str) -> Self {
        match role {
            "system" | "developer" => Self::System,
            _ => Self::Conversation,
        }
    }
}

/// Adds up the tokens of a request.
struct Tally<'a> {
    counter: Arc<dyn TokenCounter>,
    vendor: Vendor,
    model: &'a str,
    parts: RequestParts,
}

impl<'a> Tally<'a> {
    fn new(vendor: Vendor, provider: &str, model: &'a str) -> Self {
        Self { counter: counter_for(provider, model), vendor, model, parts: RequestParts::default() }
    }

    fn into_count(self) -> RequestCount {
        RequestCount {
            tokens: self.parts.total(),
            method: self.counter.method().to_owned(),
            parts: self.parts,
        }
    }

    fn add(&mut self, speaker: Speaker, tokens: i64) {
        match speaker {
            Speaker::System => self.parts.system += tokens,
            Speaker::Conversation => self.parts.messages += tokens,
        }
    }

    fn text(&mut self, speaker: Speaker, text: &str) {
        self.add(speaker, self.counter.count(text));
    }

    /// Counts a string as its text, and any other value as compact JSON.
    fn value(&mut self, speaker: Speaker, value: &Value) {
        match value {
            Value::Null => {}
            Value::String(text) => self.text(speaker, text),
            other => self.text(speaker, &other.to_string()),
        }
    }

    /// Counts what the provider adds to a message or a turn.
    fn message(&mut self, role: &str, name: Option<&Value>) {
        self.parts.overhead += PER_MESSAGE_TOKENS + self.counter.count(role);
        if let Some(name) = name.and_then(Value::as_str) {
            self.parts.overhead += PER_NAME_TOKENS + self.counter.count(name);
        }
    }

    /// Counts the tokens that tell the model to answer.
    fn priming(&mut self) {
        self.parts.overhead += PRIMING_TOKENS;
    }

    /// Counts a tool call or, in Gemini's shape, its result.
    fn call(&mut self, name: Option<&Value>, arguments: Option<&Value>) {
        for value in [name, arguments].into_iter().flatten() {
            self.value(Speaker::Conversation, value);
        }
        self.parts.overhead += TOOL_CALL_OVERHEAD_TOKENS;
    }

    /// Counts an image by its base64 data, if the request has the data.
    fn image(&mut self, speaker: Speaker, base64: Option<&str>, low_detail: bool) {
        let size = match base64.map(Extent::of) {
            Some(Extent::Pixels(size)) => Some(size),
            _ => None,
        };
        let tokens = image::tokens(self.vendor, self.model, size, low_detail);
        self.add(speaker, tokens);
    }

    /// Counts a document, a sound or a film by its base64 data, if the request has the data.
    fn attachment(&mut self, speaker: Speaker, base64: Option<&str>) {
        let extent = base64.map_or(Extent::Unknown, Extent::of);
        let tokens = self.counter.count_attachment("", extent);
        self.add(speaker, tokens);
    }

    /// Counts thinking by its text and its signature.
    fn thought(&mut self, text: &str, sealer: Sealer, base64: &str) {
        let thought = Thought { text: text.to_owned(), seal: Seal::of(sealer, base64) };
        self.add(Speaker::Conversation, count_thought(self.counter.as_ref(), &thought));
    }

    /// Counts a block that only its provider can read, in the same way as a window counts it.
    fn opaque(&mut self, speaker: Speaker, block: &Value) {
        self.add(speaker, count_opaque(self.counter.as_ref(), &block.to_string()));
    }

    /// Counts the definition of a tool or of the answer's schema, as compact JSON.
    fn definition(&mut self, definition: &Value) {
        self.parts.tools += self.counter.count(&definition.to_string());
    }
}

fn list<'v>(object: &'v Map<String, Value>, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'v>(object: &'v Map<String, Value>, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
