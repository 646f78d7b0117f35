//! Messages with a given size and time, and requests to stores made from them.

use recapd_core::{
    domain::{
        agent::AgentId,
        budget::OnOverflow,
        context::ContextOptions,
        exchange::{Exchange, LedgerEntry},
        message::{Format, Message},
        preset::Basis,
        redaction::Redactor,
        summary::{
            compaction::{SummaryPolicy, compose_with},
            coverage::items_from,
            fact::{FactChanges, FactClosing, FactDraft, FactKind},
            item::{ExchangeRange, Importance, Item, ItemDraft, Origin},
            state,
        },
        time::{MINUTE_MS, SECOND_MS, Timestamp},
        transcript::{Transcript, TranscriptLimits},
        window::Budget,
    },
    formats, tokenizer,
};
use recapd_store::{
    AppendRequest, AppendRules, AttemptError, ClaimRequest, Material, MaterialLimits, Patch, PreparedMessage,
    RunRecord, StoredExchange,
};
use serde_json::json;

use super::backend::Backend;

pub(crate) const T0: Timestamp = Timestamp(1_795_000_000_000);
/// Tokens of a turn, and the budget of [`rules`].
pub(crate) const TURN_TOKENS: i64 = 100;
pub(crate) const LEASE_MS: i64 = 15_000;
/// No limits: everything that is pending.
pub(crate) const ALL: MaterialLimits = MaterialLimits { exchanges_max: 1_000, tokens_max: 1_000_000 };

/// A window of one turn: each turn leaves when the next one begins.
pub(crate) fn rules() -> AppendRules {
    AppendRules {
        budget: Budget::new(TURN_TOKENS, 1.0),
        on_overflow: OnOverflow::Evict,
        basis: Basis::default(),
        context: ContextOptions::default(),
        idle_gap_ms: 0,
        batch_exchanges: 3,
        batch_tokens_min: 0,
        debounce_ms: 2_000,
        max_wait_ms: 2 * MINUTE_MS,
        revive_after_ms: 10 * MINUTE_MS,
        policy: SummaryPolicy::default(),
    }
}

pub(crate) fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

/// The time this many minutes after [`T0`].
pub(crate) fn minute(minutes: i64) -> Timestamp {
    T0.plus_ms(minutes * MINUTE_MS)
}

pub(crate) fn native(kind: &str, content: &str) -> Message {
    let payload = if kind == "tool_call" {
        json!({"kind": kind, "name": content, "arguments": {}})
    } else {
        json!({"kind": kind, "content": content})
    };
    formats::parse(Format::Native, &payload.to_string()).unwrap()
}

/// A message of `kind` with `tokens`, said at `at`.
pub(crate) fn said(kind: &str, content: &str, tokens: i64, at: Timestamp) -> PreparedMessage {
    prepared(native(kind, content), tokens, at)
}

/// The same as [`said`], and important to its session.
pub(crate) fn important(kind: &str, content: &str, tokens: i64, at: Timestamp) -> PreparedMessage {
    let payload = json!({"kind": kind, "content": content, "name": content, "important": true});
    let message = formats::parse(Format::Native, &payload.to_string()).unwrap();
    prepared(message, tokens, at)
}

/// Prepares `message` with `tokens`, said at `at`.
pub(crate) fn prepared(message: Message, tokens: i64, at: Timestamp) -> PreparedMessage {
    let entry = LedgerEntry::new(&message, tokens, at, &Redactor::standard());
    PreparedMessage { message, entry }
}

/// A turn of [`TURN_TOKENS`]: question and answer, a second apart.
pub(crate) fn turn(number: i64) -> [PreparedMessage; 2] {
    [
        said("user", &format!("Question {number}"), 40, minute(number)),
        said("assistant", &format!("Answer {number}"), 60, minute(number).plus_ms(SECOND_MS)),
    ]
}

pub(crate) fn turns(numbers: std::ops::RangeInclusive<i64>) -> Vec<PreparedMessage> {
    numbers.flat_map(turn).collect()
}

/// An append under [`rules`], at [`T0`].
pub(crate) fn append(agent: &AgentId, messages: Vec<PreparedMessage>) -> AppendRequest {
    AppendRequest {
        agent: agent.clone(),
        messages,
        key: None,
        count_method: "test".to_owned(),
        rules: rules(),
        replayed: false,
        now: T0,
    }
}

pub(crate) fn claim(owner: &str, limit: i64, now: Timestamp) -> ClaimRequest {
    ClaimRequest { owner: owner.to_owned(), limit, lease_ms: LEASE_MS, now }
}

pub(crate) fn numbers(material: &Material) -> Vec<i64> {
    let exchanges = material.exchanges.iter();
    exchanges.map(|stored| stored.exchange.exchange).collect()
}

/// An item for each exchange of `material`, as a model would write it.
pub(crate) fn items(material: &Material) -> Vec<Item> {
    let rows: Vec<Exchange> = material.exchanges.iter().map(|stored| stored.exchange.clone()).collect();
    let drafts: Vec<ItemDraft> = rows.iter().map(|row| draft(row.exchange)).collect();
    items_from(&drafts, &rows, Origin::Model).unwrap()
}

fn draft(exchange: i64) -> ItemDraft {
    ItemDraft {
        exchanges: ExchangeRange { first: exchange, last: exchange },
        importance: Importance::Feature,
        text: format!("Text of exchange {exchange}"),
        brief: format!("Brief of exchange {exchange}"),
        gist: format!("Gist of exchange {exchange}"),
    }
}

/// An update that appends `added` to the items of `material`, finished at `now`.
pub(crate) fn patch(material: &Material, added: Vec<Item>, now: Timestamp) -> Patch {
    stating(material, added, &FactChanges::default(), now)
}

/// The same as [`patch`], with the accepted changes of facts.
pub(crate) fn stating(material: &Material, added: Vec<Item>, changes: &FactChanges, now: Timestamp) -> Patch {
    let all: Vec<Item> = material.items.iter().chain(&added).cloned().collect();
    let counter = tokenizer::ceiling_counter();
    let transcripts: Vec<Transcript> = material.exchanges.iter().map(transcript).collect();
    let facts = state::apply(&material.facts, std::slice::from_ref(changes), &transcripts);
    let composed =
        compose_with(&facts.holding(&material.facts), &all, now, &SummaryPolicy::default(), counter.as_ref());
    Patch {
        version: material.version,
        lo: material.lo,
        hi: material.hi,
        exchanges: i64::try_from(material.exchanges.len()).unwrap(),
        added: added.into_iter().map(|item| (item, false)).collect(),
        dropped: Vec::new(),
        removed: Vec::new(),
        facts,
        content: composed.document,
        token_count: composed.tokens,
        path: composed.path,
        as_of: now,
        next_ageing_at: composed.next_change,
        has_more: false,
        park: None,
        rearm_wait_ms: rules().max_wait_ms,
        batch_exchanges: rules().batch_exchanges,
        batch_tokens_min: 0,
        run: run(now),
    }
}

fn transcript(stored: &StoredExchange) -> Transcript {
    let messages: Vec<Message> = stored
        .messages
        .iter()
        .map(|stored| Message { at: Some(stored.said_at), ..stored.message.clone() })
        .collect();
    let limits = TranscriptLimits::default();
    Transcript::new(&stored.exchange, &messages, limits, &Redactor::standard())
}

pub(crate) fn added(kind: FactKind, text: &str, exchange: i64) -> FactDraft {
    FactDraft { kind, text: text.to_owned(), exchange }
}

/// A new fact for each exchange of `material`; the newest exchange closes the oldest fact.
pub(crate) fn facts(material: &Material) -> FactChanges {
    let told = numbers(material);
    let oldest = material.facts.first().zip(told.last());
    FactChanges {
        add: told
            .iter()
            .map(|&exchange| added(FactKind::State, &format!("State as of {exchange}"), exchange))
            .collect(),
        replace: Vec::new(),
        close: oldest
            .map(|(fact, &exchange)| FactClosing { fact: fact.fact, exchange })
            .into_iter()
            .collect(),
    }
}

pub(crate) fn run(finished_at: Timestamp) -> RunRecord {
    RunRecord { started_at: finished_at.plus_ms(-SECOND_MS), finished_at, ..RunRecord::default() }
}

/// An error for which an update waits for a provider.
pub(crate) fn rests() -> AttemptError {
    AttemptError { class: "provider_network".to_owned(), message: "connection reset".to_owned() }
}

/// Makes an agent without messages, unless it exists.
pub(crate) async fn make(db: &dyn Backend, name: &str) {
    db.store().append(append(&agent(name), Vec::new())).await.unwrap();
}
