//! The outline of a request's conversation: the bytes of each message, and the units in it. The window cuts between
//! messages.

use std::{
    borrow::Cow,
    hash::BuildHasher as _,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hashlink::{DefaultHashBuilder, LruCache};
use memchr::memmem;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::dialect::Dialect;
use recapd_core::{
    domain::{
        continuation::{Beginning, ContentUnit, UnitKind},
        message::Kind,
    },
    formats::request::{MessageOutline, PairEnd, SentMessage, cut, shows_files},
};

/// Limits how many messages of all conversations are remembered. A message takes some 150 bytes.
const REMEMBERED_MAX: usize = 100_000;

/// Providers keep a prompt in their caches for at least this long.
const CACHE_LIFE: Duration = Duration::from_mins(5);
/// Anthropic's longer cache time.
const LONG_CACHE_LIFE: Duration = Duration::from_hours(1);
/// The value of the longer cache time in a marker.
pub(super) const LONG_LIFE: &str = r#""1h""#;

/// The fields of a request that the outline needs. They are read in one pass, because a request may be long.
#[derive(Deserialize)]
struct OutlineFields<'a> {
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    input: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    contents: Option<Vec<&'a RawValue>>,
    /// Gemini's `countTokens` may hold the request in this field.
    #[serde(borrow, rename = "generateContentRequest")]
    nested: Option<NestedFields<'a>>,
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cache_control: Option<&'a RawValue>,
    // A request with one of these fields doesn't carry the whole conversation.
    previous_response_id: Option<IgnoredAny>,
    conversation: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct NestedFields<'a> {
    #[serde(borrow)]
    contents: Option<Vec<&'a RawValue>>,
}

impl<'a> OutlineFields<'a> {
    fn list(&self, dialect: Dialect) -> Option<&[&'a RawValue]> {
        let list = match dialect {
            Dialect::Anthropic | Dialect::OpenAiChat => &self.messages,
            Dialect::OpenAiResponses => &self.input,
            Dialect::Gemini => match &self.nested {
                Some(nested) if self.contents.is_none() => &nested.contents,
                _ => &self.contents,
            },
        };
        list.as_deref()
    }
}

fn is_from_model(message: &MessageOutline) -> bool {
    matches!(message.author, Some(Kind::Assistant | Kind::ToolCall))
}

/// Remembers the outlines of messages, because each request repeats the messages of the previous one.
#[derive(Debug)]
pub(crate) struct OutlineMemory {
    hasher: DefaultHashBuilder,
    cache: Mutex<LruCache<u64, Arc<MessageOutline>>>,
}

impl Default for OutlineMemory {
    fn default() -> Self {
        Self { hasher: DefaultHashBuilder::default(), cache: Mutex::new(LruCache::new(REMEMBERED_MAX)) }
    }
}

/// The client that wrote a request, and the dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestWriter {
    pub(crate) dialect: Dialect,
    pub(crate) client: &'static str,
}

impl OutlineMemory {
    fn outlines(&self, writer: RequestWriter, messages: &[&RawValue]) -> Option<Vec<Arc<MessageOutline>>> {
        let (format, host) = (writer.dialect.format(), writer.dialect.host(writer.client));
        let key = |raw: &RawValue| self.hasher.hash_one((format.name(), writer.client, raw.get()));
        let keys: Vec<u64> = messages.iter().map(|raw| key(raw)).collect();
        let cached: Vec<_> = {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            keys.iter().map(|key| cache.get(key).cloned()).collect()
        };
        let read = |raw: &RawValue| {
            let sent = SentMessage::parse(format, host, raw.get()).ok()?;
            Some(Arc::new(MessageOutline::from(&sent)))
        };
        let outlines: Vec<Arc<MessageOutline>> = messages
            .iter()
            .zip(cached)
            .map(|(raw, cached)| cached.or_else(|| read(raw)))
            .collect::<Option<_>>()?;
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, outline) in keys.into_iter().zip(&outlines) {
            cache.insert(key, Arc::clone(outline));
        }
        Some(outlines)
    }
}

/// A request whose conversation can be cut between two messages.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) dialect: Dialect,
    pub(crate) model: String,
    /// The request's own marker for the prompt cache.
    pub(crate) cache_control: Option<String>,
    pub(crate) body: Bytes,
    /// The position of the list of messages in the body.
    pub(crate) list: Range<usize>,
    /// The position of each message in the body.
    ranges: Vec<Range<usize>>,
    messages: Vec<Arc<MessageOutline>>,
    /// The messages with which aider shows files: each index stands for two messages. They aren't part of the
    /// conversation.
    files: Vec<usize>,
    /// The index of the host's newest summary, which replaces everything before it; 0 if there is none.
    first: usize,
}

impl Outline {
    /// Reads a request; `None` if it can't be cut. `plain` is what the client wrote; in `expanded`, its capsules are
    /// replaced.
    pub(crate) fn read(
        writer: RequestWriter,
        plain: &Bytes,
        expanded: Option<Bytes>,
        memory: &OutlineMemory,
    ) -> Option<Self> {
        let dialect = writer.dialect;
        let text = std::str::from_utf8(plain).ok()?;
        let fields: OutlineFields<'_> = serde_json::from_str(text).ok()?;
        if fields.previous_response_id.is_some() || fields.conversation.is_some() {
            return None;
        }
        let raws = fields.list(dialect)?;
        let mut messages = memory.outlines(writer, raws)?;
        let files: Vec<usize> = (0..raws.len()).filter(|&index| shows_files(raws[index].get())).collect();
        for index in files.iter().flat_map(|&index| [index, index + 1]) {
            if let Some(message) = messages.get_mut(index) {
                *message = Arc::default();
            }
        }
        let is_summary =
            |message: &Arc<MessageOutline>| message.units.iter().any(|unit| unit.kind == UnitKind::Summary);
        let first = messages.iter().rposition(is_summary).unwrap_or(0);
        let (ranges, list) = match &expanded {
            None => ranges(text, raws)?,
            Some(expanded) => {
                let text = std::str::from_utf8(expanded).ok()?;
                let fields: OutlineFields<'_> = serde_json::from_str(text).ok()?;
                ranges(text, fields.list(dialect)?)?
            }
        };
        (ranges.len() == messages.len()).then(|| Self {
            dialect,
            model: fields.model.unwrap_or_default().into_owned(),
            cache_control: fields.cache_control.map(|marker| marker.get().to_owned()),
            list,
            ranges,
            messages,
            files,
            first,
            body: expanded.unwrap_or_else(|| plain.clone()),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the body before and after the list of messages.
    pub(crate) fn around_list(&self) -> (&[u8], &[u8]) {
        (&self.body[..self.list.start], &self.body[self.list.end..])
    }

    /// Returns a message as the client wrote it.
    pub(crate) fn message(&self, index: usize) -> &str {
        // Checks only the bytes of the message as UTF-8, because checking the whole body each time would be slow.
        let bytes = self.body.get(self.ranges[index].clone());
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Returns the units of the conversation.
    pub(crate) fn units(&self) -> impl Iterator<Item = ContentUnit> {
        let messages = self.messages[self.first..].iter();
        messages.flat_map(|message| message.units.iter().copied())
    }

    /// Returns the index of the first message after `replaced`; `None` if the conversation can't be cut there.
    pub(crate) fn cut(&self, replaced: Beginning) -> Option<usize> {
        cut(&self.messages[self.first..], replaced).map(|index| self.first + index)
    }

    /// Returns the user's message before `cut` whose first unit has this hash.
    pub(crate) fn anchor(&self, hash: u64, cut: usize) -> Option<usize> {
        let is_anchor = |index: &usize| {
            let message = &self.messages[*index];
            let is_result = |pair: &PairEnd| matches!(pair, PairEnd::Result(_));
            message.units.first().is_some_and(|unit| unit.hash == hash)
                && !message.pairs.iter().any(is_result)
        };
        (self.first..cut).find(is_anchor)
    }

    /// Returns the messages before `cut` that are instructions.
    pub(crate) fn instructions(&self, cut: usize) -> impl Iterator<Item = usize> {
        (0..cut).filter(|&index| self.messages[index].author == Some(Kind::System))
    }

    /// Returns the messages before `cut` with which the host shows files.
    pub(crate) fn files(&self, cut: usize) -> impl Iterator<Item = usize> {
        let indices = self.files.iter().flat_map(|&index| [index, index + 1]);
        indices.filter(move |&index| index < cut)
    }

    /// Returns how long the provider keeps the request in its prompt cache.
    pub(crate) fn cache_life(&self) -> Duration {
        let lives_long = memmem::find(&self.body, LONG_LIFE.as_bytes()).is_some();
        if lives_long { LONG_CACHE_LIFE } else { CACHE_LIFE }
    }

    /// True if the model's own message comes last, so that the model is to continue it.
    pub(crate) fn is_open(&self) -> bool {
        let mut messages = self.messages.iter().rev().filter(|message| message.author.is_some());
        messages.next().is_none_or(|last| is_from_model(last))
    }

    /// True if the conversation ends with a request of the user.
    pub(crate) fn begins_turn(&self) -> bool {
        let is_request = |unit: &ContentUnit| unit.kind == UnitKind::Request;
        self.messages.last().is_some_and(|last| last.units.iter().any(is_request))
    }

    /// Returns the index of the model's newest message. If several follow each other, the index of the first.
    pub(crate) fn newest_answer(&self) -> usize {
        let is_answer = |index: usize| is_from_model(&self.messages[index]);
        let last = (0..self.len()).rfind(|&index| is_answer(index)).unwrap_or(0);
        (0..last).rfind(|&index| !is_answer(index)).map_or(0, |index| index + 1)
    }
}

/// Returns the part of `text` at `range`.
pub(super) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// Returns the position of each message in `text`, and that of their list; `None` if the list is empty.
fn ranges(text: &str, raws: &[&RawValue]) -> Option<(Vec<Range<usize>>, Range<usize>)> {
    let ranges: Vec<Range<usize>> = raws.iter().map(|raw| range_of(text, raw)).collect();
    let (first, last) = (ranges.first()?, ranges.last()?);
    let begin = text.get(..first.start)?.rfind('[')?;
    let end = last.end + text.get(last.end..)?.find(']')? + 1;
    Some((ranges, begin..end))
}

/// Returns the position of `part` in `text`. `part` must point into `text`.
pub(super) fn range_of(text: &str, part: &RawValue) -> Range<usize> {
    let begin = part.get().as_ptr().addr() - text.as_ptr().addr();
    begin..begin + part.get().len()
}
