//! Reads the conversation in a request to a provider.
//!
//! Each request has the whole conversation and additions of its host: reminders, cache breakpoints, and a summary that replaces the
//! messages that the host compacted. This module separates the conversation from the additions. It gives each part of a message a hash,
//! so that the same part is recognised in a request, in an answer and in the host's transcript.
//!
//! Invariant: two spellings of the same content have the same hashes. A hash depends on the role and on the ids of tool calls, but not on
//! boundaries of blocks and messages, cache breakpoints, or white space around a text.

mod cut;

use std::{hash::Hasher as _, sync::LazyLock};

use aho_corasick::AhoCorasick;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{COMPACT_SUMMARY, FormatError, parse, role};
use crate::domain::{
    continuation::{ContentUnit, UnitKind},
    fnv::Fnv64,
    message::{Format, Kind, Message, Metadata, Part},
    user_text::OwnWords,
};
pub use cut::{MessageOutline, cut};

/// The tags around the texts that Claude Code adds to the user's messages. Older versions (1.0) have other tags for texts from hooks.
const REMINDERS: [(&str, &str); 4] = [
    ("<system-reminder>", "</system-reminder>"),
    ("<session-start-hook>", "</session-start-hook>"),
    ("<user-prompt-submit-hook>", "</user-prompt-submit-hook>"),
    ("<post-tool-use-hook>", "</post-tool-use-hook>"),
];
/// The beginning of the message that replaces the messages that Claude Code compacted. The transcript marks it `isCompactSummary`.
const CLAUDE_SUMMARY: &str = "This session is being continued from a previous conversation";
/// The types, as JSON, of the items of OpenAI's Responses API that replace compacted messages.
const COMPACTION_ITEMS: [&str; 2] = ["\"compaction\"", "\"compaction_summary\""];
/// The beginnings of messages in which aider shows files. Each request begins with such messages anew. After each of them comes an answer
/// that aider itself wrote.
const AIDER_FILES: [&str; 5] = [
    "I am not sharing any files that you can edit yet.",
    "I have *added these files to the chat*",
    "Here are summaries of some files present in my git repository.",
    "Here are some READ ONLY files, provided for your reference.",
    "Don't try and edit any existing code without asking me to add the files to the chat!",
];
/// In the JSON of such a message, the text begins within this many bytes.
const AIDER_BEGINS_WITHIN: usize = 256;
/// The field of a stored summary with the hashes of the units that the host repeated after it.
const COPIES: &str = "copies";
const CACHE_FIELD: &str = "cache_control";

/// A message of a request, as blocks that are recognised one by one.
#[derive(Clone, Debug)]
pub struct SentMessage {
    role: String,
    /// The field with the blocks; `None` if the whole message is the only block.
    list: Option<&'static str>,
    origin: RequestOrigin,
    blocks: Vec<SentBlock>,
    /// The kind of the first block; `None` if the message has only texts of the host.
    author: Option<Kind>,
    /// The calls and results of all blocks, in order.
    pairs: Vec<PairEnd>,
    /// The message's position in the request's list.
    index: usize,
}

/// A tool call or its result, with a hash of the call's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairEnd {
    /// The call.
    Call(u64),
    /// The result. A result without a call's id answers a call in the message before.
    Result(Option<u64>),
}

/// A block of a message.
#[derive(Clone, Debug)]
struct SentBlock {
    json: String,
    units: Vec<ContentUnit>,
    /// True for reasoning, which has no units, since hosts remove and change reasoning as they like. It is stored with the block after it.
    is_reasoning: bool,
}

/// The format of a request, and the format of its host's transcripts if the host is known.
#[derive(Clone, Copy, Debug)]
struct RequestOrigin {
    format: Format,
    host: Option<Format>,
}

impl RequestOrigin {
    /// Reads a message. If the host is known, reads it as a line of the host's transcript, whose rules distinguish the user's text from
    /// the host's additions.
    fn read(self, role: &str, json: &str) -> Result<Message, FormatError> {
        match self.host {
            Some(Format::ClaudeCode) => {
                parse(Format::ClaudeCode, &format!(r#"{{"type":{},"message":{json}}}"#, Value::from(role)))
            }
            Some(Format::Codex) => {
                parse(Format::Codex, &format!(r#"{{"type":"response_item","payload":{json}}}"#))
            }
            _ => parse(self.format, json),
        }
    }
}

/// The fields of a request that may have the conversation.
#[derive(Deserialize)]
struct RequestFields<'a> {
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    contents: Option<Vec<&'a RawValue>>,
}

/// The fields of a message that this module reads.
#[derive(Deserialize)]
struct MessageFields<'a> {
    role: Option<String>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

/// Reads the conversation of a request in `format`, without its instructions.
///
/// `host` is the format of transcripts of the host that wrote the request ([`Format::ClaudeCode`] or [`Format::Codex`]), if it was one of
/// the two: messages are then stored as lines of such a transcript. If the host compacted something, the conversation begins with the
/// host's summary, a unit of kind [`UnitKind::Summary`].
///
/// # Errors
/// Returns an error if the body isn't a JSON object, has no conversation of that format, or has a message with an unknown role.
pub fn conversation(
    format: Format,
    host: Option<Format>,
    body: &str,
) -> Result<Vec<SentMessage>, FormatError> {
    let cure = "send the body of a request as its provider takes it";
    let read: RequestFields<'_> = serde_json::from_str(body)
        .map_err(|error| FormatError::new(format!("the request can't be read: {error}"), cure))?;
    let (list, raws) = match format {
        Format::OpenAiResponses => ("input", read.input.map(input)),
        Format::Gemini => ("contents", read.contents.map(owned)),
        _ => ("messages", read.messages.map(owned)),
    };
    let raws = raws.ok_or_else(|| FormatError::new(format!("the request has no `{list}`"), cure))?;
    let mut sent = Vec::with_capacity(raws.len());
    let mut raws = raws.iter().enumerate();
    while let Some((index, raw)) = raws.next() {
        if shows_files(raw) {
            raws.next();
            continue;
        }
        let message = SentMessage::read(RequestOrigin { format, host }, raw)
            .and_then(SentMessage::with_known_role)
            .map_err(|error| FormatError::new(format!("`{list}[{index}]`: {}", error.reason), error.cure))?;
        if message.units().any(|unit| unit.kind == UnitKind::Summary) {
            sent.clear();
        }
        sent.push(SentMessage { index, ..message });
    }
    Ok(sent)
}

fn owned(raws: Vec<&RawValue>) -> Vec<String> {
    raws.into_iter().map(|raw| raw.get().to_owned()).collect()
}

/// Returns the items of `input`, which may also be one text.
fn input(raw: &RawValue) -> Vec<String> {
    match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
        Ok(items) => owned(items),
        Err(_) => vec![format!(r#"{{"type":"message","role":"user","content":{}}}"#, raw.get())],
    }
}

impl SentMessage {
    /// Reads a message of a request, as [`conversation`] does.
    ///
    /// # Errors
    /// Returns an error if it isn't a message of that format.
    pub fn parse(format: Format, host: Option<Format>, raw: &str) -> Result<Self, FormatError> {
        Self::read(RequestOrigin { format, host }, raw)
    }

    fn read(origin: RequestOrigin, raw: &str) -> Result<Self, FormatError> {
        let head: MessageFields<'_> = serde_json::from_str(raw)
            .map_err(|error| FormatError::new(format!("a message can't be read: {error}"), "send objects"))?;
        let (list, blocks) = match origin.format {
            Format::Anthropic => ("content", head.content),
            Format::Gemini => ("parts", head.parts),
            _ => ("", None),
        };
        let blocks = blocks.and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok());
        let role = head.role.unwrap_or_else(|| "user".to_owned());
        let list = blocks.is_some().then_some(list);
        let mut message =
            Self { role, list, origin, blocks: Vec::new(), author: None, pairs: Vec::new(), index: 0 };
        let raws = blocks.map_or_else(|| vec![raw], |blocks| blocks.into_iter().map(RawValue::get).collect());
        for raw in raws {
            let json = without_cache_breakpoints(raw);
            if !is_reminder(origin.format, &json) {
                let read = origin.read(&message.role, &message.wrap(&json))?;
                let is_thought = |part: &Part| matches!(part, Part::Thinking(_));
                message.pairs.extend(read.parts.iter().filter_map(pair_end));
                message.author.get_or_insert_with(|| read.kind.clone());
                message.blocks.push(SentBlock {
                    units: units_of(&read),
                    is_reasoning: !read.parts.is_empty() && read.parts.iter().all(is_thought),
                    json,
                });
            }
        }
        Ok(message)
    }

    fn with_known_role(self) -> Result<Self, FormatError> {
        if let Some(author) = &self.author {
            role::check_sent(self.origin.format, author, &self.role)?;
        }
        Ok(self)
    }

    /// Returns the message's position in the request's list.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the kind of the first block, which shows who wrote the message; `None` if the message has only texts of the host.
    pub fn author(&self) -> Option<&Kind> {
        self.author.as_ref()
    }

    /// Returns the calls and results of the message, in order.
    pub fn pairs(&self) -> &[PairEnd] {
        &self.pairs
    }

    /// Returns the units of all blocks, in order.
    pub fn units(&self) -> impl Iterator<Item = ContentUnit> {
        self.blocks.iter().flat_map(|block| block.units.iter().copied())
    }

    /// Returns a message of the blocks that have a new unit, each with the reasoning before it; `None` if no block has one. `is_new` gets
    /// the position of a unit in this message. If a block with a new unit is a host's summary, returns the summary alone, as a message to
    /// store with `copies`: the units after it that repeat the end of what it summarises.
    ///
    /// # Errors
    /// Returns an error if the message can't be read.
    pub fn part(
        &self,
        is_new: impl Fn(usize) -> bool,
        copies: &[ContentUnit],
    ) -> Result<Option<Message>, FormatError> {
        let (mut new_blocks, mut reasoning, mut position) = (Vec::new(), Vec::new(), 0);
        for block in &self.blocks {
            let positions = position..position + block.units.len();
            position = positions.end;
            if block.is_reasoning {
                reasoning.push(block.json.as_str());
            } else if positions.into_iter().any(&is_new) {
                if block.units.iter().any(|unit| unit.kind == UnitKind::Summary) {
                    return Ok(Some(summary(&block.json, copies)));
                }
                new_blocks.append(&mut reasoning);
                new_blocks.push(block.json.as_str());
            } else {
                reasoning.clear();
            }
        }
        if new_blocks.is_empty() {
            return Ok(None);
        }
        self.origin.read(&self.role, &self.wrap(&new_blocks.join(","))).map(Some)
    }

    /// Returns the JSON of a message with `blocks`.
    fn wrap(&self, blocks: &str) -> String {
        let Some(list) = self.list else {
            return blocks.to_owned();
        };
        format!(r#"{{"role":{},"{list}":[{blocks}]}}"#, Value::from(self.role.as_str()))
    }
}

/// Returns a host's summary as a message that models never see.
fn summary(block: &str, copies: &[ContentUnit]) -> Message {
    let copies: Vec<String> = copies.iter().map(|unit| format!("{:016x}", unit.hash)).collect();
    let payload = serde_json::json!({"kind": COMPACT_SUMMARY, "content": text_of(block), COPIES: copies});
    let kind = Kind::Metadata(Metadata::Other(COMPACT_SUMMARY.to_owned()));
    Message { payload: payload.to_string(), ..Message::new(kind, Vec::new()) }
}

/// Returns the units of a stored summary: its own, and those that the host repeated after it.
fn summary_units(payload: &str) -> Vec<ContentUnit> {
    let value: Value = serde_json::from_str(payload).unwrap_or_default();
    let copies = value[COPIES].as_array().into_iter().flatten().filter_map(|copy| {
        let hash = u64::from_str_radix(copy.as_str()?, 16).ok()?;
        Some(ContentUnit { hash, kind: UnitKind::Other })
    });
    std::iter::once(summary_unit(payload)).chain(copies).collect()
}

/// Returns the units of a stored or sent message. Instructions and metadata have none, except a host's summary.
pub fn units_of(message: &Message) -> Vec<ContentUnit> {
    if let Kind::Metadata(Metadata::Other(kind)) = &message.kind {
        let is_summary = kind == COMPACT_SUMMARY || is_compaction_item(&message.payload);
        return if is_summary { summary_units(&message.payload) } else { Vec::new() };
    }
    let Some(speaker) = speaker(&message.kind) else {
        return Vec::new();
    };
    if is_compaction_item(&message.payload) {
        return vec![summary_unit(&message.payload)];
    }
    let is_request = OwnWords::of(message).is_request;
    let other = if speaker == 'a' { UnitKind::Answer } else { UnitKind::Other };
    let mut kind = if is_request { UnitKind::Request } else { other };
    let mut units = Vec::new();
    for part in &message.parts {
        let Some(hash) = hash_of(speaker, part) else {
            continue;
        };
        if matches!(part, Part::Text(text) if text.trim_start().starts_with(CLAUDE_SUMMARY)) && speaker == 'u'
        {
            units.push(summary_unit(&message.payload));
        } else {
            units.push(ContentUnit { hash, kind });
            kind = other;
        }
    }
    units
}

/// Returns the letter of the side that speaks, for hashes: the user's or the assistant's. Returns `None` outside of the conversation.
fn speaker(kind: &Kind) -> Option<char> {
    match kind {
        Kind::User | Kind::ToolResult => Some('u'),
        Kind::Assistant | Kind::ToolCall => Some('a'),
        Kind::System | Kind::Metadata(_) => None,
    }
}

fn pair_end(part: &Part) -> Option<PairEnd> {
    let key = |id: &String| {
        let mut hasher = Fnv64::default();
        hasher.write(id.as_bytes());
        hasher.finish()
    };
    match part {
        Part::ToolCall { id, .. } => id.as_ref().map(|id| PairEnd::Call(key(id))),
        Part::ToolResult { call_id, .. } => Some(PairEnd::Result(call_id.as_ref().map(key))),
        Part::Text(_) | Part::Thinking(_) | Part::Attachment { .. } | Part::Opaque { .. } => None,
    }
}

/// Returns the hash of a part. The result of a call is known by the call's id alone, since hosts shorten old results.
fn hash_of(speaker: char, part: &Part) -> Option<u64> {
    let hash = |kind: &str, texts: &[&str]| {
        let mut hasher = Fnv64::default();
        hasher.write(kind.as_bytes());
        hasher.write(speaker.to_string().as_bytes());
        for text in texts {
            hasher.write(text.as_bytes());
            hasher.write(&[0]);
        }
        hasher.finish()
    };
    match part {
        Part::Text(text) => {
            let text = without_reminders(text);
            (!text.trim().is_empty()).then(|| hash("text", &[text.trim()]))
        }
        Part::ToolCall { id: Some(id), .. } => Some(hash("call", &[id])),
        Part::ToolCall { id: None, name, arguments } => Some(hash("call", &[name, arguments])),
        Part::ToolResult { call_id: Some(id), .. } => Some(hash("result", &[id])),
        Part::ToolResult { call_id: None, text, .. } => Some(hash("result", &[text])),
        Part::Thinking(_) => None,
        Part::Attachment { media, extent } => Some(hash("file", &[media, &format!("{extent:?}")])),
        Part::Opaque { kind, json } => Some(hash("opaque", &[kind, json])),
    }
}

/// Returns the unit of a summary, which is recognised by its text, wherever it stands.
fn summary_unit(payload: &str) -> ContentUnit {
    let mut hasher = Fnv64::default();
    hasher.write(text_of(payload).trim().as_bytes());
    ContentUnit { hash: hasher.finish(), kind: UnitKind::Summary }
}

/// Returns the text of a message, or of a summary in any of the forms in which it is sent or stored.
fn text_of(json: &str) -> String {
    let mut value: Value = serde_json::from_str(json).unwrap_or_default();
    for envelope in ["payload", "message"] {
        if value[envelope].is_object() {
            value = value[envelope].take();
        }
    }
    let first = |name: &str| value[name].as_array().and_then(|list| list.first()).cloned();
    let block = first("content").or_else(|| first("parts")).unwrap_or_else(|| value.clone());
    let texts = [&block["text"], &block["encrypted_content"], &value["content"]];
    texts.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns true if `payload` is an item that replaces compacted messages, alone or in a line of a rollout.
fn is_compaction_item(payload: &str) -> bool {
    #[derive(Deserialize)]
    struct CompactionFields<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
    }
    let read = |json| serde_json::from_str::<CompactionFields<'_>>(json).ok();
    let Some(item) = read(payload) else {
        return false;
    };
    let inner = item.payload.and_then(|inner| read(inner.get()));
    let kind = inner.and_then(|inner| inner.kind).or(item.kind);
    kind.is_some_and(|kind| COMPACTION_ITEMS.contains(&kind.get()))
}

/// Returns true if aider shows files in a message. aider also wrote the message after it.
pub fn shows_files(message: &str) -> bool {
    static TEXTS: LazyLock<AhoCorasick> =
        LazyLock::new(|| AhoCorasick::new(AIDER_FILES).expect("a few short texts"));
    // This function sees every message of every request. Searching the beginning first avoids parsing long messages.
    let begin = &message.as_bytes()[..message.len().min(AIDER_BEGINS_WITHIN)];
    TEXTS.is_match(begin) && AIDER_FILES.iter().any(|text| text_of(message).starts_with(text))
}

/// Returns true if a block has only texts that Claude Code added.
fn is_reminder(format: Format, block: &str) -> bool {
    let has_one = || REMINDERS.iter().any(|(open, _)| block.contains(open));
    if format != Format::Anthropic || !has_one() {
        return false;
    }
    let value: Value = serde_json::from_str(block).unwrap_or_default();
    value["text"].as_str().is_some_and(|text| without_reminders(text).trim().is_empty())
}

/// Removes the reminders that Claude Code adds to a text.
fn without_reminders(text: &str) -> String {
    let marks = REMINDERS.iter();
    marks.fold(text.to_owned(), |text, (open, close)| {
        if !text.contains(open) {
            return text;
        }
        let (mut cleaned, mut rest) = (String::new(), text.as_str());
        while let Some((head, reminder)) = rest.split_once(open) {
            let Some((_, tail)) = reminder.split_once(close) else {
                break;
            };
            cleaned.push_str(head);
            rest = tail;
        }
        cleaned + rest
    })
}

/// Removes cache breakpoints: they belong to one request, and a later context sets its own.
fn without_cache_breakpoints(json: &str) -> String {
    if !json.contains(CACHE_FIELD) {
        return json.to_owned();
    }
    let Ok(mut value) = serde_json::from_str::<Value>(json) else {
        return json.to_owned();
    };
    remove_cache_breakpoints(&mut value);
    value.to_string()
}

fn remove_cache_breakpoints(value: &mut Value) {
    if let Some(block) = value.as_object_mut() {
        block.remove(CACHE_FIELD);
    }
    let lists = ["content", "parts"];
    for list in lists {
        for block in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            remove_cache_breakpoints(block);
        }
    }
}

#[cfg(test)]
mod tests;
