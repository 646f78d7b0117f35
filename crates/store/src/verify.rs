//! The findings of `recapd verify`, which checks each invariant that stored data can prove.

use serde::Serialize;

use super::AgentRow;
use recapd_core::domain::{
    agent::AgentId,
    number::i64_or_max,
    summary::{compaction::SUMMARY_TOKENS_MAX, fact::FACTS_MAX, item::ExchangeRange},
    time::Timestamp,
};

/// The ceiling of every document, in o200k tokens. `domain::summary::compaction` enforces it; this module only checks stored
/// documents against it.
const CEILING_TOKENS: i64 = SUMMARY_TOKENS_MAX;

/// The invariants that are checked on stored data, numbered as in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// 1. Messages are numbered without a gap, and every exchange has its messages.
    NothingLost,
    /// 2. Each message belongs to the exchange or leg whose range holds it. A later leg follows the one that it continues, and
    ///    begins with a round.
    ExchangesAtomic,
    /// 3. The window fits its budget, except for the newest leg, and the running totals are right.
    WindowFits,
    /// 4. Every exchange has exactly one state, and every covered one is in exactly one item.
    OneState,
    /// 5. No document or version exceeds 10,000 tokens, by the exact counter.
    Ceiling,
    /// 7. Versions form a chain without a gap, and one lease applied each.
    ExactlyOnce,
    /// 9. Items have the times and tokens of their exchanges.
    ClockAges,
}

impl Invariant {
    /// In order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::NothingLost,
        Self::ExchangesAtomic,
        Self::WindowFits,
        Self::OneState,
        Self::Ceiling,
        Self::ExactlyOnce,
        Self::ClockAges,
    ];

    /// Returns its number in ARCHITECTURE.md and its statement.
    pub fn title(self) -> (u8, &'static str) {
        match self {
            Self::NothingLost => (1, "nothing is lost"),
            Self::ExchangesAtomic => (2, "legs are atomic"),
            Self::WindowFits => (3, "the window fits"),
            Self::OneState => (4, "every exchange is in exactly one state"),
            Self::Ceiling => (5, "the summary never exceeds its ceiling"),
            Self::ExactlyOnce => (7, "an update applies exactly once"),
            Self::ClockAges => (9, "the clock ages items, never the model"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    pub invariant: Invariant,
    /// What was found.
    pub found: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Everything except the checks that take long.
    #[default]
    Plain,
    /// Also counts the tokens of messages again, with the tokenizer that counted them.
    Deep,
}

/// Something that wasn't checked, so that the result for an invariant doesn't include it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    pub invariant: Invariant,
    /// What wasn't checked, in the plural.
    pub what: &'static str,
    pub count: i64,
}

/// Limits how many breaches of one agent are listed.
const BREACHES_NAMED_MAX: usize = 1_000;

/// What is wrong, and what wasn't checked.
#[derive(Debug, Default)]
pub(super) struct VerifyFindings {
    breaches: Vec<Breach>,
    more: i64,
    unseen: Vec<Unseen>,
}

impl VerifyFindings {
    pub(super) fn add(&mut self, invariant: Invariant, found: String) {
        if self.breaches.len() < BREACHES_NAMED_MAX {
            self.breaches.push(Breach { invariant, found });
        } else {
            self.more += 1;
        }
    }

    /// Records something that wasn't checked, unless its count is 0.
    pub(super) fn add_unseen(&mut self, unseen: Unseen) {
        if unseen.count > 0 {
            self.unseen.push(unseen);
        }
    }

    pub(super) fn count(&self) -> i64 {
        i64_or_max(self.breaches.len()) + self.more
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentReport {
    pub agent_id: AgentId,
    pub messages: i64,
    pub exchanges: i64,
    /// Of these: covered by the summary.
    pub covered: i64,
    /// Of these: evicted, not yet summarised.
    pub pending: i64,
    /// Of these: in the window.
    pub in_window: i64,
    /// Of these: set aside.
    pub set_aside: i64,
    /// Tokens of the document, by the exact counter.
    pub summary_tokens: i64,
    pub breaches: Vec<Breach>,
    pub unseen: Vec<Unseen>,
}

/// The stored data of one agent.
pub(super) struct AgentData {
    pub(super) row: AgentRow,
    /// The first exchange after which running totals are outdated. Its own total is right.
    pub(super) totals_from: Option<i64>,
    pub(super) messages: i64,
    pub(super) last_seq: i64,
    /// Messages up to this number belong to the agent's parent.
    pub(super) fork_seq: i64,
    /// Messages that are outside of the range of the exchange that they name.
    pub(super) strays: i64,
    /// Pins of messages that don't exist or were set aside.
    pub(super) pins_astray: i64,
    /// Versions of notes whose messages don't write them.
    pub(super) notes_astray: i64,
    pub(super) exchanges: Vec<ExchangeData>,
    pub(super) items: Vec<ItemData>,
    pub(super) versions: Vec<VersionData>,
    pub(super) facts: Vec<FactData>,
    /// The document's version.
    pub(super) version: i64,
    /// The document's tokens, as stored.
    pub(super) document_tokens: i64,
    /// The document's tokens, by the exact counter.
    pub(super) document_counted: i64,
}

/// One exchange, and the figures of its messages.
pub(super) struct ExchangeData {
    pub(super) exchange: i64,
    pub(super) tokens: i64,
    pub(super) tokens_before: i64,
    pub(super) set_aside: bool,
    pub(super) opened_at: Timestamp,
    pub(super) last_at: Timestamp,
    pub(super) messages_expected: i64,
    pub(super) messages: i64,
    pub(super) message_tokens: i64,
    /// How many messages are sent to a model, according to the exchange.
    pub(super) sent: i64,
    /// How many messages are sent to a model, according to the messages.
    pub(super) messages_sent: i64,
    pub(super) is_preamble: bool,
    /// The first leg of the exchange, if this is a later leg.
    pub(super) continues: Option<i64>,
    /// The exchange number at which this leg begins, if it isn't the first leg.
    pub(super) leg_from: Option<i64>,
    /// True if the first message is from the model.
    pub(super) is_begun_by_model: bool,
}

pub(super) struct ItemData {
    pub(super) item: i64,
    /// The number of the item that this one was copied from, or its own number.
    pub(super) original: i64,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) source_tokens: i64,
    /// `None` if the item isn't a copy; otherwise true if it equals its original.
    pub(super) equals_original: Option<bool>,
    pub(super) ranges: Vec<ExchangeRange>,
}

pub(super) struct VersionData {
    pub(super) version: i64,
    pub(super) covers_after: i64,
    pub(super) covers_through: i64,
    /// True if it may cover less than the version before.
    pub(super) goes_back: bool,
    /// Its tokens, as stored.
    pub(super) tokens: i64,
    /// Its tokens, by the exact counter.
    pub(super) counted: i64,
}

pub(super) struct FactData {
    pub(super) fact: i64,
    pub(super) exchange: i64,
    /// True if the fact's exchange was set aside.
    pub(super) is_set_aside: bool,
    pub(super) added_version: i64,
    pub(super) closed_version: Option<i64>,
    /// True if the row names what ended the fact.
    pub(super) is_ended: bool,
    /// The last number that the agent has given to a fact.
    pub(super) last_fact: i64,
}

/// Checks the data, and adds what the queries have found.
pub(super) fn check(data: &AgentData, findings: VerifyFindings) -> AgentReport {
    let live: Vec<&ExchangeData> = data.exchanges.iter().filter(|e| !e.set_aside && !e.is_preamble).collect();
    let mut breaches = findings.breaches;
    if let Some(last) = breaches.last().filter(|_| findings.more > 0) {
        let found = format!("{} more breaches of this agent are not named", findings.more);
        breaches.push(Breach { invariant: last.invariant, found });
    }
    check_messages(data, &mut breaches);
    check_legs(&live, &mut breaches);
    check_window(data, &live, &mut breaches);
    check_states(data, &live, &mut breaches);
    check_ceiling(data, &mut breaches);
    check_versions(data, &live, &mut breaches);
    check_items(data, &live, &mut breaches);
    check_facts(data, &mut breaches);
    let ledger = &data.row.ledger;
    let count = |from: i64, through: i64| {
        let in_range = live.iter().filter(|e| from <= e.exchange && e.exchange <= through);
        i64_or_max(in_range.count())
    };
    AgentReport {
        agent_id: data.row.agent.clone(),
        messages: data.messages,
        exchanges: count(1, i64::MAX),
        covered: count(1, ledger.summarized_through),
        pending: count(ledger.summarized_through + 1, ledger.first_exchange - 1),
        in_window: count(ledger.first_exchange, i64::MAX),
        set_aside: i64_or_max(data.exchanges.iter().filter(|e| e.set_aside).count()),
        summary_tokens: data.document_counted,
        breaches,
        unseen: findings.unseen,
    }
}

fn breach(breaches: &mut Vec<Breach>, invariant: Invariant, found: String) {
    breaches.push(Breach { invariant, found });
}

fn check_messages(data: &AgentData, breaches: &mut Vec<Breach>) {
    let last_seq = data.row.ledger.last_seq;
    let expected = last_seq - data.fork_seq;
    if data.messages != expected || data.last_seq != last_seq {
        let found = format!(
            "{} messages up to number {} exist, but {expected} were accepted",
            data.messages, data.last_seq
        );
        breach(breaches, Invariant::NothingLost, found);
    }
    if data.strays > 0 {
        let found = format!("{} messages are outside of their exchange", data.strays);
        breach(breaches, Invariant::ExchangesAtomic, found);
    }
    if data.pins_astray > 0 {
        let found = format!("{} pins name messages that don't exist", data.pins_astray);
        breach(breaches, Invariant::NothingLost, found);
    }
    if data.notes_astray > 0 {
        let found = format!("{} versions of notes name messages that don't exist", data.notes_astray);
        breach(breaches, Invariant::NothingLost, found);
    }
    for e in data.exchanges.iter().filter(|e| e.messages != e.messages_expected) {
        let found =
            format!("exchange #{} holds {} of {} messages", e.exchange, e.messages, e.messages_expected);
        breach(breaches, Invariant::NothingLost, found);
    }
}

/// Checks that a later leg directly follows the leg that it continues, and begins with an answer of the model.
fn check_legs(live: &[&ExchangeData], breaches: &mut Vec<Breach>) {
    let mut before: Option<&ExchangeData> = None;
    for e in live {
        let (number, leg_from) = (e.exchange, e.leg_from.unwrap_or(e.exchange));
        let follows = e.continues.is_none_or(|first| {
            let is_behind = before.is_none_or(|before| before.continues.unwrap_or(before.exchange) == first);
            is_behind && first < number && (first + 1..=number).contains(&leg_from)
        });
        let is_whole = e.leg_from != Some(number) || e.is_begun_by_model;
        if !follows || !is_whole || (e.continues.is_none() && e.leg_from.is_some()) {
            let first = e.continues.unwrap_or(number);
            let found = format!("exchange #{number} continues #{first}, but isn't a valid leg of it");
            breach(breaches, Invariant::ExchangesAtomic, found);
        }
        before = Some(e);
    }
}

fn check_window(data: &AgentData, live: &[&ExchangeData], breaches: &mut Vec<Breach>) {
    let ledger = &data.row.ledger;
    let is_settled = |exchange: i64| data.totals_from.is_none_or(|from| exchange <= from);
    let mut total = 0;
    for e in live {
        let is_right = e.tokens_before == total || !is_settled(e.exchange);
        if e.tokens != e.message_tokens || !is_right {
            let found = format!(
                "exchange #{}: {} tokens after {}, its messages say {} after {total}",
                e.exchange, e.tokens, e.tokens_before, e.message_tokens
            );
            breach(breaches, Invariant::WindowFits, found);
        }
        total += e.message_tokens;
    }
    for e in data.exchanges.iter().filter(|e| e.sent != e.messages_sent) {
        let found = format!(
            "exchange #{} says that {} messages are sent, its messages say {}",
            e.exchange, e.sent, e.messages_sent
        );
        breach(breaches, Invariant::WindowFits, found);
    }
    let before =
        live.iter().filter(|e| e.exchange < ledger.first_exchange).map(|e| e.message_tokens).sum::<i64>();
    if before != ledger.tokens_before_window && is_settled(ledger.first_exchange) {
        let found =
            format!("{before} tokens lie before the window, the ledger says {}", ledger.tokens_before_window);
        breach(breaches, Invariant::WindowFits, found);
    }
    let in_window = live.iter().filter(|e| e.exchange >= ledger.first_exchange);
    let (in_window, sent) = in_window.fold((0, 0), |(count, sent), e| (count + 1, sent + e.sent));
    let floor = ledger.floor().unwrap_or(i64::MAX);
    let may_leave = ledger.first_exchange..floor;
    let could_fit = live.iter().any(|e| may_leave.contains(&e.exchange));
    let window = ledger.window_tokens();
    if data.row.budget_tokens > 0 && window > data.row.budget_tokens && could_fit {
        let found =
            format!("{in_window} exchanges of {window} tokens are in a window of {}", data.row.budget_tokens);
        breach(breaches, Invariant::WindowFits, found);
    }
    let ceiling = data.row.max_messages;
    if data.row.kept_budget().is_exceeded_by_messages(sent) && could_fit {
        let found = format!("{in_window} exchanges of {sent} messages are in a window of {ceiling}");
        breach(breaches, Invariant::WindowFits, found);
    }
}

/// Checks that every live exchange up to the watermark is in exactly one item, and that every other exchange is in none.
fn check_states(data: &AgentData, live: &[&ExchangeData], breaches: &mut Vec<Breach>) {
    let ledger = &data.row.ledger;
    let mut ranges: Vec<ExchangeRange> =
        data.items.iter().flat_map(|item| item.ranges.iter().copied()).collect();
    ranges.sort_unstable();
    let overlaps = ranges.windows(2).filter(|pair| matches!(pair, [a, b] if b.first <= a.last)).count();
    if overlaps > 0 {
        breach(breaches, Invariant::OneState, format!("{overlaps} item ranges overlap"));
    }
    let covering = |exchange: i64| {
        let after = ranges.partition_point(|range| range.first <= exchange);
        after.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|range| range.contains(exchange))
    };
    for e in live {
        let (is_covered, should_be) = (covering(e.exchange), e.exchange <= ledger.summarized_through);
        if is_covered != should_be {
            let state = if should_be { "is covered by no item" } else { "is covered but not summarised yet" };
            breach(breaches, Invariant::OneState, format!("exchange #{} {state}", e.exchange));
        }
    }
    let has_pending =
        live.iter().any(|e| e.exchange > ledger.summarized_through && e.exchange < ledger.first_exchange);
    let found = match data.row.pending_since {
        None if has_pending => "exchanges are pending, but the agent's row has no time for it",
        Some(_) if ledger.pending_numbers() == 0 => {
            "nothing is pending, but the agent's row has a time for it"
        }
        _ => return,
    };
    breach(breaches, Invariant::OneState, found.to_owned());
}

fn check_ceiling(data: &AgentData, breaches: &mut Vec<Breach>) {
    let document = ("the document".to_owned(), data.document_tokens, data.document_counted);
    let versions = data.versions.iter().map(|v| (format!("version {}", v.version), v.tokens, v.counted));
    for (name, stored, counted) in std::iter::once(document).chain(versions) {
        if counted > CEILING_TOKENS || stored != counted {
            let found =
                format!("{name} has {counted} tokens, {stored} are stored, {CEILING_TOKENS} are allowed");
            breach(breaches, Invariant::Ceiling, found);
        }
    }
}

fn check_versions(data: &AgentData, live: &[&ExchangeData], breaches: &mut Vec<Breach>) {
    let newest = data.versions.last().map_or(0, |v| v.version);
    if newest != data.version {
        let found = format!("the document is version {}, the newest kept is {newest}", data.version);
        breach(breaches, Invariant::ExactlyOnce, found);
    }
    let skips = |after: i64, through: i64| live.iter().any(|e| e.exchange > after && e.exchange <= through);
    let (first, last) = (data.versions.first(), data.versions.last());
    if let Some(first) = first.filter(|first| first.version == 1 && skips(0, first.covers_after)) {
        let found = format!("version 1 begins after #{}", first.covers_after);
        breach(breaches, Invariant::ExactlyOnce, found);
    }
    let summarized_through = data.row.ledger.summarized_through;
    if let Some(last) = last.filter(|last| skips(last.covers_through, summarized_through)) {
        let found = format!(
            "version {} ends at #{}, the summary at #{summarized_through}",
            last.version, last.covers_through
        );
        breach(breaches, Invariant::ExactlyOnce, found);
    }
    for pair in data.versions.windows(2) {
        let [a, b] = pair else { continue };
        // A version that takes coverage back covers no new exchanges.
        let goes_back = b.covers_after <= a.covers_through && b.covers_after == b.covers_through;
        let follows = b.covers_after >= a.covers_through || (b.goes_back && goes_back);
        if b.version != a.version + 1 || !follows || skips(a.covers_through, b.covers_after) {
            let found = format!(
                "version {} begins after #{}, version {} ended at #{}",
                b.version, b.covers_after, a.version, a.covers_through
            );
            breach(breaches, Invariant::ExactlyOnce, found);
        }
    }
}

/// Checks that one version adds each fact, that at most one later version closes it, and that facts that hold come from covered
/// exchanges.
fn check_facts(data: &AgentData, breaches: &mut Vec<Breach>) {
    for fact in &data.facts {
        let number = fact.fact;
        let closed_version = fact.closed_version.unwrap_or(i64::MAX);
        let is_added = (1..=data.version).contains(&fact.added_version) && number <= fact.last_fact;
        let is_closed = match fact.closed_version {
            Some(version) => fact.added_version < version && version <= data.version,
            None => !fact.is_ended,
        };
        if !is_added || !is_closed {
            let found = format!(
                "fact {number} holds from version {} to {closed_version}, the document is version {}",
                fact.added_version, data.version
            );
            breach(breaches, Invariant::ExactlyOnce, found);
        }
        let is_covered = (0..=data.row.ledger.summarized_through).contains(&fact.exchange);
        if fact.closed_version.is_none() && (!is_covered || fact.is_set_aside) {
            let found =
                format!("fact {number} comes from #{}, which the summary doesn't cover", fact.exchange);
            breach(breaches, Invariant::OneState, found);
        }
    }
    let holding = data.facts.iter().filter(|fact| fact.closed_version.is_none());
    let holding = holding.count();
    if holding > FACTS_MAX {
        breach(breaches, Invariant::Ceiling, format!("{holding} facts hold, {FACTS_MAX} are allowed"));
    }
}

fn check_items(data: &AgentData, live: &[&ExchangeData], breaches: &mut Vec<Breach>) {
    for item in &data.items {
        let sources: Vec<&&ExchangeData> = item
            .ranges
            .iter()
            .flat_map(|range| {
                let from = live.partition_point(|e| e.exchange < range.first);
                let through = live.partition_point(|e| e.exchange <= range.last);
                live.get(from..through).unwrap_or_default()
            })
            .collect();
        let tokens: i64 = sources.iter().map(|e| e.message_tokens).sum();
        let started_at = sources.iter().map(|e| e.opened_at).min();
        let ended_at = sources.iter().map(|e| e.last_at).max();
        let is_right = item.equals_original.unwrap_or(
            tokens == item.source_tokens
                && started_at == Some(item.started_at)
                && ended_at == Some(item.ended_at),
        );
        if !is_right {
            let found = format!(
                "item {} says {} tokens from {} to {}, its exchanges say {tokens}",
                item.item, item.source_tokens, item.started_at, item.ended_at
            );
            breach(breaches, Invariant::ClockAges, found);
        }
    }
}
