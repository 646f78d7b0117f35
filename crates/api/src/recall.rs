//! Recall and expand: the archive, found by words or by the number that a line of a summary names. One function each for
//! the command line and for HTTP.

mod range;
mod text;
pub mod window;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use recapd_core::{
    domain::{
        agent::AgentId,
        context::{ContextInput, ContextOptions, SourceExchange, build},
        exchange::ExchangeState,
        legs::{Legs, settle},
        neutralize::{defanged, quoted},
        recall::{EXCERPT_CHARS_MAX, Query, Term, searchable},
        redaction::Redactor,
        text::one_line,
        time::Timestamp,
    },
    formats::outgoing::{RequestFormat, render},
    tokenizer,
};
use recapd_store::{
    ExchangePlace, ExpandedExchange, FoundExchange, Hit, MessageRange, Store, StoreResult, StoredMessage,
    page::{PART_MESSAGES_MAX, part},
};

pub use range::{RANGE_MAX, Range};
pub use text::{INDENT, expanded_text, expanded_texts, found_list, found_text, message_text};

/// Exchanges shown unless more are asked for.
pub const FOUND_SHOWN: i64 = 10;
/// The most exchanges shown.
pub const FOUND_MAX: i64 = 50;
/// Excerpts shown of one exchange.
const EXCERPTS_MAX: usize = 3;
/// Messages of an exchange shown unless said otherwise.
pub const MESSAGES_SHOWN: i64 = 200;
/// The most messages of an exchange shown at once.
pub const MESSAGES_MAX: i64 = PART_MESSAGES_MAX;

/// What a search found, best first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Recall)]
pub struct RecallReply {
    /// Whose archive.
    pub agent_id: AgentId,
    /// What was looked for, as it was understood: words and phrases.
    pub terms: Vec<String>,
    /// The exchanges.
    pub found: Vec<RecallMatch>,
    /// More exchanges were found than are shown.
    pub has_more: bool,
    /// So many of its messages wait to be indexed and were not searched.
    pub unsearched_messages: i64,
}

/// An exchange in which something was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = FoundExchange)]
pub struct RecallMatch {
    /// Its number.
    pub exchange: i64,
    /// The first leg of its exchange, if it is a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// Where it stands.
    pub place: ExchangePlace,
    /// The first line of what was asked in it; of a later leg empty.
    pub title: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When the last thing in it was said.
    pub ended_at: Timestamp,
    /// What it costs to read it whole.
    pub tokens: i64,
    /// When it left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers it, if one does.
    pub summary_version: Option<i64>,
    /// The terms that it doesn't hold.
    pub missing: Vec<String>,
    /// Where the terms stand, secrets redacted.
    pub excerpts: Vec<Excerpt>,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Excerpt {
    /// The message's number.
    pub seq: i64,
    /// Its kind.
    pub kind: String,
    /// When it was said.
    pub said_at: Timestamp,
    /// The piece, in one line.
    pub text: String,
}

/// An exchange as it was.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ExpandedExchange)]
pub struct ExpandReply {
    /// Who asked.
    pub agent_id: AgentId,
    /// Its number.
    pub exchange: i64,
    /// The first leg of its exchange, if it is a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<i64>,
    /// The legs of its exchange, if that has more than this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legs: Option<Legs>,
    /// Whose messages it holds.
    pub source_agent_id: AgentId,
    /// Where it stands.
    pub place: ExchangePlace,
    /// Whether more is expected in its exchange.
    pub state: ExchangeState,
    /// When it began.
    pub started_at: Timestamp,
    /// When the last thing in it was said.
    pub ended_at: Timestamp,
    /// What it costs.
    pub tokens: i64,
    /// When it left the window, if it did.
    pub evicted_at: Option<Timestamp>,
    /// The first version of the summary that covers it, if one does.
    pub summary_version: Option<i64>,
    /// Its messages, verbatim.
    pub messages: Vec<ShownMessage>,
    /// The last number shown, if there are more messages: ask for those after it.
    pub next_after: Option<i64>,
    /// The messages as content of a provider's request, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// What could not be carried over to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A message, verbatim.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShownMessage {
    /// Its number.
    pub seq: i64,
    /// Its kind.
    pub kind: String,
    /// Who said it, in a shared conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// When.
    pub said_at: Timestamp,
    /// What it costs.
    pub tokens: i64,
    /// Nothing is left of it but its number and its time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
    /// How `payload` is written.
    pub format: String,
    /// What the client sent.
    #[schema(value_type = Value)]
    pub payload: Box<RawValue>,
}

/// Which part of an exchange to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandQuery {
    /// Messages after this one.
    pub after_seq: i64,
    /// At most so many.
    pub limit: i64,
    /// As content of this provider's request, too.
    pub format: Option<RequestFormat>,
}

impl Default for ExpandQuery {
    fn default() -> Self {
        Self {
            after_seq: 0,
            limit: MESSAGES_SHOWN,
            format: None,
        }
    }
}

/// Searches the archive of `agent`; none if there is no such agent. Exchanges that hold more of the terms come first, then
/// those that fit better; what isn't in the index yet comes before what is, newest first.
///
/// # Errors
/// What the store fails with.
pub async fn search(
    store: &dyn Store,
    agent: &AgentId,
    query: &Query,
    limit: i64,
    redactor: &Redactor,
) -> StoreResult<Option<RecallReply>> {
    let Some(searched) = store.search(agent, query).await? else {
        return Ok(None);
    };
    let mut weighed: Vec<WeighedMatch> = searched
        .found
        .into_iter()
        .map(|found| WeighedMatch::of(found, query))
        .collect();
    weighed.sort_by(WeighedMatch::compare);
    let shown = usize::try_from(limit.clamp(1, FOUND_MAX)).unwrap_or(1);
    Ok(Some(RecallReply {
        agent_id: agent.clone(),
        terms: query.terms().iter().map(Term::label).collect(),
        has_more: weighed.len() > shown,
        unsearched_messages: searched.unsearched,
        found: weighed
            .into_iter()
            .take(shown)
            .map(|weighed| weighed.shown(query, redactor))
            .collect(),
    }))
}

/// A found exchange with the terms that each of its hits holds.
struct WeighedMatch {
    found: FoundExchange,
    holds: Vec<Vec<bool>>,
    missing: Vec<usize>,
    rank: Option<f64>,
}

impl WeighedMatch {
    fn of(found: FoundExchange, query: &Query) -> Self {
        let holds: Vec<Vec<bool>> = found
            .hits
            .iter()
            .map(|hit| query.found_in(&searchable(&hit.message.message)))
            .collect();
        let is_missing = |term: &usize| !holds.iter().any(|holds| holds.get(*term) == Some(&true));
        let missing = (0..query.terms().len()).filter(is_missing).collect();
        let ranks = found.hits.iter().map(|hit| hit.rank);
        // None, which is new, is less than any rank.
        let rank = ranks.min_by(|one, other| order(*one, *other)).flatten();
        Self {
            found,
            holds,
            missing,
            rank,
        }
    }

    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let number = |weighed: &Self| weighed.found.placed.exchange.exchange;
        self.missing
            .len()
            .cmp(&other.missing.len())
            .then_with(|| order(self.rank, other.rank))
            .then_with(|| number(other).cmp(&number(self)))
    }

    fn shown(self, query: &Query, redactor: &Redactor) -> RecallMatch {
        let placed = self.found.placed;
        let terms = query.terms();
        let mut hits: Vec<(usize, Hit)> = self
            .holds
            .iter()
            .map(|holds| holds.iter().filter(|holds| **holds).count())
            .zip(self.found.hits)
            .collect();
        // The hits with most terms, in the order in which they were said.
        hits.sort_by(|(one, first), (other, second)| {
            other.cmp(one).then_with(|| order(first.rank, second.rank))
        });
        hits.truncate(EXCERPTS_MAX);
        hits.sort_by_key(|(_, hit)| hit.message.seq);
        let headline = placed.exchange.headline.redacted(redactor);
        RecallMatch {
            exchange: placed.exchange.exchange,
            continues: headline.continues,
            place: placed.place,
            title: headline.title,
            started_at: placed.exchange.opened_at,
            ended_at: placed.exchange.last_at,
            tokens: placed.exchange.tokens,
            evicted_at: placed.evicted_at,
            summary_version: placed.summary_version,
            missing: self
                .missing
                .iter()
                .filter_map(|&term| terms.get(term))
                .map(Term::label)
                .collect(),
            excerpts: hits
                .iter()
                .map(|(_, hit)| excerpt(&hit.message, query, redactor))
                .collect(),
        }
    }
}

fn order(one: Option<f64>, other: Option<f64>) -> std::cmp::Ordering {
    match (one, other) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

/// Secrets go before anything is cut: half of one has no shape. What is left is data: it neither renders nor orders.
fn excerpt(stored: &StoredMessage, query: &Query, redactor: &Redactor) -> Excerpt {
    let text = searchable(&stored.message);
    let line = query.excerpt(&redactor.redact(&text));
    Excerpt {
        seq: stored.seq,
        kind: stored.message.kind.name().to_owned(),
        said_at: stored.said_at,
        text: quoted(&defanged(&line), EXCERPT_CHARS_MAX),
    }
}

/// The exchange of that number as it was; none if the agent has no such one.
///
/// # Errors
/// What the store fails with.
pub async fn expand(
    store: &dyn Store,
    agent: &AgentId,
    exchange: i64,
    query: ExpandQuery,
) -> StoreResult<Option<ExpandReply>> {
    let range = MessageRange {
        messages_max: query.limit.clamp(1, MESSAGES_MAX),
        is_current: false,
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
    // What programs wrote past recapd may be no JSON; it is shown as text then.
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

/// The messages as a request by itself.
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
