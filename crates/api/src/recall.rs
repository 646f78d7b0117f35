//! Recall and expand: find exchanges by words, and show them by the numbers that a summary names. For the command line and for HTTP.

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

pub const FOUND_SHOWN: i64 = 10;
pub const FOUND_MAX: i64 = 50;
const EXCERPTS_MAX: usize = 3;
pub const MESSAGES_SHOWN: i64 = 200;
pub const MESSAGES_MAX: i64 = PART_MESSAGES_MAX;

/// The results of a search, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Recall)]
pub struct RecallReply {
    pub agent_id: AgentId,
    /// The words and phrases that were looked for: those of the query that say something, of very many the rarest.
    pub terms: Vec<String>,
    /// The time that the query names. What was said then comes earlier; if the query has no other words, nothing else is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<QuestionTime>,
    pub found: Vec<RecallMatch>,
    /// True if more exchanges were found than are shown.
    pub has_more: bool,
    /// The number of messages that weren't searched, because they aren't indexed yet.
    pub unsearched_messages: i64,
}

/// An exchange that a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = FoundExchange)]
pub struct RecallMatch {
    pub exchange: i64,
    /// The first leg of its exchange, if this is a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// Its place relative to the window and the summary.
    pub place: ExchangePlace,
    /// The first line of the user's message; empty for a later leg.
    pub title: String,
    /// When its first message was said.
    pub started_at: Timestamp,
    /// When its last message was said.
    pub ended_at: Timestamp,
    /// The size of the whole exchange in tokens.
    pub tokens: i64,
    /// When it left the window; null if it didn't.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers it; null for none.
    pub summary_version: Option<i64>,
    /// The terms that it doesn't contain.
    pub missing: Vec<String>,
    /// The places of the terms, with secrets redacted.
    pub excerpts: Vec<Excerpt>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Excerpt {
    pub seq: i64,
    pub kind: String,
    pub said_at: Timestamp,
    /// The piece, in one line.
    pub text: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ExpandedExchange)]
pub struct ExpandReply {
    /// The agent that was asked.
    pub agent_id: AgentId,
    pub exchange: i64,
    /// The first leg of its exchange, if this is a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// The legs of its exchange, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<Legs>,
    /// The agent whose messages these are; for a fork, this can be an ancestor.
    pub source_agent_id: AgentId,
    /// Its place relative to the window and the summary.
    pub place: ExchangePlace,
    /// `open` if more is expected in its exchange.
    pub state: ExchangeState,
    /// When its first message was said.
    pub started_at: Timestamp,
    /// When its last message was said.
    pub ended_at: Timestamp,
    pub tokens: i64,
    /// When it left the window; null if it didn't.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers it; null for none.
    pub summary_version: Option<i64>,
    pub messages: Vec<ShownMessage>,
    /// The number of the last message shown, if there are more; null if there aren't.
    pub next_after: Option<i64>,
    /// The messages as content of a provider's request, if a provider was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What could not be carried over to that provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A message, verbatim.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShownMessage {
    pub seq: i64,
    pub kind: String,
    /// Its speaker, in a shared conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    pub said_at: Timestamp,
    pub tokens: i64,
    /// True if only its number, kind and time are left.
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
    /// Only messages after this number.
    pub after_seq: i64,
    pub limit: i64,
    /// Adds the messages as content of this provider's request.
    pub format: Option<RequestFormat>,
    pub scope: MessageScope,
}

impl Default for ExpandQuery {
    fn default() -> Self {
        Self {
            after_seq: 0,
            limit: MESSAGES_SHOWN,
            format: None,
            scope: MessageScope::All,
        }
    }
}

/// The names of scopes in requests.
pub const SCOPES: [(&str, MessageScope); 2] = [
    ("all", MessageScope::All),
    ("conversation", MessageScope::Conversation),
];

/// Searches the archive of `agent`, with a second list if there is an `embedder`. Returns `None` if there is no such agent.
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
    let (mut search, time) = question
        .search(zone)
        .map_err(|error| StoreError::Refused(error.to_string()))?;
    if let Some(embedder) = embedder.filter(|_| search.may_search_by_meaning()) {
        search.meaning = embedder.question(question.words()).await;
    }
    let Some(hits) = store.search(agent, &search).await? else {
        return Ok(None);
    };
    let query = search.query.with_terms(|index| {
        search
            .query
            .terms()
            .get(index)
            .is_some_and(|term| hits.terms.contains(term))
    });
    let found = hits
        .found
        .iter()
        .map(|found| recall_match(found, &hits.terms, &query, redactor));
    Ok(Some(RecallReply {
        agent_id: agent.clone(),
        time,
        has_more: hits.has_more,
        unsearched_messages: hits.unsearched,
        found: found.collect(),
        terms: hits.terms.iter().map(Term::label).collect(),
    }))
}

/// The time zone in which the question's days are meant. An agent's row counts what is pending, so it is read only if there are days.
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
        missing: found
            .missing
            .iter()
            .filter_map(|term| terms.get(*term))
            .map(Term::label)
            .collect(),
        excerpts: hits
            .into_iter()
            .map(|hit| excerpt(hit, query, redactor))
            .collect(),
    }
}

/// Secrets are redacted before anything is cut, as half a secret isn't recognised. The result is data: nothing in it is
/// rendered or obeyed.
fn excerpt(stored: &StoredMessage, query: &Query, redactor: &Redactor) -> Excerpt {
    let text = searchable(&stored.message);
    let line = query.excerpt(&redactor.redact(&text));
    let text = quoted(&defanged(&line), EXCERPT_CHARS_MAX);
    Excerpt {
        seq: stored.seq,
        kind: stored.message.kind.name().to_owned(),
        said_at: stored.said_at,
        // Its kind says who said it.
        text: text.strip_prefix(QUOTE_MARK).unwrap_or(&text).to_owned(),
    }
}

/// Returns the exchange of that number as it was; `None` if the agent has no such exchange.
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
        // The preamble is nothing but instructions.
        scope: if exchange == PREAMBLE {
            MessageScope::All
        } else {
            query.scope
        },
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
    // A program that writes to the database may have stored something that isn't JSON; it is shown as text.
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

/// Writes the messages as a request of their own.
fn outgoing(expanded: &ExpandedExchange, format: RequestFormat) -> (Value, Vec<String>) {
    let exchange = &expanded.placed.exchange;
    let input = ContextInput {
        exchanges: vec![SourceExchange {
            exchange: exchange.exchange,
            begins_with: exchange.exchange,
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
