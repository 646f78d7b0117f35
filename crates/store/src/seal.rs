//! Seals: hashes that prove that a row is as it was written.
//!
//! Each message has a seal: a hash of a random salt and of everything in the message that never changes. Each link of an agent's
//! chain is a hash of the previous link and the next message's seal, so that no message can be removed, inserted or moved. When a
//! message is forgotten, its salt is removed and its seal stays: the chain is still valid, and the seal can't confirm a guess at
//! the content. Other rows have an unsalted digest, which is recalculated when part of the row is forgotten.
//!
//! Both databases give the same hashes, because texts and times are hashed in the form in which PostgreSQL stores them (texts
//! without U+0000).

use sha2::{Digest as _, Sha256};

use super::sql::value::{in_postgres, without_nul};
use recapd_core::domain::{
    agent::AgentId,
    exchange::Exchange,
    ledger::Eviction,
    summary::{
        fact::Fact,
        item::{ExchangeRange, Item},
    },
    text::hexadecimal,
    time::Timestamp,
    transcript::Voice,
};

pub(super) const SALT_BYTES: usize = 16;

/// Collects the values of a hash, each with its kind and its length, so that no two lists of values give the same bytes.
struct HashInput(Sha256);

impl HashInput {
    fn of(kind: &str) -> Self {
        Self(Sha256::new()).text(kind)
    }

    fn text(mut self, text: &str) -> Self {
        let stored = without_nul(text);
        self.0.update([4]);
        self.0.update((stored.len() as u64).to_be_bytes());
        self.0.update(stored.as_bytes());
        self
    }

    fn optional(mut self, text: Option<&str>) -> Self {
        if let Some(text) = text {
            return self.text(text);
        }
        self.0.update([0]);
        self
    }

    fn int(mut self, number: i64) -> Self {
        self.0.update([1]);
        self.0.update(number.to_be_bytes());
        self
    }

    fn time(self, at: Timestamp) -> Self {
        self.int(in_postgres(at).0)
    }

    fn hash(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

/// The parts of a message that never change, unless the message is forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageRow<'a> {
    pub(super) agent: &'a AgentId,
    pub(super) seq: i64,
    pub(super) exchange: i64,
    pub(super) kind: &'a str,
    pub(super) speaker: Option<&'a str>,
    pub(super) format: &'a str,
    pub(super) payload: &'a str,
    pub(super) tokens: i64,
    pub(super) count_method: &'a str,
    pub(super) client_id: Option<&'a str>,
    pub(super) said_at: Timestamp,
    pub(super) received_at: Timestamp,
}

impl MessageRow<'_> {
    pub(super) fn seal(&self, salt: &str) -> String {
        self.tombstone("message")
            .text(salt)
            .optional(self.speaker)
            .text(self.format)
            .text(self.payload)
            .int(self.tokens)
            .text(self.count_method)
            .hash()
    }

    /// Begins a hash with what remains of a forgotten message.
    fn tombstone(&self, kind: &str) -> HashInput {
        HashInput::of(kind)
            .text(self.agent.as_str())
            .int(self.seq)
            .int(self.exchange)
            .text(self.kind)
            .optional(self.client_id)
            .time(self.said_at)
            .time(self.received_at)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seal {
    pub(super) salt: String,
    pub(super) seal: String,
}

/// The end of the chain of an agent's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// The last link; `None` if there is none yet.
    pub(super) link: Option<String>,
    /// The last message that the chain includes.
    pub(super) through: i64,
}

impl Chain {
    /// Returns true if `seq` is the next message of the chain. It isn't while older messages have no seal yet; until then new
    /// messages get none, either.
    pub(super) fn is_next(&self, seq: i64) -> bool {
        self.through + 1 == seq
    }

    pub(super) fn add(&mut self, row: &MessageRow<'_>, seal: &str) {
        let before = self.link.as_deref();
        self.link = Some(row.tombstone("link").optional(before).text(seal).hash());
        self.through = row.seq;
    }
}

/// Returns the digest of an exchange's row, without the figures that its messages determine. `headline` is in its stored form.
pub(super) fn of_exchange(exchange: &Exchange, headline: &str) -> String {
    HashInput::of("exchange")
        .int(exchange.exchange)
        .int(exchange.session)
        .int(exchange.first_seq)
        .int(exchange.last_seq)
        .text(exchange.state.name())
        .time(exchange.opened_at)
        .time(exchange.last_at)
        .text(headline)
        .hash()
}

pub(super) fn of_eviction(eviction: &Eviction) -> String {
    HashInput::of("eviction")
        .int(eviction.from_exchange)
        .int(eviction.through_exchange)
        .int(eviction.tokens)
        .time(eviction.at)
        .hash()
}

/// Returns the digest of an item. Leaves out its pin, which may change.
pub(super) fn of_item(number: i64, item: &Item) -> String {
    let fields = HashInput::of("item")
        .int(number)
        .text(item.importance.name())
        .text(item.origin.name())
        .time(item.started_at)
        .time(item.ended_at)
        .int(item.source_tokens)
        .text(&item.text)
        .text(&item.brief)
        .text(&item.gist);
    let mut ranges = item.ranges.clone();
    ranges.sort_unstable();
    let add = |fields: HashInput, range: &ExchangeRange| fields.int(range.first).int(range.last);
    ranges.iter().fold(fields, add).hash()
}

/// Returns the digest of a fact. Leaves out its pin, which may change.
pub(super) fn of_fact(number: i64, fact: &Fact) -> String {
    HashInput::of("fact")
        .int(number)
        .text(fact.kind.name())
        .text(&fact.text)
        .optional(fact.voice.map(Voice::name))
        .text(&fact.speaker)
        .time(fact.since)
        .int(fact.exchange)
        .hash()
}

pub(super) fn of_fork(record: &str) -> String {
    HashInput::of("fork").text(record).hash()
}

/// The parts of a version that never change, unless its text is removed. Its tokens are left out; they can be counted again.
#[derive(Clone, Copy, Debug)]
pub(super) struct VersionRow<'a> {
    pub(super) version: i64,
    pub(super) kind: &'a str,
    pub(super) covers_after: i64,
    pub(super) covers_through: i64,
    pub(super) exchanges: i64,
    pub(super) path: &'a str,
    pub(super) content: &'a str,
    pub(super) as_of: Timestamp,
    pub(super) created_at: Timestamp,
    pub(super) made_of: &'a str,
}

impl VersionRow<'_> {
    pub(super) fn digest(&self) -> String {
        HashInput::of("version")
            .int(self.version)
            .text(self.kind)
            .int(self.covers_after)
            .int(self.covers_through)
            .int(self.exchanges)
            .text(self.path)
            .text(self.content)
            .time(self.as_of)
            .time(self.created_at)
            .text(self.made_of)
            .hash()
    }
}

/// Combines the digests of a document's items and facts, each in order of their numbers, into one digest.
pub(super) fn made_of(items: &[String], facts: &[String]) -> String {
    let add = |fields: HashInput, digest: &String| fields.text(digest);
    let fields = items.iter().fold(HashInput::of("made of"), add);
    facts.iter().fold(fields.optional(None), add).hash()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(agent: &'a AgentId, payload: &'a str, seq: i64) -> MessageRow<'a> {
        MessageRow {
            agent,
            seq,
            exchange: 1,
            kind: "user",
            speaker: None,
            format: "native",
            payload,
            tokens: 3,
            count_method: "o200k",
            client_id: None,
            said_at: Timestamp(5),
            received_at: Timestamp(6),
        }
    }

    #[test]
    fn a_seal_depends_on_every_column_and_on_the_salt() {
        let (a, b): (AgentId, AgentId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let plain = row(&a, "x", 1);
        let others = [
            MessageRow { agent: &b, ..plain },
            MessageRow { seq: 2, ..plain },
            MessageRow { exchange: 2, ..plain },
            MessageRow { kind: "tool", ..plain },
            MessageRow { speaker: Some(""), ..plain },
            MessageRow { format: "openai", ..plain },
            MessageRow { payload: "y", ..plain },
            MessageRow { tokens: 4, ..plain },
            MessageRow { count_method: "bytes/3", ..plain },
            MessageRow { client_id: Some(""), ..plain },
            MessageRow { said_at: Timestamp(6), ..plain },
            MessageRow { received_at: Timestamp(5), ..plain },
        ];
        let mut seals: Vec<String> = others.iter().map(|other| other.seal("s")).collect();
        seals.extend([plain.seal("s"), plain.seal("t")]);
        seals.sort_unstable();
        seals.dedup();
        assert_eq!(seals.len(), others.len() + 2);
    }

    #[test]
    fn a_text_is_hashed_as_postgresql_stores_it() {
        let agent: AgentId = "a".parse().unwrap();
        assert_eq!(row(&agent, "a\0b", 1).seal("s"), row(&agent, "a\u{fffd}b", 1).seal("s"));
    }

    #[test]
    fn a_chain_detects_reordering_and_gaps() {
        let agent: AgentId = "a".parse().unwrap();
        let linked = |seals: &[&str]| {
            let mut chain = Chain::default();
            for (seq, seal) in (1..).zip(seals) {
                assert!(chain.is_next(seq));
                chain.add(&row(&agent, "forgotten or not", seq), seal);
            }
            chain.link
        };
        assert_eq!(linked(&["x", "y"]), linked(&["x", "y"]));
        assert_ne!(linked(&["x", "y"]), linked(&["y", "x"]));
        assert_ne!(linked(&["x", "y"]), linked(&["x"]));
        assert_eq!(linked(&[]), None);
    }

    #[test]
    fn items_and_facts_are_hashed_as_separate_lists() {
        let one = |text: &str| vec![text.to_owned()];
        assert_ne!(made_of(&one("a"), &[]), made_of(&[], &one("a")));
    }
}
