//! Recall and expand: finds exchanges by words, and shows exchanges by the numbers that a summary names. For the
//! command line and HTTP.

mod question;
mod range;
mod text;
pub mod window;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use recapd_core::{
    domain::{
        agent::AgentId,
        context::{ContextInput, ContextOptions, SourceExchange, build},
        exchange::{ExchangeState, PREAMBLE},
        legs::{Legs, settle},
        neutralize::{QUOTE_MARK, defanged, quoted},
        recall::{EXCERPT_CHARS_MAX, Query, Term, searchable},
        redaction::Redactor,
        text::one_line,
        time::Timestamp,
        zone::Zone,
    },
    formats::outgoing::{RequestFormat, render},
    tokenizer,
};
use recapd_engine::embedder::Embedder;
use recapd_store::{
    ExchangePlace, ExpandedExchange, FoundExchange, MessageRange, MessageScope, Store, StoreError,
    StoreResult, StoredMessage,
    page::{PART_MESSAGES_MAX, part},
};

pub use question::{ArchiveQuestion, QuestionError, QuestionTime};
pub use range::{RANGE_MAX, Range};
pub(crate) use text::{INDENT, MessageLabels, content, expanded_head};
pub use text::{expanded_text, expanded_texts, found_text, message_texts};

/// A search returns this many exchanges by default.
pub const FOUND_SHOWN: i64 = 10;
/// A search returns at most this many exchanges.
pub const FOUND_MAX: i64 = 50;
/// Each found exchange shows at most this many excerpts.
const EXCERPTS_MAX: usize = 3;
/// An expanded exchange shows this many messages by default.
pub const MESSAGES_SHOWN: i64 = 200;
/// An expanded exchange shows at most this many messages at once.
pub const MESSAGES_MAX: i64 = PART_MESSAGES_MAX;

/// The results of a search, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Recall)]
pub struct RecallReply {
    pub agent_id: AgentId,
    /// The words and phrases that were searched for: the meaningful ones of the query. If there are very many, only the
    /// rarest.
    pub terms: Vec<String>,
    /// The time that the query names. Exchanges of that time come first. If the query has no other words, only they are
    /// found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<QuestionTime>,
    pub found: Vec<RecallMatch>,
    /// True if more exchanges were found than are shown.
    pub has_more: bool,
    /// How many messages weren't searched because they aren't indexed yet.
    pub unsearched_messages: i64,
}

/// An exchange that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = FoundExchange)]
pub struct RecallMatch {
    pub exchange: i64,
    /// If this is a later leg: the first leg of its exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// Where the exchange is: in the window, pending, covered or set aside.
    pub place: ExchangePlace,
    /// The first line of the user's message; empty for a later leg.
    pub title: String,
    /// When its first message was said.
    pub started_at: Timestamp,
    /// When its last message was said.
    pub ended_at: Timestamp,
    /// The size of the exchange in tokens.
    pub tokens: i64,
    /// When the exchange left the window; null if it hasn't.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers the exchange; null if none does.
    pub summary_version: Option<i64>,
    /// The terms that the exchange doesn't contain.
    pub missing: Vec<String>,
    /// Pieces of text around the terms, with secrets redacted.
    pub excerpts: Vec<Excerpt>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Excerpt {
    pub seq: i64,
    pub kind: String,
    pub said_at: Timestamp,
    /// The piece, as one line.
    pub text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ExpandedExchange)]
pub struct ExpandReply {
    /// The agent that the request names.
    pub agent_id: AgentId,
    pub exchange: i64,
    /// If this is a later leg: the first leg of its exchange.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// The legs of the exchange, if it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<Legs>,
    /// The agent whose messages these are. For a fork, this can be an ancestor.
    pub source_agent_id: AgentId,
    /// Where the exchange is: in the window, pending, covered or set aside.
    pub place: ExchangePlace,
    /// `open` if more messages are expected in the exchange.
    pub state: ExchangeState,
    /// When its first message was said.
    pub started_at: Timestamp,
    /// When its last message was said.
    pub ended_at: Timestamp,
    pub tokens: i64,
    /// When the exchange left the window; null if it hasn't.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers the exchange; null if none does.
    pub summary_version: Option<i64>,
    pub messages: Vec<ShownMessage>,
    /// The number of the last message shown if there are more; otherwise null.
    pub next_after: Option<i64>,
    /// The messages in the form of a provider's request, if the request names a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What that provider's format can't express.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A message, verbatim.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShownMessage {
    pub seq: i64,
    pub kind: String,
    /// In a shared conversation: the message's speaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    pub said_at: Timestamp,
    pub tokens: i64,
    /// True if the message is forgotten: only its number, kind and time are left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
    /// The format of `payload`.
    pub format: String,
    /// The message as the client sent it.
    #[schema(value_type = Value)]
    pub payload: Box<RawValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandQuery {
    /// Only messages after this number are returned.
    pub after_seq: i64,
    pub limit: i64,
    /// Also returns the messages in the form of this provider's request.
    pub format: Option<RequestFormat>,
    pub scope: MessageScope,
}

impl Default for ExpandQuery {
    fn default() -> Self {
        Self { after_seq: 0, limit: MESSAGES_SHOWN, format: None, scope: MessageScope::All }
    }
}

/// The names of scopes in requests.
pub const SCOPES: [(&str, MessageScope); 2] =
    [("all", MessageScope::All), ("conversation", MessageScope::Conversation)];

/// Searches the archive of `agent`: by words and, with an `embedder`, also by meaning. Returns `None` if the agent
/// doesn't exist.
///
/// # Errors
/// The store's errors.
pub async fn search(
    store: &dyn Store,
    agent: &AgentId,
    question: &ArchiveQuestion,
    redactor: &Redactor,
    embedder: Option<&Embedder>,
) -> StoreResult<Option<RecallReply>> {
    let zone = zone(store, agent, question).await?;
    let (mut search, time) = question.search(zone).map_err(|error| StoreError::Refused(error.to_string()))?;
    if let Some(embedder) = embedder.filter(|_| search.may_search_by_meaning()) {
        search.meaning = embedder.question(question.words()).await;
    }
    let Some(hits) = store.search(agent, &search).await? else {
        return Ok(None);
    };
    let query = search
        .query
        .with_terms(|index| search.query.terms().get(index).is_some_and(|term| hits.terms.contains(term)));
    let found = hits.found.iter().map(|found| recall_match(found, &hits.terms, &query, redactor));
    Ok(Some(RecallReply {
        agent_id: agent.clone(),
        time,
        has_more: hits.has_more,
        unsearched_messages: hits.unsearched,
        found: found.collect(),
        terms: hits.terms.iter().map(Term::label).collect(),
    }))
}

/// Returns the time zone of the agent. Reading it costs a count of pending exchanges, so it is read only if the
/// question names a time.
async fn zone(store: &dyn Store, agent: &AgentId, question: &ArchiveQuestion) -> StoreResult<Zone> {
    if !question.names_time() {
        return Ok(Zone::UTC);
    }
    let row = store.agent(agent).await?;
    let name = row.and_then(|row| row.settings.time_zone);
    Ok(name.as_deref().and_then(Zone::parse).unwrap_or_default())
}

fn recall_match(found: &FoundExchange, terms: &[Term], query: &Query, redactor: &Redactor) -> RecallMatch {
    let placed = &found.placed;
    let exchange = &placed.exchange;
    let headline = exchange.headline.clone().redacted(redactor);
    let mut hits: Vec<&StoredMessage> = found.hits.iter().take(EXCERPTS_MAX).collect();
    hits.sort_by_key(|hit| hit.seq);
    RecallMatch {
        exchange: exchange.exchange,
        continues: headline.continues,
        place: placed.place,
        title: headline.title,
        started_at: exchange.opened_at,
        ended_at: exchange.last_at,
        tokens: exchange.tokens,
        evicted_at: placed.evicted_at,
        summary_version: placed.summary_version,
        missing: found.missing.iter().filter_map(|term| terms.get(*term)).map(Term::label).collect(),
        excerpts: hits.into_iter().map(|hit| excerpt(hit, query, redactor)).collect(),
    }
}

/// Returns an excerpt of a found message. Secrets are redacted before the text is cut, because half a secret wouldn't
/// be recognised. The excerpt is data: no reader may render it or follow it.
fn excerpt(stored: &StoredMessage, query: &Query, redactor: &Redactor) -> Excerpt {
    let text = searchable(&stored.message);
    let line = query.excerpt(&redactor.redact(&text));
    let text = quoted(&defanged(&line), EXCERPT_CHARS_MAX);
    Excerpt {
        seq: stored.seq,
        kind: stored.message.kind.name().to_owned(),
        said_at: stored.said_at,
        // The mark of a quotation is left out, because the kind already says who said this.
        text: text.strip_prefix(QUOTE_MARK).unwrap_or(&text).to_owned(),
    }
}

/// Returns the messages of an exchange verbatim; `None` if the agent has no exchange with this number.
///
/// # Errors
/// The store's errors.
pub async fn expand(
    store: &dyn Store,
    agent: &AgentId,
    exchange: i64,
    query: ExpandQuery,
) -> StoreResult<Option<ExpandReply>> {
    let range = MessageRange {
        messages_max: query.limit.clamp(1, MESSAGES_MAX),
        is_current: false,
        // The preamble consists only of instructions.
        scope: if exchange == PREAMBLE { MessageScope::All } else { query.scope },
        ..part(query.after_seq)
    };
    let Some(mut expanded) = store.expand(agent, exchange, range).await? else {
        return Ok(None);
    };
    let rows = store.legs(agent, exchange).await?;
    settle(std::iter::once(&mut expanded.placed.exchange), rows.last());
    let legs = Legs::of(&rows, exchange);
    Ok(Some(reply(agent, &expanded, legs, query.format)))
}

fn reply(
    agent: &AgentId,
    expanded: &ExpandedExchange,
    legs: Option<Legs>,
    format: Option<RequestFormat>,
) -> ExpandReply {
    let placed = &expanded.placed;
    let exchange = &placed.exchange;
    let last = expanded.messages.last().filter(|_| expanded.has_more);
    let (body, notes) = match format {
        Some(format) => {
            let (body, notes) = outgoing(expanded, format);
            (Some(body), notes)
        }
        None => (None, Vec::new()),
    };
    ExpandReply {
        agent_id: agent.clone(),
        exchange: exchange.exchange,
        continues: exchange.headline.continues,
        legs,
        source_agent_id: placed.source.clone(),
        place: placed.place,
        state: exchange.state,
        started_at: exchange.opened_at,
        ended_at: exchange.last_at,
        tokens: exchange.tokens,
        evicted_at: placed.evicted_at,
        summary_version: placed.summary_version,
        messages: expanded.messages.iter().map(shown_message).collect(),
        next_after: last.map(|last| last.seq),
        body,
        notes,
    }
}

fn shown_message(stored: &StoredMessage) -> ShownMessage {
    let message = &stored.message;
    // A program that writes to the database may have stored something that isn't JSON. It is shown as a JSON string.
    let payload = RawValue::from_string(message.payload.clone())
        .or_else(|_| RawValue::from_string(Value::from(message.payload.as_str()).to_string()));
    ShownMessage {
        seq: stored.seq,
        kind: message.kind.name().to_owned(),
        speaker: message.speaker.as_deref().map(one_line),
        said_at: stored.said_at,
        tokens: stored.tokens,
        forgotten: message.is_forgotten(),
        format: message.format.name().to_owned(),
        payload: payload.expect("a text can be written as JSON"),
    }
}

/// Returns the messages in the form of a provider's request, and notes about what that form can't express.
fn outgoing(expanded: &ExpandedExchange, format: RequestFormat) -> (Value, Vec<String>) {
    let exchange = &expanded.placed.exchange;
    let input = ContextInput {
        exchanges: vec![SourceExchange {
            exchange: exchange.exchange,
            first_leg: exchange.exchange,
            is_open: exchange.state == ExchangeState::Open,
            messages: expanded.messages.iter().map(StoredMessage::source).collect(),
        }],
        ..ContextInput::default()
    };
    let options = ContextOptions {
        max_tokens: 0,
        ends_with_user: format.ends_with_user(),
        names_speakers: format.names_speakers(),
        system_in_place: format.takes_system_in_place(),
        ..ContextOptions::default()
    };
    let counter = tokenizer::ceiling_counter();
    let context = build(&input, &options, counter.as_ref());
    let outgoing = render(format, &context.turns);
    (outgoing.body, outgoing.notes)
}
