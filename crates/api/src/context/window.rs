//! Reads the window that a context is built from, however large it is.
//!
//! Leaves out an older exchange that is too large, and every exchange before it. Never leaves out the newest exchange.
//! If the newest exchange alone is too large, its newest messages are read unchanged. Its older messages lose their
//! original JSON (`payload`), and their tool results are shortened.

use std::collections::VecDeque;

use super::{ContextError, WINDOW_EXCHANGES_MAX};
use recapd_core::domain::{
    agent::AgentId,
    context::{Elision, shorten_results},
    message::{Message, Part},
    number::usize_or_max,
};
use recapd_store::{ExchangeQuery, Store, StoredExchange, StoredMessage, page::part};

/// All shortened results together get 1/8 of `bytes_max`: of 24 MB that is 3 MB of text, still more than most models take.
const RESULTS_SHARE: usize = 8;

pub(super) struct WindowContent {
    /// The newest exchanges, oldest first.
    pub(super) exchanges: Vec<StoredExchange>,
    /// The exchanges before `exchanges`, oldest first, without their messages.
    pub(super) left_out: Vec<StoredExchange>,
    pub(super) shortened: ShortenedMessages,
}

/// The messages of an exchange that were shortened.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortenedMessages {
    /// The `seq` of the last shortened message; 0 if none was.
    pub(super) through_seq: i64,
    pub(super) results: Vec<Elision>,
}

/// Reads the window that begins with `first_exchange`, with at most `bytes_max` payload bytes.
pub(super) async fn read(
    store: &dyn Store,
    agent: &AgentId,
    first_exchange: i64,
    bytes_max: i64,
) -> Result<WindowContent, ContextError> {
    let query =
        ExchangeQuery { from: first_exchange, through: i64::MAX, limit: WINDOW_EXCHANGES_MAX, bytes_max };
    let mut found = store.exchanges(agent, query).await?;
    let newest = found.last_mut().filter(|newest| newest.unread_bytes.is_some());
    let shortened = match newest {
        Some(newest) => read_shortened(store, agent, newest, bytes_max).await?,
        None => ShortenedMessages::default(),
    };
    let unread = found.iter().rposition(|stored| stored.unread_bytes.is_some());
    let exchanges = found.split_off(unread.map_or(0, |last| last + 1));
    Ok(WindowContent { exchanges, left_out: found, shortened })
}

/// Reads an exchange that is too large, part by part, and shortens its older messages.
async fn read_shortened(
    store: &dyn Store,
    agent: &AgentId,
    newest: &mut StoredExchange,
    bytes_max: i64,
) -> Result<ShortenedMessages, ContextError> {
    let exchange = &newest.exchange;
    let messages = usize::try_from(exchange.last_seq - exchange.first_seq).unwrap_or(0) + 1;
    let bytes_max = usize_or_max(bytes_max);
    let keep = bytes_max / RESULTS_SHARE / messages;
    let mut reader = Reader::new(exchange.exchange, keep, bytes_max);
    let mut after_seq = 0;
    while let Some(expanded) = store.expand(agent, exchange.exchange, part(after_seq)).await? {
        for stored in expanded.messages {
            after_seq = stored.seq;
            reader.take(stored)?;
        }
        if !expanded.has_more {
            break;
        }
    }
    let (messages, shortened) = reader.finish();
    (newest.messages, newest.unread_bytes) = (messages, None);
    Ok(shortened)
}

/// Collects the messages of an exchange within a limit of bytes.
struct Reader {
    exchange: i64,
    /// Characters that each result of a shortened message keeps.
    keep: usize,
    /// Limits the payload bytes of whole messages. Also limits the bytes that remain of shortened messages.
    bytes_max: usize,
    /// The messages before `whole_messages`, shortened.
    shortened_messages: Vec<StoredMessage>,
    shortened_bytes: usize,
    results: Vec<Elision>,
    /// The newest messages so far, unshortened.
    whole_messages: VecDeque<StoredMessage>,
    whole_bytes: usize,
}

impl Reader {
    fn new(exchange: i64, keep: usize, bytes_max: usize) -> Self {
        Self {
            exchange,
            keep,
            bytes_max,
            shortened_messages: Vec::new(),
            shortened_bytes: 0,
            results: Vec::new(),
            whole_messages: VecDeque::new(),
            whole_bytes: 0,
        }
    }

    /// Adds the next message. Shortens the oldest whole messages if all of them together are too large.
    fn take(&mut self, stored: StoredMessage) -> Result<(), ContextError> {
        self.whole_bytes += stored.message.payload.len();
        self.whole_messages.push_back(stored);
        while self.whole_bytes > self.bytes_max
            && let Some(oldest) = self.whole_messages.pop_front()
        {
            self.whole_bytes -= oldest.message.payload.len();
            self.shorten(oldest)?;
        }
        Ok(())
    }

    fn shorten(&mut self, mut stored: StoredMessage) -> Result<(), ContextError> {
        let chars = shorten_results(&mut stored.message, self.keep, self.exchange);
        if chars > 0 {
            self.results.push(Elision { exchange: self.exchange, seq: Some(stored.seq), chars });
        }
        stored.message.payload = String::new();
        self.shortened_bytes += bytes(&stored.message);
        if self.shortened_bytes > self.bytes_max {
            return Err(ContextError::TooLarge(self.exchange));
        }
        self.shortened_messages.push(stored);
        Ok(())
    }

    fn finish(mut self) -> (Vec<StoredMessage>, ShortenedMessages) {
        let through_seq = self.shortened_messages.last().map_or(0, |last| last.seq);
        self.shortened_messages.extend(self.whole_messages);
        let shortened = ShortenedMessages { through_seq, results: self.results };
        (self.shortened_messages, shortened)
    }
}

/// Returns how many bytes a message's parts hold.
fn bytes(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| match part {
        Part::Text(text) | Part::Attachment { media: text, .. } | Part::ToolResult { text, .. } => text.len(),
        Part::ToolCall { name, arguments, .. } => name.len() + arguments.len(),
        Part::Thinking(thought) => thought.text.len(),
        Part::Opaque { kind, json } => kind.len() + json.len(),
    });
    parts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use recapd_core::{
        domain::{message::Format, time::Timestamp},
        formats,
    };

    fn stored(seq: i64, json: &serde_json::Value) -> StoredMessage {
        StoredMessage {
            seq,
            message: formats::parse(Format::Native, &json.to_string()).unwrap(),
            tokens: 1,
            said_at: Timestamp(0),
        }
    }

    #[test]
    fn the_newest_messages_stay_as_they_are() {
        let mut reader = Reader::new(7, 3_000, 100_000);
        let content = "x".repeat(25_000);
        let result = serde_json::json!({"kind": "tool_result", "name": "cat", "content": content});
        for seq in 1..=5 {
            reader.take(stored(seq, &result)).unwrap();
        }
        let (messages, shortened) = reader.finish();
        let seqs: Vec<i64> = messages.iter().map(|stored| stored.seq).collect();
        assert_eq!((seqs, shortened.through_seq), (vec![1, 2, 3, 4, 5], 2));
        let whole = result.to_string();
        let is_whole = |stored: &&StoredMessage| stored.message.payload == whole;
        assert_eq!(messages.iter().filter(is_whole).count(), 3);
        let cut: Vec<_> = shortened.results.iter().map(|cut| (cut.seq, cut.chars)).collect();
        assert_eq!(cut, [(Some(1), 22_000), (Some(2), 22_000)]);
        let left: usize = messages.iter().take(2).map(|stored| bytes(&stored.message)).sum();
        assert!((6_000..6_200).contains(&left), "{left}");
    }

    #[test]
    fn an_exchange_whose_messages_cannot_be_shortened_is_too_large() {
        let mut reader = Reader::new(7, 3_000, 100_000);
        let arguments = serde_json::json!({ "text": "x".repeat(40_000) });
        let call = serde_json::json!({"kind": "tool_call", "name": "write", "arguments": arguments});
        // The two newest stay whole. The two oldest have lost only their payloads.
        for seq in 1..=4 {
            reader.take(stored(seq, &call)).unwrap();
        }
        assert_eq!((reader.shortened_messages.len(), reader.whole_messages.len()), (2, 2));
        let refused = reader.take(stored(5, &call));
        assert!(matches!(refused, Err(ContextError::TooLarge(7))), "{refused:?}");
    }
}
