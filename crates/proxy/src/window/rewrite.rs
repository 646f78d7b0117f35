//! Rewrites a request: replaces the messages that have left the window with the document.
//!
//! ```text
//! messages: [instructions │ files that the host shows │ anchor, document │ kept messages]
//! ```
//!
//! Invariant: outside the list of messages, no byte changes. In kept messages, only thinking from before the step is
//! removed, because it is bound to messages that are gone.

use std::{borrow::Cow, sync::LazyLock};

use bytes::Bytes;
use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    outline::{LONG_LIFE, Outline, range_of, slice},
    step::Replacement,
};
use crate::dialect::Dialect;

/// Anthropic accepts at most this many prompt cache markers in a request.
const MARKERS_MAX: usize = 4;
static MARKER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""cache_control""#));
/// Introduces instructions that are moved into the user's message.
const QUOTED: &str = "The program that runs this conversation gave these instructions in it:\n\n";
const THINKING: [&str; 2] = ["thinking", "redacted_thinking"];
/// A message without this word has no thinking.
static THINKING_WORD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"thinking"));

/// How a request is rewritten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rewrite<'r> {
    pub(super) replacement: &'r Replacement,
    /// The index of the first kept message.
    pub(super) cut: usize,
    /// Thinking in messages before this one is removed.
    pub(super) thinks_from: usize,
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    parts: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BlockFields<'a> {
    #[serde(rename = "type")]
    kind: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
}

impl Rewrite<'_> {
    /// Returns the body to send; `None` if the anchor can't be read.
    pub(super) fn body(self, outline: &Outline) -> Option<Bytes> {
        let (before, after) = outline.around_list();
        let (quotation, instructions) = self.instructions(outline);
        let files = outline.files(self.cut).map(|index| outline.message(index));
        let kept_messages = self.kept_messages(outline);
        let anchor = self
            .replacement
            .anchor
            .and_then(|hash| outline.anchor(hash, self.cut))
            .map(|index| outline.message(index));
        let texts = anchor.into_iter().chain(kept_messages.iter().map(AsRef::as_ref)).map(str::as_bytes);
        let markers = Markers::in_texts(texts);
        let outer_markers = Markers::in_texts([before, after]);
        let marker = (markers.count + outer_markers.count < MARKERS_MAX).then(|| {
            // A marker with a longer cache time must come before markers without it.
            let lives_long = outline.cache_control.as_ref().is_some_and(|marker| marker.contains(LONG_LIFE));
            if markers.lives_long || lives_long {
                json!({"type": "ephemeral", "ttl": "1h"})
            } else {
                json!({"type": "ephemeral"})
            }
        });
        let block_text = format!("{quotation}{}", self.replacement.text);
        let head = head(outline.dialect, anchor, &block_text, marker.as_ref())?;
        let messages = instructions
            .into_iter()
            .chain(files)
            .chain([head.as_str()])
            .chain(kept_messages.iter().map(AsRef::as_ref));
        let list = messages.flat_map(|message| [",", message]).skip(1).map(str::as_bytes);
        // A body may be long, so each of its bytes is copied only once.
        let parts: Vec<&[u8]> = [before, b"["].into_iter().chain(list).chain([&b"]"[..], after]).collect();
        Some(parts.concat().into())
    }

    /// Returns the instructions among the removed messages: those that are quoted before the document, and those that
    /// stay unchanged. For Anthropic all are quoted, because it accepts instructions only in a few positions, and these
    /// are gone.
    fn instructions(self, outline: &Outline) -> (String, Vec<&str>) {
        let messages: Vec<&str> =
            outline.instructions(self.cut).map(|index| outline.message(index)).collect();
        if outline.dialect != Dialect::Anthropic || messages.is_empty() {
            return (String::new(), messages);
        }
        let texts = messages.iter().flat_map(|message| texts(message));
        let quotation = texts.fold(QUOTED.to_owned(), |quotation, text| quotation + &text + "\n\n");
        (quotation, Vec::new())
    }

    fn kept_messages(self, outline: &Outline) -> Vec<Cow<'_, str>> {
        let kept_messages = (self.cut..outline.len()).filter_map(|index| {
            let message = outline.message(index);
            let is_bound = outline.dialect == Dialect::Anthropic && index < self.thinks_from;
            if is_bound { without_thinking(message) } else { Some(Cow::Borrowed(message)) }
        });
        kept_messages.collect()
    }
}

/// Returns the texts of a message in Anthropic's format.
fn texts(message: &str) -> Vec<String> {
    let content = serde_json::from_str::<MessageFields<'_>>(message).ok().and_then(|fields| fields.content);
    let Some(content) = content.map(RawValue::get) else {
        return Vec::new();
    };
    match serde_json::from_str::<Vec<BlockFields<'_>>>(content) {
        Ok(blocks) => blocks.into_iter().filter_map(|block| block.text.map(Cow::into_owned)).collect(),
        Err(_) => serde_json::from_str(content).into_iter().collect(),
    }
}

/// The prompt cache markers in some JSON. A text that quotes a marker doesn't count, because its quotation marks are
/// escaped.
#[derive(Debug, Default)]
struct Markers {
    count: usize,
    lives_long: bool,
}

impl Markers {
    fn in_texts<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> Self {
        let mut found = Self::default();
        for text in texts {
            for index in MARKER.find_iter(text) {
                found.count += 1;
                let value = text[index..].split(|&byte| byte == b'}').next().unwrap_or_default();
                found.lives_long |= memmem::find(value, LONG_LIFE.as_bytes()).is_some();
            }
        }
        found
    }
}

/// Returns the user's message with the anchor, if there is one, followed by the text.
fn head(dialect: Dialect, anchor: Option<&str>, text: &str, marker: Option<&Value>) -> Option<String> {
    let block = match dialect {
        Dialect::Anthropic => match marker {
            Some(marker) => json!({"type": "text", "text": text, "cache_control": marker}),
            None => json!({"type": "text", "text": text}),
        },
        Dialect::OpenAiChat => json!({"type": "text", "text": text}),
        Dialect::OpenAiResponses => json!({"type": "input_text", "text": text}),
        Dialect::Gemini => json!({"text": text}),
    };
    let Some(anchor) = anchor else {
        let message = match dialect {
            Dialect::Anthropic => json!({"role": "user", "content": [block]}),
            // Some servers of this dialect don't accept a list of parts.
            Dialect::OpenAiChat => json!({"role": "user", "content": text}),
            Dialect::OpenAiResponses => json!({"type": "message", "role": "user", "content": [block]}),
            Dialect::Gemini => json!({"role": "user", "parts": [block]}),
        };
        return Some(message.to_string());
    };
    let fields: MessageFields<'_> = serde_json::from_str(anchor).ok()?;
    let content = fields.content.or(fields.parts)?;
    let with_text = match content.get().as_bytes().first()? {
        b'[' => {
            let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).ok()?;
            let blocks: Vec<&str> = blocks.into_iter().map(RawValue::get).collect();
            format!("[{}]", join_blocks(&blocks, &block.to_string()))
        }
        b'"' if dialect == Dialect::OpenAiChat => {
            let anchor_text: String = serde_json::from_str(content.get()).ok()?;
            Value::from(format!("{anchor_text}\n\n{text}")).to_string()
        }
        b'"' => {
            let kind = &block["type"];
            let anchor_block = format!(r#"{{"type":{kind},"text":{}}}"#, content.get());
            format!("[{}]", join_blocks(&[&anchor_block], &block.to_string()))
        }
        _ => return None,
    };
    Some(with_content(anchor, content, &with_text))
}

fn join_blocks(blocks: &[&str], last: &str) -> String {
    let blocks = blocks.iter().copied().chain([last]);
    blocks.collect::<Vec<&str>>().join(",")
}

/// Returns `message` with its content replaced.
fn with_content(message: &str, content: &RawValue, new_content: &str) -> String {
    let range = range_of(message, content);
    let before = slice(message, 0..range.start);
    format!("{before}{new_content}{}", slice(message, range.end..message.len()))
}

/// Returns a message without its thinking; `None` if nothing is left.
fn without_thinking(message: &str) -> Option<Cow<'_, str>> {
    let unchanged = Some(Cow::Borrowed(message));
    if THINKING_WORD.find(message.as_bytes()).is_none() {
        return unchanged;
    }
    let Ok(MessageFields { content: Some(content), .. }) = serde_json::from_str(message) else {
        return unchanged;
    };
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else {
        return unchanged;
    };
    let is_thinking = |block: &&RawValue| {
        let fields = serde_json::from_str::<BlockFields<'_>>(block.get());
        fields.is_ok_and(|block| block.kind.is_some_and(|kind| THINKING.contains(&kind.as_ref())))
    };
    let count = blocks.len();
    let remaining: Vec<&str> =
        blocks.into_iter().filter(|block| !is_thinking(block)).map(RawValue::get).collect();
    if remaining.len() == count {
        return unchanged;
    }
    let new_content = format!("[{}]", remaining.join(","));
    (!remaining.is_empty()).then(|| Cow::Owned(with_content(message, content, &new_content)))
}
